#include <cub/cub.cuh>
__global__ void block_sort(unsigned *keys, int *values) {
    using S = cub::BlockRadixSort<unsigned, 128, 2, int>;
    __shared__ typename S::TempStorage s;
    unsigned k[2];
    int v[2];
    int at = (blockIdx.x * 128 + threadIdx.x) * 2;
    for (int i = 0; i < 2; i++)
        k[i] = keys[at + i], v[i] = values[at + i];
    S(s).Sort(k, v, 0, 8);
    for (int i = 0; i < 2; i++)
        keys[at + i] = k[i], values[at + i] = v[i];
}
