// The transposed index of a block: cpu/transpose.py, to the last bit. A stable sort of the entries
// by column, eight bits at a time, the lowest first: index_count, index_places and index_scatter for each; then
// index_heads, index_columns, index_entries and index_rows.
// number_columns, for a block with such an index: cpu/kernels.py. P: type of positions.

#define BITS 8
#define DIGITS (1 << BITS)
#define ITEMS 8  // entries that a thread has at a time
#define TILE (BL_BLOCK * ITEMS)
#define PARTS 512  // most parts of the entries, that are counted apart

__device__ __forceinline__ int digit_of(int key, int shift) { return key >> shift & (DIGITS - 1); }
// The parts of n entries, of at most a tile each if PARTS suffice.
__device__ __forceinline__ i64 parts_of(i64 n) { return n < (i64)PARTS * TILE ? n / TILE + 1 : PARTS; }

// sums[d * PARTS + p]: entries of part p whose column has the digit d. counts[0]: how many entries.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_count(const i64* counts, i64 shift,
    const int* keys, P* sums) {
  __shared__ int found[DIGITS];
  const i64 n = counts[0], parts = parts_of(n);
  for (i64 part = blockIdx.x; part < parts; part += gridDim.x) {
    for (int d = threadIdx.x; d < DIGITS; d += BL_BLOCK) found[d] = 0;
    __syncthreads();
#pragma unroll 8
    for (i64 i = n * part / parts + threadIdx.x; i < n * (part + 1) / parts; i += BL_BLOCK)
      atomicAdd(&found[digit_of(keys[i], (int)shift)], 1);
    __syncthreads();
    for (int d = threadIdx.x; d < DIGITS; d += BL_BLOCK) sums[d * PARTS + part] = found[d];
    __syncthreads();
  }
}

// sums[d * PARTS + p] becomes the entries of digit d before part p; sums[DIGITS * PARTS + d]: all of this digit.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_places(const i64* counts, P* sums) {
  const int parts = (int)parts_of(counts[0]);
  for (i64 d = blockIdx.x; d < DIGITS; d += gridDim.x) {
    P base = 0, all;
    for (int first = 0; first < parts; first += BL_BLOCK) {
      const int p = first + threadIdx.x;
      const P before = base + bl_before(p < parts ? sums[d * PARTS + p] : P(0), &all);
      if (p < parts) sums[d * PARTS + p] = before;
      base += all;
    }
    if (threadIdx.x == 0) sums[DIGITS * PARTS + d] = base;
  }
}

// base[d]: where the entries of a part that have the digit d begin.
__device__ __forceinline__ void begin_digits(const P* sums, i64 part, P* base) {
  P before = 0, all;
  for (int first = 0; first < DIGITS; first += BL_BLOCK) {
    const int d = first + threadIdx.x;
    const P smaller = bl_before(d < DIGITS ? sums[DIGITS * PARTS + d] : P(0), &all);
    if (d < DIGITS) base[d] = before + smaller + sums[d * PARTS + part];
    before += all;
  }
}
// places[g][d], how many entries of a tile group g has of digit d, becomes where they begin; begin[d]: the first.
__device__ __forceinline__ void begin_groups(int (*places)[DIGITS], int* begin) {
  int base = 0, all;
  for (int first = 0; first < DIGITS; first += BL_BLOCK) {
    const int d = first + threadIdx.x;
    int sum = 0;
    if (d < DIGITS)
      for (int g = 0; g < BL_GROUPS; ++g) sum += places[g][d];
    int place = base + bl_before(sum, &all);
    base += all;
    if (d >= DIGITS) continue;
    begin[d] = place;
    for (int g = 0; g < BL_GROUPS; ++g) {
      const int here = places[g][d];
      places[g][d] = place;
      place += here;
    }
  }
}
// The lanes of this group whose entry is there and has the same digit.
__device__ __forceinline__ u32 lanes_with(int digit, bool here) {
  u32 same = bl_ballot(here);
#pragma unroll
  for (int b = 0; b < BITS; ++b) {
    const bool bit = digit >> b & 1;
    const u32 with = bl_ballot(bit);
    same &= bit ? with : ~with;
  }
  return same;
}

