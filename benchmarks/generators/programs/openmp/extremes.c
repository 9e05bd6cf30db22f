void extremes(const double *a, double *out, int n) {
    double low = a[0], high = a[0], sum = 0;
    int odd = 0, any = 0;
#pragma omp target teams distribute parallel for simd map(tofrom : low, high, sum, odd, any) reduction(min : low)      \
    reduction(max : high) reduction(+ : sum) reduction(^ : odd) reduction(|| : any)
    for (int i = 0; i < n; i++) {
        double x = a[i];
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum += x;
        odd ^= i;
        any = any || x < 0;
    }
    out[0] = low;
    out[1] = high;
    out[2] = sum;
    out[3] = odd;
    out[4] = any;
}
