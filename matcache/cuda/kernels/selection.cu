// Rows and columns of a sparse matrix, by position: cpu/selection.py. V: type of values.
// counts[0]: how many entries are chosen; counts[2]: the place, plus one, of a position out of range.

extern "C" __global__ void row_lengths(i64 n, const i64* at, i64 rows, const i64* indptr, i64* starts,
    i64* counts) {
  for (i64 i = BL_THREAD; i < n; i += BL_THREADS) {
    const i64 r = at[i];
    const bool there = r >= 0 && r < rows;
    starts[i] = there ? indptr[r + 1] - indptr[r] : 0;
    if (!there) counts[2] = i + 1;
  }
}

// Turn lengths into offsets. One block of threads.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) length_starts(i64 n, i64* starts, i64* counts) {
  const i64 all = bl_starts(n, starts);
  if (threadIdx.x == 0) starts[n] = counts[0] = all;
}

// A row belongs to a group of lanes.
extern "C" __global__ void copy_rows(i64 n, const i64* at, const i64* indptr, const int* columns,
    const V* values, const i64* starts, int* to_columns, V* to_values) {
  for (i64 i = BL_WARP; i < n; i += BL_WARPS) {
    const i64 from = indptr[at[i]], to = starts[i], length = starts[i + 1] - to;
    for (i64 e = BL_LANE; e < length; e += BL_LANES) {
      to_columns[to + e] = columns[from + e];
      to_values[to + e] = values[from + e];
    }
  }
}

// The lists of cpu/selection.py, but their places are in any order. first: zeros.
extern "C" __global__ void link_columns(i64 m, const i64* at, i64 columns, int* first, int* after,
    i64* counts) {
  for (i64 p = BL_THREAD; p < m; p += BL_THREADS) {
    const bool there = at[p] >= 0 && at[p] < columns;
    after[p] = there ? atomicExch(&first[at[p]], (int)p + 1) : 0;
    if (!there) counts[2] = p + 1;
  }
}

__device__ __forceinline__ i64 list_length(int p, const int* after) {
  i64 length = 0;
  for (; p > 0; p = after[p - 1]) ++length;
  return length;
}

// starts[i]: the chosen entries of row i.
extern "C" __global__ void column_lengths(i64 rows, const int* first, const int* after, const i64* indptr,
    const int* columns, i64* starts) {
  for (i64 i = BL_WARP; i < rows; i += BL_WARPS) {
    i64 length = 0;
    for (i64 e = indptr[i] + BL_LANE; e < indptr[i + 1]; e += BL_LANES)
      length += list_length(first[columns[e]], after);
    length = BL_SUM_ACROSS(length);
    if (BL_LANE == 0) starts[i] = length;
  }
}

// Sort a row by column: Batcher's bitonic network with all comparisons one way, as in sort.cu.
__device__ __forceinline__ void sort_row(i64 length, int* columns, V* values) {
  for (i64 size = 2; size / 2 < length; size *= 2)
    for (i64 stride = size / 2; stride > 0; stride /= 2) {
      for (i64 e = BL_LANE; e / stride * 2 * stride < length; e += BL_LANES) {
        const i64 a = e / stride * 2 * stride + e % stride;
        const i64 b = stride == size / 2 ? e / stride * 2 * stride + size - 1 - e % stride : a + stride;
        if (b < length && columns[b] < columns[a]) {
          const int column = columns[a];
          const V value = values[a];
          columns[a] = columns[b], values[a] = values[b];
          columns[b] = column, values[b] = value;
        }
      }
      BL_SYNC();
    }
}

extern "C" __global__ void copy_columns(i64 rows, const int* first, const int* after, const i64* indptr,
    const int* columns, const V* values, const i64* starts, int* to_columns, V* to_values) {
  for (i64 i = BL_WARP; i < rows; i += BL_WARPS) {
    i64 to = starts[i];
    for (i64 tile = indptr[i]; tile < indptr[i + 1]; tile += BL_LANES) {
      const i64 e = tile + BL_LANE;
      int p = e < indptr[i + 1] ? first[columns[e]] : 0;
      const i64 own = list_length(p, after);
      i64 place = to, all = 0;
      for (int lane = 0; lane < BL_LANES; ++lane) {
        const i64 length = BL_FROM_LANE(own, lane);
        place += lane < BL_LANE ? length : 0;
        all += length;
      }
      for (; p > 0; p = after[p - 1]) {
        to_columns[place] = p - 1;
        to_values[place++] = values[e];
      }
      to += all;
    }
    BL_SYNC();
    const i64 start = starts[i], length = to - start;
    int falls = 0;
    for (i64 e = BL_LANE + 1; e < length; e += BL_LANES)
      falls |= to_columns[start + e] < to_columns[start + e - 1];
    if (BL_SUM_ACROSS(falls)) sort_row(length, to_columns + start, to_values + start);
  }
}

extern "C" __global__ void unlink_columns(i64 m, const i64* at, i64 columns, int* first) {
  for (i64 p = BL_THREAD; p < m; p += BL_THREADS)
    if (at[p] >= 0 && at[p] < columns) first[at[p]] = 0;
}
