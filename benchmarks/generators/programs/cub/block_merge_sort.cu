#include <cub/cub.cuh>
struct Less {
    __device__ bool operator()(int a, int b) { return a < b; }
};
__global__ void block_merge_sort(int *keys, int n) {
    using S = cub::BlockMergeSort<int, 64, 4>;
    __shared__ typename S::TempStorage s;
    int k[4];
    int at = blockIdx.x * 256;
    for (int i = 0; i < 4; i++)
        k[i] = at + threadIdx.x * 4 + i < n ? keys[at + threadIdx.x * 4 + i] : 0x7fffffff;
    S(s).Sort(k, Less());
    for (int i = 0; i < 4; i++)
        if (at + threadIdx.x * 4 + i < n)
            keys[at + threadIdx.x * 4 + i] = k[i];
}
