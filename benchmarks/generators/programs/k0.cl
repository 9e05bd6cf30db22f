__kernel void saxpy(int n, float a, __global const float *x, __global float *y) { int i = get_global_id(0); if (i < n) y[i] += a * x[i]; }
__kernel void reduce(__global const float *x, __global float *out, __local float *s, int n) {
  int t = get_local_id(0), i = get_global_id(0);
  float v = 0;
  for (; i < n; i += get_global_size(0)) v += x[i];
  s[t] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = get_local_size(0) / 2; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[get_group_id(0)] = s[0];
}