// Entries of equal digits together, in the order in which they are. from: their positions, 0: the same as
// their places. The tile is put in order first, so that what is written lies side by side.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_scatter(const i64* counts, i64 shift,
    const int* keys, const P* from, const P* sums, int* to_keys, P* to) {
  __shared__ int sorted[TILE], places[BL_GROUPS][DIGITS], begin[DIGITS];
  __shared__ P positions[TILE], base[DIGITS];
  const i64 n = counts[0], parts = parts_of(n);
  const int group = threadIdx.x / BL_LANES, own = group * ITEMS * BL_LANES + BL_LANE;
  for (i64 part = blockIdx.x; part < parts; part += gridDim.x) {
    const i64 last = n * (part + 1) / parts;
    begin_digits(sums, part, base);
    for (i64 start = n * part / parts; start < last; start += TILE) {
      const int there = last - start < TILE ? (int)(last - start) : TILE;
      int key[ITEMS], place[ITEMS];
      P position[ITEMS];
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const int e = own + i * BL_LANES;
        key[i] = e < there ? keys[start + e] : 0;
        position[i] = from == 0 || e >= there ? (P)(start + e) : from[start + e];
      }
      for (int d = BL_LANE; d < DIGITS; d += BL_LANES) places[group][d] = 0;
      BL_SYNC();
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {  // place[i]: how many of the group's entries with this digit come before
        const int d = digit_of(key[i], (int)shift);
        const bool here = own + i * BL_LANES < there;
        const u32 all = lanes_with(d, here), before = all & ((1u << BL_LANE) - 1u);
        place[i] = places[group][d] + __popc(before);
        BL_SYNC();
        if (here && before == 0) places[group][d] += __popc(all);
        BL_SYNC();
      }
      __syncthreads();
      begin_groups(places, begin);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < ITEMS; ++i)
        if (own + i * BL_LANES < there) {
          const int e = place[i] + places[group][digit_of(key[i], (int)shift)];
          sorted[e] = key[i];
          positions[e] = position[i];
        }
      __syncthreads();
      for (int e = threadIdx.x; e < there; e += BL_BLOCK) {
        const int d = digit_of(sorted[e], (int)shift);
        const P at = base[d] + e - begin[d];
        to_keys[at] = sorted[e];
        to[at] = positions[e];
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
    P* sums) {
  const i64 n = counts[0], parts = parts_of(n);
  for (i64 part = blockIdx.x; part < parts; part += gridDim.x) {
    P own = 0, all;
#pragma unroll 8
    for (i64 i = n * part / parts + threadIdx.x; i < n * (part + 1) / parts; i += BL_BLOCK)
      own += is_head(keys, i);
    bl_before(own, &all);
    if (threadIdx.x == 0) sums[part] = all;
  }
}

// The columns that occur, and where each begins; counts[1]: how many.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) index_columns(i64* counts, const int* keys,
    const P* sums, int* active, i64* starts) {
  const i64 n = counts[0], parts = parts_of(n);
  const int own = threadIdx.x / BL_LANES * ITEMS * BL_LANES + BL_LANE;
  for (i64 part = blockIdx.x; part < parts; part += gridDim.x) {
    const i64 last = n * (part + 1) / parts;
    i64 base = bl_sum_of_first<PARTS>(sums, (int)part), all;
    for (i64 start = n * part / parts; start < last; start += TILE) {
      u32 heads[ITEMS];
      int found = 0;
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const i64 e = start + own + i * BL_LANES;
        heads[i] = bl_ballot(e < last && is_head(keys, e));
        found += __popc(heads[i]);
      }
      i64 place = base + bl_from(bl_before(BL_LANE == 0 ? (i64)found : i64(0), &all), 0);
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        if (heads[i] >> BL_LANE & 1u) {
          const i64 e = start + own + i * BL_LANES, at = place + __popc(heads[i] & ((1u << BL_LANE) - 1u));
          active[at] = keys[e];
          starts[at] = e;
        }
        place += __popc(heads[i]);
      }
      base += all;
    }
    if (part == parts - 1 && threadIdx.x == 0) {
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
