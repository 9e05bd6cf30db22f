#define B 16
__kernel __attribute__((reqd_work_group_size(B, B, 1))) void matmul(__global const float *a, __global const float *b, __global float *c, int n) {
  __local float sa[B][B], sb[B][B];
  int x = get_local_id(0), y = get_local_id(1), col = get_global_id(0), row = get_global_id(1);
  float s = 0;
  for (int k = 0; k < n; k += B) {
    sa[y][x] = a[row * n + k + x];
    sb[y][x] = b[(k + y) * n + col];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < B; j++) s = mad(sa[y][j], sb[j][x], s);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + col] = s;
}
__kernel void transpose(__global const float *a, __global float *b, __local float *tile, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1), n = get_local_size(0);
  if (x < w && y < h) tile[ly * (n + 1) + lx] = a[y * w + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  x = get_group_id(1) * n + lx; y = get_group_id(0) * n + ly;
  if (x < h && y < w) b[y * h + x] = tile[lx * (n + 1) + ly];
}
