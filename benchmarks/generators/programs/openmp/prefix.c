void prefix(int *a, int *sums, int n) {
#pragma omp target teams num_teams(1) thread_limit(128) map(tofrom : a[0 : n], sums[0 : n])
    {
        int from[128], to[128];
#pragma omp parallel for
        for (int i = 0; i < 128; i++)
            from[i] = i < n ? a[i] : 0;
        for (int step = 1; step < 128; step *= 2) {
#pragma omp parallel for
            for (int i = 0; i < 128; i++)
                to[i] = from[i] + (i >= step ? from[i - step] : 0);
#pragma omp parallel for
            for (int i = 0; i < 128; i++)
                from[i] = to[i];
        }
#pragma omp parallel for
        for (int i = 0; i < 128; i++)
            if (i < n)
                sums[i] = from[i];
    }
}
