// Follows columns.cu.

// out[c] += *scale * sum over the entries (r, c) of value * table[r], rows ascending.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, BLOCKS) add_transposed_product(const i64* count,
    const int* order, const i64* split, i64 apart, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const V* values, const T* table, const A* scale, W* out) {
  const bl_turns turns(*split, apart, *count);
  for (i64 n = turns.first; n < turns.end; n += turns.step)
    one_column(turns.together, order[n], active, starts, t_rows, t_pos, values, table, scale, out);
}
