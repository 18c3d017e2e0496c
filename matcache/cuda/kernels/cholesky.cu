// Normal equations: the counterparts of cpu/cholesky.py. K: unknowns, at most 130; GRAM, MASKED,
// SCALED: 0 or 1; T: type of the table; SIDE: of a square, 1, 2, 4 or 8.
// A block of threads has one symmetric matrix. While it is summed, each thread holds a square of SIDE x
// SIDE numbers of its upper half in registers; then it goes into shared memory, its upper half row by
// row, where it is factored. Every sum is one chain in the order of the entries.

#define TRIANGLE (K * (K + 1) / 2)
#define SQUARES ((K + SIDE - 1) / SIDE)  // along a side
#define WIDE (SQUARES * SIDE)
#define PARTS (SQUARES * (SQUARES + 1) / 2)
#define OWN ((PARTS + BL_BLOCK - 1) / BL_BLOCK)  // of a thread
#define PACK (SIDE < 4 ? SIDE : 4)  // numbers that are read at once
#define BATCH 8  // entries at a time
#define SHARED (BL_BLOCK > 128 ? 3 : 4)  // blocks of a processor, as registers allow
#define FLOOR 1e-6f  // of a pivot, in parts of the diagonal it came from
#define GRID (BL_BLOCK >= 256 ? 16 : BL_BLOCK >= 64 ? 8 : 1)  // threads along a side of the matrix

__device__ __forceinline__ int upper(int r, int c) { return r * K - r * (r - 1) / 2 + c - r; }
// The place of (r, c), c >= r, in the packed matrix of cpu_cholesky.py.
__device__ __forceinline__ int packed(int r, int c) {
  const int padded = (K + 15) / 16 * 16, g = r / 16, first = 16 * g;
  return 16 * (g * padded - 8 * g * (g - 1)) + (r - first) * (padded - first) + c - first;
}
// The distance of (r, c) and (r + 1, c), of the same 16 rows.
__device__ __forceinline__ int below(int r) { return (K + 15) / 16 * 16 - r / 16 * 16; }
#define PACKED (16 * ((K + 15) / 16) * ((K + 15) / 16 + 1) / 2 * 16)

// A thread's squares: which ones they are, and their numbers.
struct Squares {
  int row[OWN], column[OWN];
  float x[OWN][SIDE][SIDE];
  __device__ __forceinline__ Squares() {
#pragma unroll
    for (int o = 0; o < OWN; ++o) {
      int part = threadIdx.x + o * BL_BLOCK, r = 0;
      if (part >= PARTS) part = PARTS;
      while (part < PARTS && part >= SQUARES - r) part -= SQUARES - r++;
      row[o] = part < PARTS ? r * SIDE : WIDE;
      column[o] = (r + part) * SIDE;
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; ++b) x[o][a][b] = 0.0f;
    }
  }
  // do(at, x) for packs of whole squares; `at` is their place in a packed matrix, which has room for them
  template <class Do> __device__ __forceinline__ void packs(Do what) {
#pragma unroll
    for (int o = 0; o < OWN; ++o) {
      if (row[o] >= WIDE) continue;
      const int first = packed(row[o], column[o]), stride = below(row[o]);
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; b += PACK) what(first + a * stride + b, x[o][a] + b);
    }
  }
  // do(r, c, x) for all numbers of the upper half
  template <class Do> __device__ __forceinline__ void each(Do what) {
#pragma unroll
    for (int o = 0; o < OWN; ++o)
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; ++b) {
          const int r = row[o] + a, c = column[o] + b;
          if (r < K && c < K && r <= c) what(r, c, x[o][a][b]);
        }
  }
  // Add weight(e) v v' of the entries e from p to q, v row(e) of the table.
  template <class Row, class Weight>
  __device__ __forceinline__ void add(i64 p, i64 q, const T* table, Row row_of, Weight weight_of) {
    alignas(16) __shared__ float v[BATCH][WIDE];
    __shared__ float w[BATCH];
    for (i64 e = p; e < q; e += BATCH) {
      const int count = q - e < BATCH ? (int)(q - e) : BATCH;
      __syncthreads();
      for (int n = threadIdx.x; n < BATCH; n += BL_BLOCK) w[n] = n < count ? weight_of(e + n) : 0.0f;
      for (int place = threadIdx.x; place < BATCH * WIDE; place += BL_BLOCK) {
        const int n = place / WIDE, c = place % WIDE;
        v[n][c] = n < count && c < K ? (float)table[row_of(e + n) * K + c] : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int o = 0; o < OWN; ++o) {
        if (row[o] >= WIDE) continue;
        for (int n = 0; n < count; ++n) {
          float left[SIDE], right[SIDE];
#pragma unroll
          for (int a = 0; a < SIDE; a += PACK) {
            bl_load<PACK>(left + a, &v[n][row[o] + a]);
            bl_load<PACK>(right + a, &v[n][column[o] + a]);
          }
#pragma unroll
          for (int a = 0; a < SIDE; ++a) left[a] *= w[n];
#pragma unroll
          for (int a = 0; a < SIDE; ++a)
#pragma unroll
            for (int b = 0; b < SIDE; ++b) x[o][a][b] = fma(left[a], right[b], x[o][a][b]);
        }
      }
    }
  }
};

