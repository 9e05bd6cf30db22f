void dynamic(const int *a, float *out, int n) {
#pragma omp target teams num_teams(2) map(to : a[0 : n]) map(from : out[0 : n])
#pragma omp distribute
    for (int block = 0; block < 2; block++) {
        float shared_row[64];
        for (int i = 0; i < 64; i++)
            shared_row[i] = block + i;
#pragma omp parallel for schedule(dynamic, 2) num_threads(64)
        for (int i = block; i < n; i += 2) {
            float sum = 0;
            for (int k = 0; k < a[i] % 64; k++)
                sum += shared_row[k];
            out[i] = sum;
        }
    }
}
