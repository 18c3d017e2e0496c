// Follows columns.cu.

// out[c] = sum over the entries (r, c) of value * table[r], rows ascending; zeros for columns that do not
// occur: all of out [columns x K] is written. order, split, apart: as of row-wise programs. count: of the
// columns that occur.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, BLOCKS) transposed_product(const i64* count,
    i64 columns, const int* order, const i64* split, i64 apart, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const V* values, const T* table, O* out) {
  const i64 there = *count;
  for (i64 a = BL_WARP; a <= there; a += BL_WARPS) {
    const i64 before = a == 0 ? 0 : (i64)active[a - 1] + 1, end = a < there ? active[a] : columns;
    for (i64 e = before * K + BL_LANE; e < end * K; e += BL_LANES) out[e] = O(0);
  }
  const bl_turns turns(*split, apart, there);
  for (i64 n = turns.first; n < turns.end; n += turns.step)
    one_column(turns.together, order[n], active, starts, t_rows, t_pos, values, table, nullptr, out);
}
