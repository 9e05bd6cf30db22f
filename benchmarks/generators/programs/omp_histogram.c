#include <math.h>
#define N 4096
#pragma omp declare target
static float weight(float a, float b) { return a * expf(-b * b) + sqrtf(fabsf(a - b)); }
#pragma omp end declare target
void histogram(int n, const unsigned char *x, int *bins) {
#pragma omp target teams distribute parallel for map(to: x[0:n]) map(tofrom: bins[0:256])
  for (int i = 0; i < n; i++) {
#pragma omp atomic
    bins[x[i]]++;
  }
}
