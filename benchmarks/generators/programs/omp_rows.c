#include <math.h>
#define N 4096
#pragma omp declare target
static float weight(float a, float b) { return a * expf(-b * b) + sqrtf(fabsf(a - b)); }
#pragma omp end declare target
void rows(int n, int m, const float *a, float *sums, float *most) {
#pragma omp target teams distribute map(to: a[0:n*m]) map(from: sums[0:n], most[0:n])
  for (int i = 0; i < n; i++) {
    float s = 0, t = -INFINITY;
#pragma omp parallel for reduction(+: s) reduction(max: t)
    for (int j = 0; j < m; j++) { float v = weight(a[i * m + j], (float)j / m); s += v; if (v > t) t = v; }
    sums[i] = s;
    most[i] = t;
  }
}
