// The sampler of topics: cpu/topics/gibbs.py, to the last bit. K: the number of topics.

#if SUMMED
typedef float Result;
#else
typedef unsigned short Result;
#endif

// Sweeps over the particles of each row, in `order`. result [save x width]: topics after each of the last sweeps. If
// SUMMED, [rows x K]: counts of rows plus alpha after these sweeps, added up; alpha of rows without particles.
// Scratch, one number for each particle: weights, words (columns), topics. memory: see begin_counts.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, RESIDENT) sample(i64 rows, const int* order,
    const i64* indptr, const int* indices, const float* values, const i64* first, const i64* row_ids, const i64* key,
    const T* phi, const float* alpha, i64 burn, i64 save, i64 width, Result* result,
    float* weights, int* words, int* topics, float* memory) {
  for (i64 turn = BL_WARP; most(rows - turn) > 0; turn += BL_WARPS) {
    const bool there = turn < rows;
    const i64 row = there ? order[turn] : 0, p = there ? indptr[row] : 0, q = there ? indptr[row + 1] : 0;
    float total = 0.0f;  // in order, as on the CPU
#pragma unroll 16
    for (int k = 0; k < K; ++k) total += alpha[k];
    i64 size = 0;
#pragma unroll 8
    for (i64 i = p; i < q; ++i) {
      const i64 count = particles(values[i]);
      size += count;
      if (count > 0) total += values[i];
    }
#if SUMMED
    if (there)
      for (int k = BL_LANE; k < K; k += BL_LANES) result[row * K + k] = size > 0 ? 0.0f : alpha[k];
#endif
    const i64 longest = most(size);
    if (longest == 0) continue;
    const float grid = grid_of(total);
    for (i64 i = p + BL_LANE; i < q; i += BL_LANES) {
      const i64 count = particles(values[i]);
      const float parts = rint(values[i] / (float)count / grid);
      for (i64 n = first[i]; n < first[i] + count; ++n) {
        weights[n] = (parts > 1.0f ? parts : 1.0f) * grid;
        words[n] = indices[i];
        topics[n] = -1;
      }
    }
    Counts counts;
    begin_counts(counts, alpha, grid, memory);
    ROWS_SYNC();
    const i64 start = size > 0 ? first[p] : 0;
    for (i64 sweep = 0; sweep < burn + save; ++sweep) {
      for (i64 n0 = 0; n0 < longest; n0 += BL_LANES) {  // a lane that is not `here` draws nothing for topic -1
        const bool here = n0 + BL_LANE < size;
        const i64 mine = here ? n0 + BL_LANE : 0;
        const float own_u = here ? uniform_of(mine, size, sweep, row_ids[row], key) : 0.0f;
        const float own_weight = here ? weights[start + mine] : 0.0f;
        const int own_word = here ? words[start + mine] : 0, own_topic = here ? topics[start + mine] : -1;
        int drawn = 0;
        Word ahead;
        ahead.read(phi + (i64)row_from(own_word, 0) * K);
        for (int l = 0; l < BL_LANES && n0 + l < longest; ++l) {
          const float u = row_from(own_u, l), weight = row_from(own_weight, l);
          const int old = row_from(own_topic, l);
          const Word present = ahead;
          ahead.read(phi + (i64)row_from(own_word, l + 1 < BL_LANES ? l + 1 : l) * K);
          counts.add(old, -weight);
          const int topic = draw(counts, present, u);
          counts.add(n0 + l < size ? topic : -1, weight);
          if (l == BL_LANE) drawn = topic;
        }
        if (here) {
          topics[start + mine] = drawn;
#if !SUMMED
          if (sweep >= burn) result[(sweep - burn) * width + start + mine] = (unsigned short)drawn;
#endif
        }
      }
      ROWS_SYNC();
#if SUMMED
      if (sweep >= burn && size > 0) counts.add_to(result + row * K);
#endif
    }
  }
}