// (A + D) x = b, D diagonal, see BL_DIAGONAL: A becomes U with the reciprocals of its diagonal, A + D = U'U.
// All of the block come here, after A was written.
#define BL_DIAGONAL(r) (SCALED ? ridge * scaling[r] + shift[r] : ridge)
__device__ __forceinline__ void solve(float* A, float ridge, const float* free, const float* scaling,
    const float* shift, const float* b, float* x) {
  __shared__ float y[K], least[K];
  __syncthreads();
  for (int r = threadIdx.x; r < K; r += BL_BLOCK) {
    float right = b[r];
    if (MASKED && free[r] != 0.0f)  // what is known goes to the right side
      for (int c = 0; c < K; ++c)
        if (free[c] == 0.0f) right -= A[r < c ? upper(r, c) : upper(c, r)] * b[c];
    y[r] = right;
  }
  __syncthreads();
  if (MASKED) {
    for (int r = threadIdx.x / GRID; r < K; r += GRID)
      for (int c = r + threadIdx.x % GRID; c < K; c += GRID)
        if (threadIdx.x < GRID * GRID && (free[r] == 0.0f || free[c] == 0.0f))
          A[upper(r, c)] = r == c ? 1.0f : 0.0f;
    __syncthreads();
  }
  for (int r = threadIdx.x; r < K; r += BL_BLOCK) {
    if (!MASKED || free[r] != 0.0f) A[upper(r, r)] += BL_DIAGONAL(r);
    least[r] = FLOOR * A[upper(r, r)];
  }
  for (int j = 0; j < K; ++j) {
    float* row = A + upper(j, j) - j;
    __syncthreads();
    const float pivot = row[j];  // where no equation determines x[j], it is 0
    const bool loose = ridge == 0.0f && !(pivot > least[j]);
    const float scale = loose ? 0.0f : 1.0f / sqrt(pivot > least[j] ? pivot : least[j]);
    __syncthreads();
    for (int c = j + threadIdx.x; c < K; c += BL_BLOCK) row[c] = c == j ? scale : row[c] * scale;
    __syncthreads();
    const float found = y[j] * row[j];
    for (int c = j + 1 + threadIdx.x; c < K; c += BL_BLOCK) y[c] -= found * row[c];
    if (threadIdx.x < GRID * GRID)
      for (int r = j + 1 + threadIdx.x / GRID; r < K; r += GRID)
        for (int c = r + threadIdx.x % GRID; c < K; c += GRID) A[upper(r, c)] -= row[r] * row[c];
  }
  __syncthreads();
  for (int c = threadIdx.x; c < K; c += BL_BLOCK) y[c] *= A[upper(c, c)];
  for (int j = K - 1; j >= 0; --j) {
    __syncthreads();
    const float found = y[j] * A[upper(j, j)];
    for (int r = threadIdx.x; r < j; r += BL_BLOCK) y[r] -= A[upper(r, j)] * found;
    if (threadIdx.x == 0) x[j] = found;
  }
  __syncthreads();
}

// out[i] = x, (sum over the entries j of row i of weights[j] v_j v_j' + gram + D_i) x = rhs[i].
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) solve_rows(i64 rows, const i64* indptr,
    const int* indices, const float* weights, const T* table, const float* gram, const float* free,
    const float* scaling, const float* shift, const float* ridge, const float* rhs, float* out) {
  __shared__ float A[TRIANGLE];
  for (i64 i = blockIdx.x; i < rows; i += gridDim.x) {
    Squares sums;
    sums.add(indptr[i], indptr[i + 1], table, [&](i64 e) { return (i64)indices[e]; },
             [&](i64 e) { return weights[e]; });
    sums.each([&](int r, int c, float x) { A[upper(r, c)] = GRAM ? x + gram[r * K + c] : x; });
    solve(A, ridge[i], free, scaling, shift, rhs + i * K, out + i * K);
  }
}

// The same of sums that are packed: out[i] = x, (sums[i] + gram + D_i) x = rhs[i].
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) solve_sums(i64 rows, const float* sums,
    const float* gram, const float* free, const float* scaling, const float* shift, const float* ridge,
    const float* rhs, float* out) {
  __shared__ float A[TRIANGLE];
  for (i64 i = blockIdx.x; i < rows; i += gridDim.x) {
    const float* from = sums + i * PACKED;
    if (threadIdx.x < GRID * GRID)
      for (int r = threadIdx.x / GRID; r < K; r += GRID)
        for (int c = r + threadIdx.x % GRID; c < K; c += GRID) {
          const float x = from[packed(r, c)];
          A[upper(r, c)] = GRAM ? x + gram[r * K + c] : x;
        }
    solve(A, ridge[i], free, scaling, shift, rhs + i * K, out + i * K);
  }
}

// sums[c] (packed) grows by weights v v' of the entries of column c, rows ascending, for the active c.
template <class P>
__device__ __forceinline__ void outer(const i64* count, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const float* weights, const T* table, float* sums) {
  const i64 columns = *count;
  for (i64 a = blockIdx.x; a < columns; a += gridDim.x) {
    float* to = sums + (i64)active[a] * PACKED;
    Squares own;
    own.packs([&](int at, float* x) { bl_load<PACK>(x, to + at); });
    own.add(starts[a], starts[a + 1], table, [&](i64 e) { return (i64)t_rows[e]; },
            [&](i64 e) { return weights[t_pos[e]]; });
    own.packs([&](int at, float* x) { bl_store<PACK>(to + at, x); });
  }
}
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) add_outer_32(const i64* count, const int* active,
    const i64* starts, const int* t_rows, const int* t_pos, const float* weights, const T* table,
    float* sums) {
  outer<int>(count, active, starts, t_rows, t_pos, weights, table, sums);
}
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) add_outer_64(const i64* count, const int* active,
    const i64* starts, const int* t_rows, const i64* t_pos, const float* weights, const T* table,
    float* sums) {
  outer<i64>(count, active, starts, t_rows, t_pos, weights, table, sums);
}
