__kernel void scan(__global int *x, __local int *s, __global int *sums, int n) {
  int t = get_local_id(0), i = get_global_id(0), m = get_local_size(0);
  s[t] = i < n ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 1; d < m; d <<= 1) {
    int v = t >= d ? s[t - d] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    s[t] += v;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i < n) x[i] = s[t];
  if (t == m - 1) sums[get_group_id(0)] = s[t];
}
__kernel void bitonic(__global uint *x, uint stage, uint pass) {
  uint t = get_global_id(0), d = 1u << (stage - pass), left = (t % d) + (t / d) * 2 * d, right = left + d;
  uint a = x[left], b = x[right];
  int up = ((t >> stage) & 1) == 0;
  x[left] = up ? min(a, b) : max(a, b);
  x[right] = up ? max(a, b) : min(a, b);
}
__kernel void nbody(__global const float4 *p, __global float4 *v, __local float4 *s, int n, float dt, float eps) {
  int i = get_global_id(0), t = get_local_id(0), m = get_local_size(0);
  float4 me = p[i], a = 0;
  for (int k = 0; k < n; k += m) {
    s[t] = p[k + t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < m; j++) { float4 d = s[j] - me; float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + eps); a += s[j].w * r * r * r * d; }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  v[i] += dt * a;
}
