#include <cub/cub.cuh>
__global__ void exchange(int *a) {
    using X = cub::BlockExchange<int, 128, 4>;
    __shared__ typename X::TempStorage s;
    int x[4], at = blockIdx.x * 512 + threadIdx.x;
    for (int i = 0; i < 4; i++)
        x[i] = a[at + i * 128];
    X(s).StripedToBlocked(x, x);
    __syncthreads();
    for (int i = 0; i < 4; i++)
        x[i] += i;
    X(s).BlockedToStriped(x, x);
    for (int i = 0; i < 4; i++)
        a[at + i * 128] = x[i];
}
