// Non-negative least squares of many rows: the counterpart of cpu/nonnegative.py.

// Each number of a row of W [rows x k] in turn moves to where w G w' / 2 - w pull' is least. A row belongs to
// a group of lanes. rest [rows x k]: pull - w G.
extern "C" __global__ void nonnegative_steps(i64 rows, i64 k, i64 rounds, float* W, const float* pull,
    const float* G, float* rest) {
  for (i64 i = BL_WARP; i < rows; i += BL_WARPS) {
    float *w = W + i * k, *left = rest + i * k;
    for (i64 j = BL_LANE; j < k; j += BL_LANES) {
      float sum = pull[i * k + j];
      for (i64 c = 0; c < k; ++c) sum = fma(-G[c * k + j], w[c], sum);
      left[j] = sum;
    }
    BL_SYNC();
    for (i64 round = 0; round < rounds; ++round)
      for (i64 c = 0; c < k; ++c) {
        const float before = w[c], diagonal = G[c * k + c];
        float now = before + left[c] / (diagonal > 1e-30f ? diagonal : 1e-30f);
        now = now < 0.0f ? 0.0f : now;  // NaN stays
        const float step = now - before;
        BL_SYNC();  // all have read w[c] and left[c]
        if (BL_LANE == 0) w[c] = now;
        for (i64 j = BL_LANE; j < k; j += BL_LANES) left[j] = fma(-G[c * k + j], step, left[j]);
        BL_SYNC();
      }
  }
}
