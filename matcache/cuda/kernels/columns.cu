// Products of transposed sparse matrices. Before this text: K columns of the table, in packs of PACK,
// which a group of BL_LANES lanes holds; V type of values, T of the table, O of sums, W of the result, P of
// positions. With ADD, sums times *scale, of type A, are added to rows of the result, and other rows stay.

#define PER BL_PER(K, PACK)
#define BLOCKS (sizeof(O) > 4 ? 1 : PER > 16 ? 3 : 4)  // of a processor, as registers allow

#ifndef ADD
typedef O A;
#endif
template <int N> __device__ __forceinline__ void put(W* to, const O* sum, const A* scale) {
#ifdef ADD
  A row[N];
  bl_load<N>(row, to);
#pragma unroll
  for (int v = 0; v < N; ++v) row[v] += *scale * sum[v];
  bl_store<N>(to, row);
#else
  bl_store<N>(to, sum);
#endif
}

// The column number a of those that occur; of a long one, every group of lanes has a part of the entries.
__device__ __forceinline__ void one_column(const bool LONG, i64 a, const int* __restrict__ active,
    const i64* __restrict__ starts, const int* __restrict__ t_rows, const P* __restrict__ t_pos,
    const V* __restrict__ values, const T* __restrict__ table, const A* __restrict__ scale, W* __restrict__ out) {
  const int group = LONG ? threadIdx.x / BL_LANES : 0;
  const i64 begin = starts[a], length = starts[a + 1] - begin;
  const i64 p = LONG ? begin + length * group / BL_GROUPS : begin;
  const i64 q = begin + (LONG ? length * (group + 1) / BL_GROUPS : length);
#if K == 1
  O sum = O(0);
  for (i64 e = p + BL_LANE; e < q; e += BL_LANES) sum += (O)values[t_pos[e]] * (O)table[t_rows[e]];
  sum = BL_SUM_ACROSS(sum);
  if (LONG) sum = bl_across_groups<bl_plus>(sum);
  if (group == 0 && BL_LANE == 0) put<1>(out + active[a], &sum, scale);
#else
  O sum[PER] = {};
  for (i64 e = p; e < q; e += 4) {  // four rows in flight
    const int there = q - e < 4 ? (int)(q - e) : 4;
    i64 row[4];
    O x[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      row[n] = n < there ? t_rows[e + n] : 0;
      x[n] = n < there ? (O)values[t_pos[e + n]] : O(0);
    }
#pragma unroll
    for (int s = 0, k = BL_LANE * PACK; s < PER; s += PACK, k += BL_LANES * PACK) {
      if (k >= K) continue;
      O from[4][PACK];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        if (n < there) bl_load<PACK>(from[n], table + row[n] * K + k);
#pragma unroll
      for (int n = 0; n < 4; ++n)
        if (n < there)
#pragma unroll
          for (int v = 0; v < PACK; ++v) sum[s + v] += x[n] * from[n][v];
    }
  }
  if (LONG) bl_add_groups<PER, PACK>(sum);
  if (group == 0)
#pragma unroll
    for (int s = 0, k = BL_LANE * PACK; s < PER; s += PACK, k += BL_LANES * PACK)
      if (k < K) put<PACK>(out + (i64)active[a] * K + k, sum + s, scale);
#endif
}
