#include <math.h>
#define N 4096
#pragma omp declare target
static float weight(float a, float b) { return a * expf(-b * b) + sqrtf(fabsf(a - b)); }
#pragma omp end declare target
float dot(int n, const float *x, const float *y) {
  float s = 0;
#pragma omp target teams distribute parallel for reduction(+: s) map(to: x[0:n], y[0:n])
  for (int i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}
