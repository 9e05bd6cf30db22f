void last(const int *a, int *out, int n) {
    int last = 0, count = 0;
#pragma omp target teams distribute parallel for map(tofrom : last, count) lastprivate(last) schedule(static, 4)       \
    dist_schedule(static, 64)
    for (int i = 0; i < n; i++) {
        last = a[i];
        if (a[i] > 3) {
#pragma omp atomic update
            count++;
        }
    }
    out[0] = last;
    out[1] = count;
}
