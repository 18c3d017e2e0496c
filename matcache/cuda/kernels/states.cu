// Rows of a state, or of the data, that stay on the device: those of a block are copied to a place of their
// own, and back. ids: of the block's rows, -1 for padding. V: a type as wide as a number.

// rows [n x width] = store[ids]; rows of padding become zero.
extern "C" __global__ void take_rows(i64 n, i64 width, const i64* ids, const V* store, V* rows) {
  for (i64 e = BL_THREAD; e < n * width; e += BL_THREADS) {
    const i64 row = bl_divide(e, width), id = ids[row];
    rows[e] = id < 0 ? V(0) : store[id * width + e - row * width];
  }
}
// store[ids] = rows; rows of padding become zero.
extern "C" __global__ void put_rows(i64 n, i64 width, const i64* ids, V* rows, V* store) {
  for (i64 e = BL_THREAD; e < n * width; e += BL_THREADS) {
    const i64 row = bl_divide(e, width), id = ids[row];
    if (id < 0) rows[e] = V(0);
    else store[id * width + e - row * width] = rows[e];
  }
}

// starts[r]: how many numbers the block's row r has, those from offsets[id] to offsets[id + 1].
extern "C" __global__ void row_sizes(i64 n, const i64* ids, const i64* offsets, i64* starts) {
  for (i64 r = BL_THREAD; r < n; r += BL_THREADS) {
    const i64 id = ids[r];
    starts[r] = id < 0 ? 0 : offsets[id + 1] - offsets[id];
  }
}
// starts[r] becomes how many numbers the rows before it have. One block of threads.
// counts: 0, or where starts[n] and counts[0] become how many all rows have.
extern "C" __global__ void __launch_bounds__(BL_BLOCK) row_starts(i64 n, i64* starts, i64* counts) {
  const i64 all = bl_starts(n, starts);
  if (counts && threadIdx.x == 0) starts[n] = counts[0] = all;
}
extern "C" __global__ void take_tokens(i64 n, const i64* ids, const i64* offsets, const i64* places,
    const V* store, V* tokens) {
  for (i64 r = BL_WARP; r < n; r += BL_WARPS) {
    if (ids[r] < 0) continue;
    const i64 first = offsets[ids[r]], size = offsets[ids[r] + 1] - first;
    for (i64 t = BL_LANE; t < size; t += BL_LANES) tokens[places[r] + t] = store[first + t];
  }
}
extern "C" __global__ void put_tokens(i64 n, const i64* ids, const i64* offsets, const i64* places,
    const V* tokens, V* store) {
  for (i64 r = BL_WARP; r < n; r += BL_WARPS) {
    if (ids[r] < 0) continue;
    const i64 first = offsets[ids[r]], size = offsets[ids[r] + 1] - first;
    for (i64 t = BL_LANE; t < size; t += BL_LANES) store[first + t] = tokens[places[r] + t];
  }
}

// Rows of a sparse matrix as a block, after row_starts: a thread for each entry, so that long rows are shared.
extern "C" __global__ void take_entries(i64 n, const i64* ids, const i64* offsets, const int* columns,
    const V* values, const i64* starts, int* to_columns, V* to_values) {
  for (i64 e = BL_THREAD; e < starts[n]; e += BL_THREADS) {
    i64 row = 0, end = n;  // the last row that begins at or before it
    while (end - row > 1) {
      const i64 middle = (row + end) / 2;
      if (starts[middle] <= e) row = middle;
      else end = middle;
    }
    const i64 from = offsets[ids[row]] + e - starts[row];
    to_columns[e] = columns[from];
    to_values[e] = values[from];
  }
}
