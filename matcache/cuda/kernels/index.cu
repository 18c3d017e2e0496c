// The transposed index of a block: cpu/transpose.py, to the last bit. A stable sort of the entries
// by column, four bits at a time, the lowest first: index_count and index_scatter for each; then index_heads,
// index_columns, index_entries and index_rows. Each block of threads adds up for itself what lies before its part.
// number_columns, for a block with such an index: cpu/kernels.py. P: type of positions.

#define DIGITS 16
#define ITEMS 8  // entries that a thread has at a time
#define TILE (BL_BLOCK * ITEMS)
#define PARTS 256  // of the entries, that are counted apart

__device__ __forceinline__ int digit_of(int key, int shift) { return key >> shift & (DIGITS - 1); }

// sums[d * PARTS + p]: entries of part p whose column has the digit d. counts[0]: how many entries.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_count(const i64* counts, i64 shift,
    const int* keys, int* sums) {
  __shared__ int found[DIGITS * BL_BLOCK];
  const i64 n = counts[0];
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    for (int d = 0; d < DIGITS; ++d) found[d * BL_BLOCK + threadIdx.x] = 0;
    for (i64 i = n * part / PARTS + threadIdx.x; i < n * (part + 1) / PARTS; i += BL_BLOCK)
      ++found[digit_of(keys[i], (int)shift) * BL_BLOCK + threadIdx.x];
    __syncthreads();
    for (int d = threadIdx.x / BL_LANES; d < DIGITS; d += BL_GROUPS) {
      int sum = 0;
      for (int t = BL_LANE; t < BL_BLOCK; t += BL_LANES) sum += found[d * BL_BLOCK + t];
      sum = BL_SUM_ACROSS(sum);
      if (BL_LANE == 0) sums[d * PARTS + part] = sum;
    }
    __syncthreads();
  }
}

// base[d]: where the entries of a part that have the digit d begin.
__device__ __forceinline__ void begin_digits(const int* sums, i64 part, i64* base) {
  __shared__ i64 all[DIGITS];
  for (int d = threadIdx.x / BL_LANES; d < DIGITS; d += BL_GROUPS) {
    const int* own = sums + d * PARTS;
    const i64 before = bl_sum_of_first<PARTS>(own, (int)part), sum = bl_sum_of_first<PARTS>(own, PARTS);
    if (BL_LANE == 0) base[d] = before, all[d] = sum;
  }
  __syncthreads();
  for (int d = threadIdx.x; d < DIGITS; d += BL_BLOCK)
    for (int e = 0; e < d; ++e) base[d] += all[e];
  __syncthreads();
}

// Entries of equal digits together, in the order in which they are. from: their positions, 0: the same as
// their places. The tile is put in order first, so that what is written lies side by side.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_scatter(const i64* counts, i64 shift,
    const int* keys, const P* from, const int* sums, int* to_keys, P* to) {
  __shared__ int key[TILE], sorted[TILE], places[DIGITS * BL_BLOCK], begin[DIGITS];
  __shared__ i64 base[DIGITS];
  const i64 n = counts[0];
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    const i64 last = n * (part + 1) / PARTS;
    begin_digits(sums, part, base);
    for (i64 start = n * part / PARTS; start < last; start += TILE) {
      const int there = last - start < TILE ? (int)(last - start) : TILE;
      const int first = threadIdx.x * ITEMS, end = first + ITEMS < there ? first + ITEMS : there;
      for (int e = threadIdx.x; e < there; e += BL_BLOCK) key[e] = keys[start + e];
      for (int d = 0; d < DIGITS; ++d) places[d * BL_BLOCK + threadIdx.x] = 0;
      __syncthreads();
      for (int e = first; e < end; ++e) ++places[digit_of(key[e], (int)shift) * BL_BLOCK + threadIdx.x];
      __syncthreads();
      int own = 0, all;  // digit after digit, and in a digit thread after thread
      for (int e = 0; e < DIGITS; ++e) own += places[threadIdx.x * DIGITS + e];
      int before = bl_before(own, &all);
      for (int e = threadIdx.x * DIGITS; e < (int)(threadIdx.x + 1) * DIGITS; ++e) {
        const int here = places[e];
        places[e] = before;
        if (e % BL_BLOCK == 0) begin[e / BL_BLOCK] = before;
        before += here;
      }
      __syncthreads();
      for (int e = first; e < end; ++e)
        sorted[places[digit_of(key[e], (int)shift) * BL_BLOCK + threadIdx.x]++] = e;
      __syncthreads();
      for (int e = threadIdx.x; e < there; e += BL_BLOCK) {
        const int source = sorted[e], d = digit_of(key[source], (int)shift);
        const i64 place = base[d] + e - begin[d];
        to_keys[place] = key[source];
        to[place] = from ? from[start + source] : (P)(start + source);
      }
      __syncthreads();
      for (int d = threadIdx.x; d < DIGITS; d += BL_BLOCK)
        base[d] += (d + 1 < DIGITS ? begin[d + 1] : there) - begin[d];
      __syncthreads();
    }
  }
}

