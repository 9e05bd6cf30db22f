#include <cub/cub.cuh>
__global__ void block_histogram(const unsigned char *a, unsigned *out) {
    using H = cub::BlockHistogram<unsigned char, 128, 4, 256>;
    __shared__ typename H::TempStorage s;
    __shared__ unsigned bins[256];
    unsigned char x[4];
    for (int i = 0; i < 4; i++)
        x[i] = a[blockIdx.x * 512 + i * 128 + threadIdx.x];
    H(s).Histogram(x, bins);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 128)
        atomicAdd(out + i, bins[i]);
}
