// The largest products of rows with a table: top_products of cpu_top.py. A score is one chain of
// multiply-adds in the order of the numbers, so equal table rows have equal scores.
// A block has ROWS rows; tiles of TILE table rows go by, and the scores of a tile are in shared memory. A
// thread computes cells of DOWN x ACROSS scores, from three reads of shared memory for 32 multiply-adds. While
// it does, it waits for the next DEPTH numbers of its table rows.

#define ROWS 32
#define TILE 256
#define DEPTH 8  // numbers of a row at a time
#define DOWN 4
#define ACROSS 8  // four columns, and four half a tile further
#define CELLS (ROWS / DOWN * (TILE / ACROSS))
#define EACH ((CELLS + BL_BLOCK - 1) / BL_BLOCK)  // of a thread
#define OWN ((TILE + BL_BLOCK - 1) / BL_BLOCK)  // table rows that a thread reads
#define LEFT ((DEPTH * ROWS + BL_BLOCK - 1) / BL_BLOCK)  // numbers of the other rows that it reads

// out[j] = 1 / length of table row j (its first k of `columns` numbers); 0 for a row of length 0, which
// then stays as it is.
extern "C" __global__ void inverse_lengths(i64 m, i64 columns, i64 k, const float* table, float* out) {
  for (i64 j = BL_THREAD; j < m; j += BL_THREADS) {
    float sum = 0.0f;
    for (i64 t = 0; t < k; ++t) sum = fma(table[j * columns + t], table[j * columns + t], sum);
    out[j] = sum > 0.0f ? 1.0f / sqrt(sum) : 0.0f;
  }
}

// Put (score, number) into the list best[n], ids[n], which is in order, behind all that are not smaller.
__device__ __forceinline__ void insert(float* best, int* ids, i64 n, float score, int number) {
  i64 place = 0;  // binary search: every lane the same
  for (i64 end = n; place < end;) {
    const i64 middle = (place + end) / 2;
    if (best[middle] >= score) place = middle + 1;
    else end = middle;
  }
  BL_SYNC();  // all have read the list
  const i64 moved = n - 1 - place;  // entries that go one place down, the last ones first
  for (i64 done = 0; done < moved; done += BL_LANES) {
    const i64 from = n - 2 - done - BL_LANE;
    const bool mine = done + BL_LANE < moved;
    const float s = mine ? best[from] : 0.0f;
    const int id = mine ? ids[from] : 0;
    BL_SYNC();
    if (mine) {
      best[from + 1] = s;
      ids[from + 1] = id;
    }
    BL_SYNC();
  }
  if (BL_LANE == 0) {
    best[place] = score;
    ids[place] = number;
  }
  BL_SYNC();
}

// to = DEPTH numbers of a row of k, from number t on; 0 after its end. whole: rows begin at multiples of 16 bytes.
__device__ __forceinline__ void part(const float* row, i64 t, i64 k, bool whole, float* to) {
  if (whole && t + DEPTH <= k) {
#pragma unroll
    for (int d = 0; d < DEPTH; d += 4) bl_load<4>(to + d, row + t + d);
  } else {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) to[d] = t + d < k ? row[t + d] : 0.0f;
  }
}

