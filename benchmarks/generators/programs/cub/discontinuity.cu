#include <cub/cub.cuh>
struct Differ {
    __device__ bool operator()(int a, int b) { return a != b; }
};
__global__ void discontinuity(const int *a, int *heads) {
    using D = cub::BlockDiscontinuity<int, 128>;
    using S = cub::BlockScan<int, 128>;
    __shared__ typename D::TempStorage d;
    __shared__ typename S::TempStorage s;
    int x[2], h[2], total, at = (blockIdx.x * 128 + threadIdx.x) * 2;
    x[0] = a[at];
    x[1] = a[at + 1];
    D(d).FlagHeads(h, x, Differ());
    S(s).InclusiveSum(h, h, total);
    heads[at] = h[0];
    heads[at + 1] = h[1];
}
