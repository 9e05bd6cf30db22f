#include <cuda/barrier>
#include <cuda/ptx>
__global__ void tma_bulk(float *a, int n) {
    using B = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(128) float s[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ B b;
    if (threadIdx.x == 0) {
        init(&b, blockDim.x);
    }
    __syncthreads();
    B::arrival_token t;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(s, a + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof(s)), b);
    }
    t = b.arrive();
    b.wait(std::move(t));
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        s[i] *= 2;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, a + blockIdx.x * 256, s, sizeof(s));
        cuda::ptx::cp_async_bulk_commit_group();
        cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    }
}
