// Moving the counts of tokens to their new topics: `move_counts` of cpu/topics/tokens.py. Counts are whole numbers,
// so sums are exact in any order, also those of float32 below 2^24. Z: type of a topic's number.

// Tokens of row i of a pass get topic i, if they have none and i < k: `begin_topics` of the CPU.
// room: see below. key [3]: seed, pass, block. old: becomes the topics before.
extern "C" __global__ void begin_topics(i64 rows, const i64* indptr, const float* values, const i64* first, i64 room,
    i64 k, const i64* key, Z* topics, Z* old) {
  for (i64 row = BL_WARP; row < rows; row += BL_WARPS) {
    const i64 topic = key[2] * rows + row;
    for (i64 i = indptr[row] + BL_LANE; i < indptr[row + 1]; i += BL_LANES) {
      const i64 start = first[i], end = start + (i64)values[i];
      for (i64 p = start; p < end && p < room; ++p) {
        old[p] = topics[p];
        if (topic < k && old[p] >= k) topics[p] = (Z)topic;
      }
    }
  }
}

#define FEW 2048  // topics whose gains a block of threads adds up by itself

// counts float [columns x k], gains [k]: tokens that each topic has gained, which are zero before.
// room: tokens that `old` and `topics` have room for; those behind them stay as they are.
extern "C" __global__ void move_counts(i64 rows, const i64* indptr, const int* indices, const float* values,
    const i64* first, i64 room, i64 k, const Z* old, const Z* topics, float* counts,
    unsigned long long* gains) {
  __shared__ unsigned long long own[FEW];
  unsigned long long* to = k <= FEW ? own : gains;
  if (k <= FEW)
    for (i64 t = threadIdx.x; t < k; t += BL_BLOCK) own[t] = 0;
  __syncthreads();
  for (i64 i = indptr[0] + BL_THREAD; i < indptr[rows]; i += BL_THREADS) {
    const i64 start = first[i], end = start + (i64)values[i];
    for (i64 p = start; p < end && p < room; ++p) {
      const Z before = old[p], after = topics[p];
      if (before == after) continue;
      float* word = counts + (i64)indices[i] * k;
      atomicAdd(&word[after], 1.0f);
      atomicAdd(&to[after], 1ull);
      if (before < k) {
        atomicAdd(&word[before], -1.0f);
        atomicAdd(&to[before], ~0ull);
      }
    }
  }
  __syncthreads();
  if (k <= FEW)
    for (i64 t = threadIdx.x; t < k; t += BL_BLOCK)
      if (own[t]) atomicAdd(&gains[t], own[t]);
}

// totals double [k] += gains. NaN where a block has more tokens than there is room for.
extern "C" __global__ void add_moved(i64 rows, const i64* indptr, const float* values, const i64* first,
    i64 room, i64 k, const i64* gains, double* totals) {
  const i64 last = indptr[rows] - 1;
  const bool fits = last < indptr[0] || first[last] + (i64)values[last] <= room;
  for (i64 t = BL_THREAD; t < k; t += BL_THREADS)
    totals[t] = fits ? totals[t] + (double)gains[t] : BL_NAN(double);
}
