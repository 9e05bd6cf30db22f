#include <cooperative_groups.h>
#include <cuda/pipeline>
__global__ void pipeline(const float *a, float *out, int n) {
    auto group = cooperative_groups::this_thread_block();
    __shared__ float s[2][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(group, &state);
    float sum = 0;
    for (int in = 0, i = 0; i < n; i++) {
        for (; in < n && in < i + 2; in++) {
            pipe.producer_acquire();
            cuda::memcpy_async(group, s[in % 2], a + in * 128, sizeof(float) * 128, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += s[i % 2][127 - threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
