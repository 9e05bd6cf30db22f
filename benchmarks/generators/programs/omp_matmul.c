#include <math.h>
#define N 4096
#pragma omp declare target
static float weight(float a, float b) { return a * expf(-b * b) + sqrtf(fabsf(a - b)); }
#pragma omp end declare target
void matmul(int n, const double *a, const double *b, double *c) {
#pragma omp target teams distribute map(to: a[0:n*n], b[0:n*n]) map(from: c[0:n*n])
  for (int i = 0; i < n; i++) {
#pragma omp parallel for
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s;
    }
  }
}
