void array_sum(const float *a, float *total, int n) {
    float sums[8] = {0};
#pragma omp target teams distribute parallel for map(to : a[0 : n * 8]) map(tofrom : sums[0 : 8])                      \
    reduction(+ : sums[0 : 8])
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 8; k++)
            sums[k] += a[i * 8 + k];
    for (int k = 0; k < 8; k++)
        total[k] = sums[k];
}
