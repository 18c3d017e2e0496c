// Kernels of single operations. Before this text: device.cuh, and the types of numbers:
// V numbers, T table, O out. Every kernel loops over its work with any number of blocks.
// Sums run in a fixed order: no atomics.

// sums[block, j], parts[block, j]: exact sum and largest |term| of the block's share of the rows of
// table [rows x k], column j, times weights [rows] (0 if all are 1).
extern "C" __global__ void exact_columns(i64 rows, i64 k, const T* table, const float* weights,
    const double* grid, double* sums, double* parts) {
  const i64 first = rows * blockIdx.x / gridDim.x, last = rows * (blockIdx.x + 1) / gridDim.x;
  for (i64 j = threadIdx.x; j < k; j += blockDim.x) {
    const double g = grid[j];
    double sum = 0.0, largest = 0.0;
    for (i64 i = first; i < last; ++i) {
      const double term = (double)table[i * k + j] * (weights ? (double)weights[i] : 1.0);
      largest = fabs(term) > largest ? fabs(term) : largest;
      sum += BL_MINUS(BL_PLUS(term, g), g);
    }
    sums[(i64)blockIdx.x * k + j] = sum;
    parts[(i64)blockIdx.x * k + j] = largest;
  }
}

// total[j] += sum of sums[:, j], where there are any; largest[j]: of itself and of parts[:, j].
extern "C" __global__ void end_exact(i64 count, i64 k, const double* sums, const double* parts,
    double* total, double* largest) {
  for (i64 j = BL_THREAD; j < k; j += BL_THREADS) {
    double most = largest[j];
    for (i64 n = 0; n < count; ++n) most = parts[n * k + j] > most ? parts[n * k + j] : most;
    largest[j] = most;
    if (!sums) continue;
    double sum = total[j];
    for (i64 n = 0; n < count; ++n) sum += sums[n * k + j];
    total[j] = sum;
  }
}

#define ACROSS (BL_BLOCK < 8 ? 1 : 8)  // columns of a block of threads
#define DOWN (BL_BLOCK / ACROSS)  // threads that share a column: each has every DOWN-th row

// out[j] = parts[:, j], [count x columns], joined: ends every sum over rows.
template <class Join> __device__ __forceinline__ void end(i64 count, i64 columns, const double* parts, O* out,
    double first, Join join) {
  __shared__ double own[DOWN][ACROSS];
  const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  for (i64 start = (i64)blockIdx.x * ACROSS; start < columns; start += (i64)gridDim.x * ACROSS) {
    const i64 j = start + across;
    double all = first;
    if (j < columns)
#pragma unroll 4
      for (i64 n = down; n < count; n += DOWN) all = join(all, parts[n * columns + j]);
    __syncthreads();
    own[down][across] = all;
    __syncthreads();
    if (down > 0 || j >= columns) continue;
    for (int n = 1; n < DOWN; ++n) all = join(all, own[n][across]);
    out[j] = (O)all;
  }
}
extern "C" __global__ void end_sum(i64 count, i64 columns, const double* parts, O* out) {
  end(count, columns, parts, out, 0.0, [](double a, double b) { return a + b; });
}
// NaN is the largest.
extern "C" __global__ void end_max(i64 count, i64 columns, const double* parts, O* out) {
  end(count, columns, parts, out, -BL_INF(double), [](double a, double b) { return bl_maximum(a, b); });
}

// target[at_rows[i], at_columns[j]] = source[i * tall, j * wide], or plus it, [count x m], for ascending
// i; columns differ. A block has rows of the target, a thread columns: the order is fixed. A row out of
// range is noted in *bad as its number plus one; then nothing is written.
extern "C" __global__ void scatter(i64 rows, i64 columns, V* target, i64 count, i64 m,
    const i64* at_rows, const i64* at_columns, i64 tall, i64 wide, i64 width, const T* source, i64 add,
    i64* bad) {
  const i64 first = rows * blockIdx.x / gridDim.x, last = rows * (blockIdx.x + 1) / gridDim.x;
  for (i64 i = 0; i < count; ++i)
    if (at_rows[i] < 0 || at_rows[i] >= rows) {
      *bad = i + 1;
      return;
    }
  for (i64 i = 0; i < count; ++i) {
    const i64 r = at_rows[i];
    if (r < first || r >= last) continue;
    for (i64 j = threadIdx.x; j < m; j += blockDim.x) {
      V* to = target + r * columns + at_columns[j];
      const V x = (V)source[i * tall * width + j * wide];
      *to = add ? (V)(*to + x) : x;
    }
  }
}

// out [1 x k] = the diagonal of source [k x k].
extern "C" __global__ void diagonal(i64 k, const V* source, V* out) {
  for (i64 j = BL_THREAD; j < k; j += BL_THREADS) out[j] = source[j * k + j];
}

// out[i, j] = source[at_rows[i], at_columns[j]], [n x m]; a place out of range is noted in bad[axis] as
// its number plus one, any of them, and gives 0.
extern "C" __global__ void gather(i64 rows, i64 columns, const V* source, i64 n, i64 m,
    const i64* at_rows, const i64* at_columns, V* out, i64* bad) {
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS) {
    const i64 i = e / m, j = e - i * m, r = at_rows[i], c = at_columns[j];
    if (r < 0 || r >= rows) bad[0] = i + 1;
    if (c < 0 || c >= columns) bad[1] = j + 1;
    out[e] = r < 0 || r >= rows || c < 0 || c >= columns ? V(0) : source[r * columns + c];
  }
}
