#include <cub/cub.cuh>
__global__ void block_sum(const float *a, float *out, int n) {
    using R = cub::BlockReduce<float, 256>;
    __shared__ typename R::TempStorage s;
    float x = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        x += a[i];
    float sum = R(s).Sum(x);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}
