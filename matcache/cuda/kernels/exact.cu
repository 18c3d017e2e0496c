// Sums of transposed products that are exact, and so the same in any order: see exact.py. V, T: types of
// values and table, float; P of positions. A block has a column, so that long ones are shared by its warps.

// total[c, j] += sum over the entries (i, c) of value * table[i, j] * weights[i], each term rounded to
// grid[j]; for the columns that occur. weights: 0 if all are 1. parts[block, j]: the largest |term| that the block met. k columns of the table.
extern "C" __global__ void add_exact_product(const i64* count, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const V* values, const T* table, const float* weights, i64 k,
    const double* grid, double* parts, double* total) {
  __shared__ double sums[BL_BLOCK];
  const i64 columns = *count;
  const int group = threadIdx.x / BL_LANES;
  for (i64 j0 = 0; j0 < k; j0 += BL_LANES) {
    const i64 j = j0 + BL_LANE < k ? j0 + BL_LANE : k - 1;
    const double g = grid[j];
    double largest = 0.0;
    for (i64 a = blockIdx.x; a < columns; a += gridDim.x) {
      double sum = 0.0;
      for (i64 e = starts[a] + group; e < starts[a + 1]; e += BL_GROUPS) {
        const i64 i = t_rows[e];
        const double w = weights ? (double)weights[i] : 1.0;
        const double term = (double)values[t_pos[e]] * (double)table[i * k + j] * w;
        largest = fabs(term) > largest ? fabs(term) : largest;
        sum += BL_MINUS(BL_PLUS(term, g), g);
      }
      sums[threadIdx.x] = sum;
      __syncthreads();
      if (group == 0 && j0 + BL_LANE < k) {
        for (int o = 1; o < BL_GROUPS; ++o) sum += sums[o * BL_LANES + BL_LANE];
        total[(i64)active[a] * k + j] += sum;
      }
      __syncthreads();
    }
    sums[threadIdx.x] = largest;
    __syncthreads();
    if (group == 0 && j0 + BL_LANE < k) {
      for (int o = 1; o < BL_GROUPS; ++o) {
        const double other = sums[o * BL_LANES + BL_LANE];
        largest = other > largest ? other : largest;
      }
      parts[(i64)blockIdx.x * k + j] = largest;
    }
    __syncthreads();
  }
}
