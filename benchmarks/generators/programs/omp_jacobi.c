#include <math.h>
#define N 4096
#pragma omp declare target
static float weight(float a, float b) { return a * expf(-b * b) + sqrtf(fabsf(a - b)); }
#pragma omp end declare target
void jacobi(int n, const float *a, float *b, float *error) {
  float e = 0;
#pragma omp target teams distribute parallel for collapse(2) reduction(max: e) map(to: a[0:n*n]) map(tofrom: b[0:n*n])
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++) {
      b[i * n + j] = 0.25f * (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1]);
      float d = fabsf(b[i * n + j] - a[i * n + j]);
      if (d > e) e = d;
    }
  *error = e;
}
