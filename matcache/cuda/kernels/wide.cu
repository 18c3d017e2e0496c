// Sums over the rows in float64: see wide.py.

// total[c, j] += sum over i of X[i, c] * table[i, j] * weights[i]; X [rows x n], table [rows x k]. A
// thread has an entry of the total, and goes through the rows in order.
extern "C" __global__ void add_wide_product(i64 rows, i64 n, i64 k, const float* X,
    const float* table, const float* weights, double* total) {
  for (i64 e = BL_THREAD; e < n * k; e += BL_THREADS) {
    const i64 c = e / k, j = e - c * k;
    double sum = 0.0;
    for (i64 i = 0; i < rows; ++i)
      sum += (double)X[i * n + c] * ((double)table[i * k + j] * (double)weights[i]);
    total[e] += sum;
  }
}
