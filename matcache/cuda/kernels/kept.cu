// New topics for tokens whose topics are kept, by all weights: `redraw_rows` of cpu/topics/kept_rows.py, to the last
// bit. Z: type of a topic's number; K or more: none yet.

// What is left of phi at a token's present topic without the token, as a share.
__device__ __forceinline__ float share_left(const T* phi, int word, int topic, const float* one) {
  const float f = (float)phi[(i64)word * K + topic], own = one[topic];
  return bl_maximum((f - own) / ((1.0f - own) * f), 0.0f);
}

// `again` sweeps over the tokens of each row, in `order`; `sweeps` where they have no topics.
// room: tokens that `topics` and `old` have room for. one [K]: what a token adds to phi. old: becomes the
// topics before the sweeps. words: scratch, one number for each token. memory: see begin_counts.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, RESIDENT) redraw_topics(i64 rows, const int* order,
    const i64* indptr, const int* indices, const float* values, const i64* first, i64 room, const i64* row_ids,
    const i64* key, Z* topics, const T* phi, const float* one, const float* alpha, i64 sweeps, i64 again,
    Z* old, int* words, float* memory) {
  for (i64 turn = BL_WARP; most(rows - turn) > 0; turn += BL_WARPS) {
    const bool there = turn < rows;
    const i64 row = there ? order[turn] : 0, p = there ? indptr[row] : 0, q = there ? indptr[row + 1] : 0;
    i64 start = 0, size = 0;
    if (p < q) {
      start = first[p];
      size = first[q - 1] + particles(values[q - 1]) - start;
      if (start + size > room) size = 0;
    }
    const i64 longest = most(size);
    if (longest == 0) continue;
    float total = 0.0f;  // in order, as on the CPU
#pragma unroll 16
    for (int k = 0; k < K; ++k) total += alpha[k];
    total += (float)size;
    for (i64 i = p + BL_LANE; size > 0 && i < q; i += BL_LANES)
      for (i64 n = first[i]; n < first[i] + particles(values[i]); ++n) words[n] = indices[i];
    Counts counts;
    begin_counts(counts, alpha, grid_of(total), memory);
    for (i64 n0 = 0; n0 < longest; n0 += BL_LANES) {
      const bool here = n0 + BL_LANE < size;
      const Z own = here ? topics[start + n0 + BL_LANE] : 0;
      if (here) old[start + n0 + BL_LANE] = own;
      const int own_topic = here && own < K ? (int)own : -1;
      for (int l = 0; l < BL_LANES && n0 + l < longest; ++l) counts.add(row_from(own_topic, l), 1.0f);
    }
    ROWS_SYNC();
    const i64 due = size == 0 ? 0 : old[start] < K ? again : sweeps, rounds = most(due);
    for (i64 sweep = 0; sweep < rounds; ++sweep)
      for (i64 n0 = 0; n0 < longest; n0 += BL_LANES) {  // a lane that is not `here` draws nothing for topic -1
        const bool here = n0 + BL_LANE < size && sweep < due;
        const i64 mine = here ? n0 + BL_LANE : 0;
        const float own_u = here ? uniform_of(mine, size, sweep, row_ids[row], key) : 0.0f;
        const Z own = here ? topics[start + mine] : 0, was = here ? old[start + mine] : 0;
        const int own_word = here ? words[start + mine] : 0, own_topic = here && own < K ? (int)own : -1;
        const bool counted = here && was < K && own == was;  // by phi, at this topic
        const float own_share = counted ? share_left(phi, own_word, (int)was, one) : 1.0f;
        int drawn = 0;
        Word ahead;
        ahead.read(phi + (i64)row_from(own_word, 0) * K);
        for (int l = 0; l < BL_LANES && n0 + l < longest; ++l) {
          const float u = row_from(own_u, l), share = row_from(own_share, l);
          const int before = row_from(own_topic, l);
          const Word present = ahead;
          ahead.read(phi + (i64)row_from(own_word, l + 1 < BL_LANES ? l + 1 : l) * K);
          const float left = counts.take(before, share);
          const int topic = draw(counts, present, u);
          counts.put(before, left, n0 + l < size && sweep < due ? topic : -1);
          if (l == BL_LANE) drawn = topic;
        }
        if (here) topics[start + mine] = (Z)drawn;
      }
  }
}
