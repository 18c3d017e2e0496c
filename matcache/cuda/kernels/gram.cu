// X.T @ X of a sparse X: what is right of the diagonal, and the diagonal. V: type of values and of the result,
// P of positions.

// A column that occurs belongs to a group of lanes, which goes through its rows. out: zeros [k x k].
extern "C" __global__ void upper_gram(const i64* count, i64 k, const i64* __restrict__ indptr,
    const int* __restrict__ indices, const V* __restrict__ values, const int* __restrict__ active,
    const i64* __restrict__ starts, const int* __restrict__ t_rows, const P* __restrict__ t_pos, V* out) {
  for (i64 a = BL_WARP; a < *count; a += BL_WARPS) {
    const int c = active[a];
    for (i64 e = starts[a]; e < starts[a + 1]; ++e) {
      const int r = t_rows[e];
      const V x = values[t_pos[e]];
      for (i64 q = indptr[r] + BL_LANE; q < indptr[r + 1]; q += BL_LANES)
        if (indices[q] >= c) out[c * k + indices[q]] += x * values[q];
      BL_SYNC();
    }
  }
}
