#include <omp.h>
void phases(int *a, int *b, int n) {
#pragma omp target teams num_teams(1) map(tofrom : a[0 : n], b[0 : n])
#pragma omp parallel
    {
        int id = omp_get_thread_num(), all = omp_get_num_threads();
        for (int i = id; i < n; i += all)
            b[i] = a[i] * 2;
#pragma omp barrier
        for (int i = id; i < n; i += all)
            a[i] = b[n - 1 - i];
#pragma omp single
        a[0] += b[0];
#pragma omp critical
        b[0] += id;
#pragma omp barrier
#pragma omp master
        a[n - 1] = b[0];
    }
}
