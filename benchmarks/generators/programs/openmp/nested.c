void nested(const float *a, float *out, int rows, int columns) {
#pragma omp target teams distribute map(to : a[0 : rows * columns]) map(from : out[0 : rows])
    for (int r = 0; r < rows; r++) {
        float sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (int c = 0; c < columns; c++)
            sum += a[r * columns + c] * a[r * columns + c];
        out[r] = sum;
#pragma omp parallel for
        for (int c = 0; c < columns; c++)
            if (c == r)
                out[r] -= a[r * columns + c];
    }
}
