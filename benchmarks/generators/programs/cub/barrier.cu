#include <cuda/barrier>
__global__ void barrier(int *a, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ B b;
    __shared__ int s[256];
    if (threadIdx.x == 0)
        init(&b, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = a[i * blockDim.x + threadIdx.x];
        b.arrive_and_wait();
        sum += s[blockDim.x - 1 - threadIdx.x];
        b.arrive_and_wait();
    }
    a[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
