// What factorizations begin and end with. Before this text: device.cuh. Numbers are double. Every
// kernel but `check_matrix` loops over its work with any number of blocks. `info` is not 0 where a
// library found no factors: the results are NaN then.

// info[0] = 1 if a number of a [k x k] is infinite or NaN: then all of them become 0, and the library
// that comes next is not asked about them. For one block.
extern "C" __global__ void check_matrix(i64 k, double* a, int* info) {
  if (threadIdx.x == 0) info[0] = info[1] = 0;
  __syncthreads();
  for (i64 e = threadIdx.x; e < k * k; e += blockDim.x)
    if (!(fabs(a[e]) < BL_INF(double))) info[1] = 1;
  __syncthreads();
  if (!info[1]) return;
  for (i64 e = threadIdx.x; e < k * k; e += blockDim.x) a[e] = 0.0;
}

// Zeros above the diagonal of a [k x k].
extern "C" __global__ void end_cholesky(i64 k, double* a, const int* info) {
  for (i64 e = BL_THREAD; e < k * k; e += BL_THREADS)
    a[e] = info[0] ? BL_NAN(double) : e % k > e / k ? 0.0 : a[e];
}

// out [n x k] = source, stored by columns.
extern "C" __global__ void end_columns(i64 n, i64 k, const double* source, double* out, const int* info) {
  for (i64 e = BL_THREAD; e < n * k; e += BL_THREADS)
    out[e] = info[0] ? BL_NAN(double) : source[e % k * n + e / k];
}

// r [k x k] = the triangle in `source`, [n x k] by columns, with signs that make its diagonal positive.
extern "C" __global__ void end_upper(i64 n, i64 k, const double* source, double* r, double* signs) {
  for (i64 e = BL_THREAD; e < k * k; e += BL_THREADS) {
    const i64 i = e / k, j = e % k;
    const double sign = source[i * n + i] < 0.0 ? -1.0 : 1.0;
    r[e] = i > j ? 0.0 : sign * source[j * n + i];
    if (j == 0) signs[i] = sign;
  }
}

// q [n x k] = source, stored by columns, times the signs of columns.
extern "C" __global__ void end_orthonormal(i64 n, i64 k, const double* source, const double* signs,
    double* q) {
  for (i64 e = BL_THREAD; e < n * k; e += BL_THREADS) q[e] = signs[e % k] * source[e % k * n + e / k];
}

// vectors [k x k] = source, stored by columns, each with the sign that makes its largest entry by
// magnitude positive, the first of equal ones.
extern "C" __global__ void end_vectors(i64 k, const double* source, double* values, double* vectors,
    const int* info) {
  const bool none = info[0] || info[1];
  for (i64 j = BL_THREAD; j < k; j += BL_THREADS) {
    double most = 0.0, sign = 1.0;
    for (i64 i = 0; i < k; ++i) {
      const double x = source[j * k + i];
      if (fabs(x) > most) {
        most = fabs(x);
        sign = x < 0.0 ? -1.0 : 1.0;
      }
    }
    for (i64 i = 0; i < k; ++i) vectors[i * k + j] = none ? BL_NAN(double) : sign * source[j * k + i];
    if (none) values[j] = BL_NAN(double);
  }
}
