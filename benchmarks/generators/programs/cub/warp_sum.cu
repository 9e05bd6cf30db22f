#include <cub/cub.cuh>
__global__ void warp_sum(const float *a, float *out, int rows, int columns) {
    using R = cub::WarpReduce<float>;
    __shared__ typename R::TempStorage s[4];
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    float x = 0;
    for (int i = threadIdx.x % 32; i < columns; i += 32)
        x += row < rows ? a[row * columns + i] : 0;
    x = R(s[threadIdx.x / 32]).Sum(x);
    if (threadIdx.x % 32 == 0 && row < rows)
        out[row] = x;
}
