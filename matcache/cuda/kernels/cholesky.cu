// Normal equations: the counterparts of cpu/cholesky.py. K: unknowns, at most 130; GRAM, MASKED,
// SCALED, TEAMS: 0 or 1; T: type of the table; SIDE: of a square, 1, 2, 4 or 8.
// A block of threads has one symmetric matrix, or (TEAMS) the blocks of a team have a part of it each. Each
// thread holds squares of SIDE x SIDE numbers of its upper half in registers, while it is summed and while it
// is factored. Shared memory has the rows that all threads read: vectors of the table to add, or SIDE rows of
// the factor to subtract. Every sum is one chain in the order of the entries; a team has one for each block.

#define SQUARES ((K + SIDE - 1) / SIDE)  // along a side
#define WIDE (SQUARES * SIDE)
#define PARTS (SQUARES * (SQUARES + 1) / 2)
#define OWN ((PARTS + BL_BLOCK - 1) / BL_BLOCK)  // of a thread
#define PACK (SIDE < 4 ? SIDE : 4)  // numbers that are read at once
#define BATCH 16  // entries at a time
#define WIDTH (K % 4 == 0 ? 4 : 1)  // numbers of the table that are read at once
#define SHARED ((TEAMS ? 384 : 512) / BL_BLOCK)  // blocks of a processor: up to 16 warps of 128 registers
#define FLOOR 1e-6f  // of a pivot, in parts of the diagonal it came from

// The place of (r, c), c >= r, in the packed matrix of cpu_cholesky.py.
__device__ __forceinline__ int packed(int r, int c) {
  const int padded = (K + 15) / 16 * 16, g = r / 16, first = 16 * g;
  return 16 * (g * padded - 8 * g * (g - 1)) + (r - first) * (padded - first) + c - first;
}
// The distance of (r, c) and (r + 1, c), of the same 16 rows.
__device__ __forceinline__ int below(int r) { return (K + 15) / 16 * 16 - r / 16 * 16; }
#define PACKED (16 * ((K + 15) / 16) * ((K + 15) / 16 + 1) / 2 * 16)

// Rows that all threads read, and what each is multiplied by.
struct Rows {
  alignas(16) float v[BATCH][WIDE];
  float w[BATCH];
};

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
    squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
      const int first = packed(r, c), stride = below(r);
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; b += PACK) what(first + a * stride + b, x[a] + b);
    });
  }
  // do(r, c, x) for the squares; (r, c) is where they begin
  template <class Do> __device__ __forceinline__ void squares(Do what) {
#pragma unroll
    for (int o = 0; o < OWN; ++o)
      if (row[o] < WIDE) what(row[o], column[o], x[o]);
  }
  // do(r, c, x) for all numbers, r <= c; those from K on are padding
  template <class Do> __device__ __forceinline__ void each(Do what) {
    squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; ++b)
          if (r + a <= c + b) what(r + a, c + b, x[a][b]);
    });
  }
  // Add w[n] v[n] v[n]' of `count` rows, in the squares from row `first` on.
  __device__ __forceinline__ void grow(const Rows& rows, int count, int first) {
#pragma unroll
    for (int o = 0; o < OWN; ++o) {
      if (row[o] >= WIDE || row[o] < first) continue;
      for (int n = 0; n < count; ++n) {
        float left[SIDE], right[SIDE];
#pragma unroll
        for (int a = 0; a < SIDE; a += PACK) {
          bl_load<PACK>(left + a, &rows.v[n][row[o] + a]);
          bl_load<PACK>(right + a, &rows.v[n][column[o] + a]);
        }
#pragma unroll
        for (int a = 0; a < SIDE; ++a) left[a] *= rows.w[n];
#pragma unroll
        for (int a = 0; a < SIDE; ++a)
#pragma unroll
          for (int b = 0; b < SIDE; ++b) x[o][a][b] = fma(left[a], right[b], x[o][a][b]);
      }
    }
  }
  // Add weight(e) v v' of the entries e from p to q, v row(e) of the table.
  template <class Row, class Weight>
  __device__ __forceinline__ void add(Rows& rows, i64 p, i64 q, const T* table, Row row_of, Weight weight_of) {
    for (i64 e = p; e < q; e += BATCH) {
      const int count = q - e < BATCH ? (int)(q - e) : BATCH;
      __syncthreads();
      for (int n = threadIdx.x; n < count; n += BL_BLOCK) rows.w[n] = weight_of(e + n);
      for (int place = threadIdx.x; place < count * (WIDE / WIDTH); place += BL_BLOCK) {
        const int n = place / (WIDE / WIDTH), c = place % (WIDE / WIDTH) * WIDTH;
        float x[WIDTH] = {};
        if (c < K) bl_load<WIDTH>(x, table + row_of(e + n) * K + c);
        bl_store<WIDTH>(&rows.v[n][c], x);
      }
      __syncthreads();
      grow(rows, count, 0);
    }
  }
  // Add what all blocks of the team have, in the first of them.
  __device__ __forceinline__ void gather(Rows& rows) {
    constexpr int most = BL_BLOCK * SIDE;
    constexpr bool fits = sizeof(Rows) >= most * sizeof(float);
    __shared__ float few[fits ? 1 : most];
    float (*own)[SIDE] = reinterpret_cast<float (*)[SIDE]>(fits ? &rows.v[0][0] : few);
    __syncthreads();
#pragma unroll
    for (int o = 0; o < OWN; ++o)
#pragma unroll
      for (int a = 0; a < SIDE; ++a) {
#pragma unroll
        for (int b = 0; b < SIDE; ++b) own[threadIdx.x][b] = x[o][a][b];
        bl_meet();
        if (bl_rank() == 0)
          for (int block = 1; block < BL_TEAM; ++block)
#pragma unroll
            for (int b = 0; b < SIDE; ++b) x[o][a][b] += bl_of(block, &own[threadIdx.x][b]);
        bl_meet();
      }
  }
};

