void tasks(int *a, int n) {
#pragma omp target map(tofrom : a[0 : n])
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < n; i++)
#pragma omp task firstprivate(i)
            a[i] += i;
#pragma omp taskwait
        a[0] = a[n - 1];
    }
}