// inverse: of the table rows' lengths, or 0. indptr, indices: what each row leaves out, ascending, or 0.
// best float [rows x n], ids int [rows x n]: -inf and -1 where there are no more.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, 2) top_products(i64 rows, i64 m, i64 columns, i64 k, i64 n, const float* left,
    const float* table, const float* inverse, const i64* indptr, const int* indices, float* best,
    int* ids) {
  alignas(16) __shared__ float a[DEPTH][ROWS], b[DEPTH][TILE];
  __shared__ float scores[ROWS][TILE];
  __shared__ i64 at[ROWS];
  const bool whole = columns % 4 == 0;
  for (i64 first = (i64)blockIdx.x * ROWS; first < rows; first += (i64)gridDim.x * ROWS) {
    const i64 here = rows - first < ROWS ? rows - first : ROWS;
    for (i64 e = threadIdx.x; e < here * n; e += BL_BLOCK) {
      best[first * n + e] = -BL_INF(float);
      ids[first * n + e] = -1;
    }
    for (i64 i = threadIdx.x; i < here; i += BL_BLOCK) at[i] = indptr ? indptr[first + i] : 0;
    float ahead[OWN][DEPTH], scale[OWN], beside[LEFT];
    auto fetch = [&](i64 start, i64 t) {
#pragma unroll
      for (int u = 0; u < OWN; ++u) {
        const i64 j = start + threadIdx.x + u * BL_BLOCK;
        if (j >= m) continue;
        part(table + j * columns, t, k, whole, ahead[u]);
        scale[u] = inverse && inverse[j] != 0.0f ? inverse[j] : 1.0f;
      }
#pragma unroll
      for (int u = 0; u < LEFT; ++u) {
        const int e = threadIdx.x + u * BL_BLOCK, i = e / DEPTH;
        const i64 d = t + e % DEPTH;
        beside[u] = i < here && d < k ? left[(first + i) * k + d] : 0.0f;
      }
    };
    fetch(0, 0);
    for (i64 start = 0; start < m; start += TILE) {
      const i64 count = m - start < TILE ? m - start : TILE;
      float sums[EACH][DOWN][ACROSS] = {};
      for (i64 t0 = 0; t0 < k; t0 += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int u = 0; u < OWN; ++u) {
          const int j = threadIdx.x + u * BL_BLOCK;
          if (j >= TILE) continue;
#pragma unroll
          for (int t = 0; t < DEPTH; ++t) b[t][j] = j < count ? ahead[u][t] * scale[u] : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < LEFT; ++u) {
          const int e = threadIdx.x + u * BL_BLOCK;
          if (e < DEPTH * ROWS) a[e % DEPTH][e / DEPTH] = beside[u];
        }
        __syncthreads();
        if (t0 + DEPTH < k) fetch(start, t0 + DEPTH);
        else fetch(start + TILE, 0);
#pragma unroll
        for (int u = 0; u < EACH; ++u) {
          const int cell = threadIdx.x + u * BL_BLOCK;
          const int row = cell / (TILE / ACROSS) * DOWN, column = cell % (TILE / ACROSS) * 4;
          if (cell >= CELLS) continue;
#pragma unroll
          for (int t = 0; t < DEPTH; ++t) {
            float down[DOWN], across[ACROSS];
            bl_load<DOWN>(down, &a[t][row]);
            bl_load<4>(across, &b[t][column]);
            bl_load<4>(across + 4, &b[t][TILE / 2 + column]);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
              for (int j = 0; j < ACROSS; ++j) sums[u][i][j] = fma(down[i], across[j], sums[u][i][j]);
          }
        }
      }
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        const int cell = threadIdx.x + u * BL_BLOCK;
        const int row = cell / (TILE / ACROSS) * DOWN, column = cell % (TILE / ACROSS) * 4;
        if (cell >= CELLS) continue;
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
          for (int j = 0; j < ACROSS; ++j) {
            const int at = column + j % 4 + j / 4 * (TILE / 2);
            scores[row + i][at] = at < count ? sums[u][i][j] : -BL_INF(float);
          }
      }
      __syncthreads();
      for (i64 i = threadIdx.x / BL_LANES; i < here; i += BL_GROUPS) {
        if (indptr) {
          i64 place = at[i];
          const i64 end = indptr[first + i + 1];
          for (; place < end && indices[place] < start + count; ++place)
            if (BL_LANE == 0) scores[i][indices[place] - start] = -BL_INF(float);
          BL_SYNC();
          if (BL_LANE == 0) at[i] = place;
        }
        float* row_best = best + (first + i) * n;
        int* row_ids = ids + (first + i) * n;
        float least = row_best[n - 1];
        bool any = false;  // as a rule there is none
#pragma unroll
        for (int j0 = 0; j0 < TILE; j0 += BL_LANES) any |= scores[i][j0 + BL_LANE] > least;
        if (!bl_ballot(any)) continue;
        for (int j0 = 0; j0 < TILE; j0 += BL_LANES) {
          u32 better = bl_ballot(scores[i][j0 + BL_LANE] > least);
          for (; better; better &= better - 1) {
            const int j = j0 + __ffs(better) - 1;
            if (!(scores[i][j] > least)) continue;  // it has changed meanwhile
            insert(row_best, row_ids, n, scores[i][j], (int)(start + j));
            least = row_best[n - 1];
          }
        }
      }
      __syncthreads();
    }
  }
}
