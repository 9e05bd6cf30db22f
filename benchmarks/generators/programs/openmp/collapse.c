void stencil(const float *a, float *b, int n, int steps) {
#pragma omp target data map(to : a[0 : n * n * n]) map(from : b[0 : n * n * n])
    for (int t = 0; t < steps; t++) {
#pragma omp target teams distribute parallel for collapse(3) thread_limit(256)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                for (int k = 1; k < n - 1; k++)
                    b[(i * n + j) * n + k] =
                        a[((i - 1) * n + j) * n + k] + a[((i + 1) * n + j) * n + k] + a[(i * n + j) * n + k + 1];
#pragma omp target teams loop
        for (int i = 0; i < n * n; i++)
            b[i] += 1;
    }
}