// 1 / sqrt(x), x > 0: an estimate and a step of Newton's, to the last bit or two.
__device__ __forceinline__ float bl_rsqrt(float x) {
  const float near = rsqrtf(x);
  return near * fma(-0.5f * x * near, near, 1.5f);
}
// x becomes its factor, with the reciprocals of the diagonal, and so does corner; y = x'^-1 y.
// Where no equation determines an unknown (it is `loose`), it is 0.
__device__ __forceinline__ void factor(float (&x)[SIDE][SIDE], float* y, const float* least, bool ridgeless,
    float (&corner)[SIDE][SIDE]) {
  float own[SIDE];
#pragma unroll
  for (int a = 0; a < SIDE; ++a) own[a] = y[a];
#pragma unroll
  for (int a = 0; a < SIDE; ++a) {
    const bool loose = ridgeless && !(x[a][a] > least[a]);
    const float scale = loose ? 0.0f : bl_rsqrt(x[a][a] > least[a] ? x[a][a] : least[a]);
    x[a][a] = corner[a][a] = scale;
    y[a] = own[a] *= scale;
#pragma unroll
    for (int b = a + 1; b < SIDE; ++b) {
      x[a][b] = corner[a][b] = x[a][b] * scale;
      own[b] = fma(-x[a][b], own[a], own[b]);
    }
#pragma unroll
    for (int r = a + 1; r < SIDE; ++r)
#pragma unroll
      for (int c = r; c < SIDE; ++c) x[r][c] = fma(-x[a][r], x[a][c], x[r][c]);
  }
}
// x = corner'^-1 x, which all threads then read: it begins at column c.
__device__ __forceinline__ void follow(float (&x)[SIDE][SIDE], const float (&corner)[SIDE][SIDE], Rows& rows, int c) {
#pragma unroll
  for (int a = 0; a < SIDE; ++a) {
#pragma unroll
    for (int i = 0; i < a; ++i)
#pragma unroll
      for (int b = 0; b < SIDE; ++b) x[a][b] = fma(-corner[i][a], x[i][b], x[a][b]);
#pragma unroll
    for (int b = 0; b < SIDE; ++b) x[a][b] *= corner[a][a];
#pragma unroll
    for (int b = 0; b < SIDE; b += PACK) bl_store<PACK>(&rows.v[a][c + b], x[a] + b);
  }
}
// y = x^-1 y, x a factor.
__device__ __forceinline__ void end(const float (&x)[SIDE][SIDE], float* y) {
  float own[SIDE];
#pragma unroll
  for (int a = SIDE - 1; a >= 0; --a) {
    own[a] = y[a];
#pragma unroll
    for (int b = SIDE - 1; b > a; --b) own[a] = fma(-x[a][b], own[b], own[a]);
    y[a] = own[a] *= x[a][a];
  }
}