__device__ __forceinline__ bool is_head(const int* keys, i64 i) { return i == 0 || keys[i] != keys[i - 1]; }

// sums[p]: the columns that begin in part p.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_heads(const i64* counts, const int* keys,
    int* sums) {
  const i64 n = counts[0];
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    i64 own = 0, all;
    for (i64 i = n * part / PARTS + threadIdx.x; i < n * (part + 1) / PARTS; i += BL_BLOCK)
      own += is_head(keys, i);
    bl_before(own, &all);
    if (threadIdx.x == 0) sums[part] = (int)all;
  }
}

// The columns that occur, and where each begins; counts[1]: how many.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_columns(i64* counts, const int* keys,
    const int* sums, int* active, i64* starts) {
  const i64 n = counts[0];
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    const i64 last = n * (part + 1) / PARTS;
    i64 base = bl_sum_of_first<PARTS>(sums, (int)part);
    for (i64 start = n * part / PARTS; start < last; start += TILE) {
      const i64 first = start + threadIdx.x * ITEMS, end = first + ITEMS < last ? first + ITEMS : last;
      i64 own = 0, all;
      for (i64 i = first; i < end; ++i) own += is_head(keys, i);
      i64 place = base + bl_before(own, &all);
      for (i64 i = first; i < end; ++i)
        if (is_head(keys, i)) {
          active[place] = keys[i];
          starts[place++] = i;
        }
      base += all;
    }
    if (part == PARTS - 1 && threadIdx.x == 0) {
      counts[1] = base;
      starts[base] = n;
    }
  }
}

// rows_of[e]: the row of the entry e.
extern "C" __global__ void index_entries(i64 rows, const i64* indptr, int* rows_of) {
  for (i64 row = BL_WARP; row < rows; row += BL_WARPS)
    for (i64 e = indptr[row] + BL_LANE; e < indptr[row + 1]; e += BL_LANES) rows_of[e] = (int)row;
}

// t_rows[i]: the row of the entry at t_pos[i].
extern "C" __global__ void index_rows(const i64* counts, const P* t_pos, const int* rows_of, int* t_rows) {
  const i64 n = counts[0];
  for (i64 i = BL_THREAD; i < n; i += BL_THREADS) t_rows[i] = rows_of[t_pos[i]];
}

// out: the place of each entry's column among the columns that occur.
extern "C" __global__ void number_columns(const i64* count, const i64* starts, const P* t_pos, int* out) {
  for (i64 place = BL_WARP; place < *count; place += BL_WARPS)
    for (i64 e = starts[place] + BL_LANE; e < starts[place + 1]; e += BL_LANES) out[t_pos[e]] = (int)place;
}
