// Tokens dealt to two halves: split_tokens of cpu_kernels.py, to the last bit. V: type of the values.
// A row belongs to a group of lanes, which draw for as many tokens at a time; what follows from the
// draws is sequential, and every lane works it out.

__device__ __forceinline__ i64 tokens_of(V value) {
  const V most = 4611686018427387904.0;  // 2^62: an i64 must hold them
  return (i64)ceil(value < most ? value : most);
}
__device__ __forceinline__ i64 drawn_tokens(i64 count) { return count <= 64 ? count : 64 + count % 2; }

extern "C" __global__ void split_tokens(i64 rows, const i64* indptr, const V* values, const i64* row_ids,
    const i64* key, V* seen, V* scored) {
  for (i64 i = BL_WARP; i < rows; i += BL_WARPS) {
    i64 left = 0;
    for (i64 j = indptr[i] + BL_LANE; j < indptr[i + 1]; j += BL_LANES)
      left += drawn_tokens(tokens_of(values[j]));
    left = BL_SUM_ACROSS(left);
    i64 need = (left + 1) / 2, token = 0;
    for (i64 j = indptr[i]; j < indptr[i + 1]; ++j) {
      const V value = values[j];
      const i64 count = tokens_of(value), drawn = drawn_tokens(count);
      i64 taken = (count - drawn) / 2;
      for (i64 first = 0; first < drawn; first += BL_LANES) {
        const u32 bits = bl_random_bits(key, (u32)row_ids[i], (u32)(token + first + BL_LANE), 0);
        for (int t = 0; t < BL_LANES && first + t < drawn; ++t) {
          const double draw = ((double)bl_from(bits, t) + 0.5) * 2.3283064365386963e-10;
          if (draw * (double)left < (double)need) {
            ++taken;
            --need;
          }
          --left;
        }
      }
      token += drawn;
      if (BL_LANE == 0) {
        const V part = (V)((double)value * (double)taken / (double)(count > 1 ? count : 1));
        seen[j] = part;
        scored[j] = value - part;
      }
    }
  }
}