// The unknowns whose values are known: where free is 0. Padding is marked like them.
struct Known {
  int count, at[MASKED ? K : 1];
  unsigned marks[SQUARES];  // a bit for each unknown of a square's rows
  __device__ __forceinline__ void find(const float* free) {
    for (int n = threadIdx.x; n < SQUARES; n += BL_BLOCK) {
      unsigned bits = 0;
#pragma unroll
      for (int a = 0; a < SIDE; ++a) {
        const int r = n * SIDE + a;
        if (r >= K || (MASKED && free[r] == 0.0f)) bits |= 1u << a;
      }
      marks[n] = bits;
    }
    __syncthreads();
    if (MASKED && threadIdx.x == 0) {
      count = 0;
      for (int r = 0; r < K; ++r)
        if (has(r)) at[count++] = r;
    }
    __syncthreads();
  }
  __device__ __forceinline__ bool has(int r) const { return marks[r / SIDE] >> r % SIDE & 1; }
};
// (A + D) x = b, D diagonal, see BL_DIAGONAL: A becomes U with the reciprocals of its diagonal, A + D = U'U.
// SIDE rows of U at a time: one thread factors their square, those beside it follow, all below them shrink.
// A thread with a square on the diagonal also has its numbers of the right side.
#define BL_DIAGONAL(r) (SCALED ? ridge * scaling[r] + shift[r] : ridge)
__device__ __forceinline__ void solve(Squares& A, Rows& rows, const Known& known, float ridge, const float* gram,
    const float* scaling, const float* shift, const float* b, float* out) {
  __shared__ float y[WIDE], least[WIDE], corner[SIDE][SIDE];
  __syncthreads();
  if (GRAM) A.each([&](int r, int c, float& x) { if (c < K) x += gram[r * K + c]; });
  for (int r = threadIdx.x; r < WIDE; r += BL_BLOCK) y[r] = r < K ? b[r] : 0.0f;
#if MASKED  // what is known goes to the right side
  for (int n = 0; n < known.count; ++n) {
    const int at = known.at[n];
    float* column = rows.v[0];
    __syncthreads();
    A.each([&](int r, int c, float x) {
      if (c == at) column[r] = x;
      else if (r == at) column[c] = x;
    });
    __syncthreads();
    for (int r = threadIdx.x; r < K; r += BL_BLOCK)
      if (!known.has(r)) y[r] = fma(-column[r], y[at], y[r]);
  }
#endif
  A.squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
    const unsigned down = known.marks[r / SIDE], across = known.marks[c / SIDE];
    if (down | across)
#pragma unroll
      for (int a = 0; a < SIDE; ++a)
#pragma unroll
        for (int b = 0; b < SIDE; ++b)
          if ((down >> a | across >> b) & 1) x[a][b] = r == c && a == b ? 1.0f : 0.0f;
    if (r != c) return;
#pragma unroll
    for (int a = 0; a < SIDE; ++a) {
      if (!(down >> a & 1)) x[a][a] += BL_DIAGONAL(r + a);
      least[r + a] = FLOOR * x[a][a];
    }
  });
  for (int n = threadIdx.x; n < SIDE; n += BL_BLOCK) rows.w[n] = -1.0f;
  __syncthreads();
  for (int j = 0; j < WIDE; j += SIDE) {
    A.squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
      if (r == j && c == j) factor(x, y + j, least + j, ridge == 0.0f, corner);
    });
    __syncthreads();
    A.squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
      if (r == j && c > j) follow(x, corner, rows, c);
    });
    __syncthreads();
    A.grow(rows, SIDE, j + SIDE);
    A.squares([&](int r, int c, float (&)[SIDE][SIDE]) {
      if (r != c || r <= j) return;
      float own[SIDE];
#pragma unroll
      for (int b = 0; b < SIDE; ++b) own[b] = y[c + b];
#pragma unroll 1
      for (int a = 0; a < SIDE; ++a) {
        float v[SIDE];
#pragma unroll
        for (int b = 0; b < SIDE; b += PACK) bl_load<PACK>(v + b, &rows.v[a][c + b]);
#pragma unroll
        for (int b = 0; b < SIDE; ++b) own[b] = fma(-y[j + a], v[b], own[b]);
      }
#pragma unroll
      for (int b = 0; b < SIDE; ++b) y[c + b] = own[b];
    });
  }
  for (int j = WIDE - SIDE; j >= 0; j -= SIDE) {
    A.squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
      if (r == j && c == j) end(x, y + j);
    });
    __syncthreads();
    A.squares([&](int r, int c, float (&x)[SIDE][SIDE]) {
      if (c != j || r == j) return;
      float found[SIDE];
#pragma unroll
      for (int b = 0; b < SIDE; ++b) found[b] = y[j + b];
#pragma unroll
      for (int a = 0; a < SIDE; ++a) {
        float own = y[r + a];
#pragma unroll
        for (int b = 0; b < SIDE; ++b) own = fma(-x[a][b], found[b], own);
        y[r + a] = own;
      }
    });
    __syncthreads();
  }
  for (int r = threadIdx.x; r < K; r += BL_BLOCK) out[r] = y[r];
}

// out[i] = x, (sum over the entries j of row i of weights[j] v_j v_j' + gram + D_i) x = rhs[i].
// order, split: see `order_rows`. The module for teams solves the first split[1] rows, the other one the rest.
extern "C" __global__ void BL_TEAMED __launch_bounds__(BL_BLOCK, SHARED) solve_rows(i64 rows, const int* order,
    const i64* split, const i64* indptr, const int* indices, const float* weights, const T* table,
    const float* gram, const float* free, const float* scaling, const float* shift, const float* ridge,
    const float* rhs, float* out) {
  __shared__ Rows shared;
  __shared__ Known known;
  known.find(free);
  const i64 end = TEAMS ? split[1] : rows, teams = gridDim.x / BL_TEAM, rank = bl_rank();
  for (i64 n = (TEAMS ? 0 : split[1]) + blockIdx.x / BL_TEAM; n < end; n += teams) {
    const i64 i = order[n], p = indptr[i], length = indptr[i + 1] - p;
    Squares sums;
    sums.add(shared, p + length * rank / BL_TEAM, p + length * (rank + 1) / BL_TEAM, table,
             [&](i64 e) { return (i64)indices[e]; }, [&](i64 e) { return weights[e]; });
    if (BL_TEAM > 1) sums.gather(shared);
    if (rank == 0) solve(sums, shared, known, ridge[i], gram, scaling, shift, rhs + i * K, out + i * K);
  }
}
