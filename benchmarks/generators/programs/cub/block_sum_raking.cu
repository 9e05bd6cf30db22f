#include <cub/cub.cuh>
__global__ void block_sum_raking(const int *a, int *out, int n) {
    using R = cub::BlockReduce<int, 192, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename R::TempStorage s;
    int i = blockIdx.x * 192 + threadIdx.x;
    int left = n - blockIdx.x * 192;
    int sum = R(s).Sum(i < n ? a[i] : 0, left < 192 ? left : 192);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}
