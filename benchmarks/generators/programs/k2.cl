__kernel void histogram(__global const uchar *x, __global int *bins, int n) {
  __local int h[256];
  for (int i = get_local_id(0); i < 256; i += get_local_size(0)) h[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&h[x[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_local_id(0); i < 256; i += get_local_size(0)) atomic_add(&bins[i], h[i]);
}
__kernel void blur(__global const uchar4 *in, __global uchar4 *out, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x >= w || y >= h) return;
  float4 s = 0;
  for (int j = -1; j <= 1; j++) for (int i = -1; i <= 1; i++) s += convert_float4(in[clamp(y + j, 0, h - 1) * w + clamp(x + i, 0, w - 1)]);
  out[y * w + x] = convert_uchar4_sat(s / 9.0f);
}
