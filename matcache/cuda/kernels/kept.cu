// New topics for tokens whose topics are kept, by all weights: `redraw_rows` of cpu/kept_gibbs.py, to the last
// bit. Z: type of a topic's number; K or more: none yet.

// What is left of phi at a token's present topic without the token, as a share.
__device__ __forceinline__ float share_left(const T* phi, int word, int topic, const float* one) {
  const float f = (float)phi[(i64)word * K + topic], own = one[topic];
  return bl_maximum((f - own) / ((1.0f - own) * f), 0.0f);
}

// A sweep over the tokens of each row, in `order`; several where they have no topics.
// room: tokens that `topics` and `old` have room for. one [K]: what a token adds to phi. old: becomes the
// topics before the sweeps. words: scratch, one number for each token. memory: see begin_counts.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, 1) redraw_topics(i64 rows, const int* order,
    const i64* indptr, const int* indices, const float* values, const i64* first, i64 room, const i64* row_ids,
    const i64* key, Z* topics, const T* phi, const float* one, const float* alpha, i64 sweeps, Z* old,
    int* words, float* memory) {
  for (i64 turn = BL_WARP; turn < rows; turn += BL_WARPS) {
    const i64 row = order[turn], p = indptr[row], q = indptr[row + 1];
    if (p == q) continue;
    const i64 start = first[p], size = first[q - 1] + particles(values[q - 1]) - start;
    if (size == 0 || start + size > room) continue;
    float total = (float)size;  // in order, as on the CPU
#pragma unroll 16
    for (int k = 0; k < K; ++k) total += alpha[k];
    for (i64 i = p + BL_LANE; i < q; i += BL_LANES)
      for (i64 n = first[i]; n < first[i] + particles(values[i]); ++n) words[n] = indices[i];
    Counts counts;
    begin_counts(counts, alpha, grid_of(total), memory);
    for (i64 n0 = 0; n0 < size; n0 += BL_LANES) {
      const i64 mine = start + (n0 + BL_LANE < size ? n0 + BL_LANE : size - 1);
      const Z own = topics[mine];
      if (n0 + BL_LANE < size) old[mine] = own;
      const int own_topic = own < K ? (int)own : -1;
      for (int l = 0; l < BL_LANES && n0 + l < size; ++l) counts.add(bl_from(own_topic, l), 1.0f);
    }
    BL_SYNC();
    const i64 due = old[start] < K ? 1 : sweeps;
    for (i64 sweep = 0; sweep < due; ++sweep)
      for (i64 n0 = 0; n0 < size; n0 += BL_LANES) {
        const i64 mine = n0 + BL_LANE < size ? n0 + BL_LANE : size - 1;
        const float own_u = uniform_of(mine, size, sweep, row_ids[row], key);
        const Z own = topics[start + mine], was = old[start + mine];
        const int own_word = words[start + mine], own_topic = own < K ? (int)own : -1;
        const float own_share = was < K ? share_left(phi, own_word, (int)was, one) : 1.0f;
        int drawn = 0;
        for (int l = 0; l < BL_LANES && n0 + l < size; ++l) {
          const float u = bl_from(own_u, l), share = bl_from(own_share, l);
          const int word = bl_from(own_word, l), before = bl_from(own_topic, l);
          const T* next = phi + (i64)bl_from(own_word, l + 1 < BL_LANES ? l + 1 : l) * K;
          for (int t = BL_LANE * LINE; t < K; t += BL_LANES * LINE) bl_ask_for(next + t);
          const float left = counts.take(before, share);
          const int topic = draw(counts, phi + (i64)word * K, u);
          counts.put(before, left, topic);
          if (l == BL_LANE) drawn = topic;
        }
        if (n0 + BL_LANE < size) topics[start + mine] = (Z)drawn;
      }
  }
}
