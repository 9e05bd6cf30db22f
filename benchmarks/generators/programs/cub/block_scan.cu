#include <cub/cub.cuh>
__global__ void block_scan(const int *a, int *out, int n) {
    using S = cub::BlockScan<int, 128>;
    using L = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using W = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        typename S::TempStorage s;
        typename L::TempStorage l;
        typename W::TempStorage w;
    } t;
    int x[4], first = blockIdx.x * 512;
    L(t.l).Load(a + first, x, n - first, 0);
    __syncthreads();
    S(t.s).ExclusiveSum(x, x);
    __syncthreads();
    W(t.w).Store(out + first, x, n - first);
}
