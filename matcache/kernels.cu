// CUDA kernels written by hand: the counterparts of cpu_kernels.py. Includes device.cuh.

// out[c] = sum over the non-zeros (r, c) of value * table[r] for the active columns c; one warp per
// column, rows ascending: a fixed order, no atomics. Zero `out` first: other columns are not written.
// values [nnz], table [rows x k], out [columns x k].
template <class P>
__device__ __forceinline__ void transposed_product(i64 active_count, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const float* values, const float* table, int k, float* out) {
  for (i64 a = BL_WARP; a < active_count; a += BL_WARPS) {
    float* row = out + (i64)active[a] * k;
    const i64 p = starts[a], q = starts[a + 1];
    for (int t = BL_LANE; t < k; t += BL_LANES) {
      float sum = 0.0f;
      for (i64 e = p; e < q; ++e) sum += values[t_pos[e]] * table[(i64)t_rows[e] * k + t];
      row[t] = sum;
    }
  }
}
extern "C" __global__ void transposed_product_32(i64 active_count, const int* active, const i64* starts,
    const int* t_rows, const int* t_pos, const float* values, const float* table, int k, float* out) {
  transposed_product<int>(active_count, active, starts, t_rows, t_pos, values, table, k, out);
}
extern "C" __global__ void transposed_product_64(i64 active_count, const int* active, const i64* starts,
    const int* t_rows, const i64* t_pos, const float* values, const float* table, int k, float* out) {
  transposed_product<i64>(active_count, active, starts, t_rows, t_pos, values, table, k, out);
}

// out[j] = sum over chunks of partials[chunk, j], chunk by chunk: ends every sum over rows.
template <class F>
__device__ __forceinline__ void add_partials(const double* partials, int chunks, int columns, F* out) {
  for (i64 j = BL_THREAD; j < columns; j += BL_THREADS) {
    double sum = 0.0;
    for (int chunk = 0; chunk < chunks; ++chunk) sum += partials[(i64)chunk * columns + j];
    out[j] = (F)sum;
  }
}
extern "C" __global__ void add_partials_f32(const double* partials, int chunks, int columns, float* out) {
  add_partials<float>(partials, chunks, columns, out);
}
extern "C" __global__ void add_partials_f64(const double* partials, int chunks, int columns, double* out) {
  add_partials<double>(partials, chunks, columns, out);
}
