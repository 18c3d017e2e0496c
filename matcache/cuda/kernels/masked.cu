// Products of two sparse matrices at the entries of a third: `masked_product` of cpu/masked.py.
// Before this text: V type of values of A, T of B, O of the result, P of positions.

#define MUCH 16  // times as long: then entries are looked up one by one

// The first place in numbers[first:last], ascending, of one that is not smaller.
__device__ __forceinline__ i64 place_of(const int* __restrict__ numbers, i64 first, i64 last, int wanted) {
  while (first < last) {
    const i64 middle = (first + last) >> 1;
    if (numbers[middle] < wanted) first = middle + 1;
    else last = middle;
  }
  return first;
}

// A row of the mask belongs to a group of lanes, an entry of it to a lane. active, b_places: 0 where B is by row.
extern "C" __global__ void masked_product(i64 rows, const i64* __restrict__ indptr,
    const int* __restrict__ indices, const i64* __restrict__ a_starts, const int* __restrict__ a_columns,
    const V* __restrict__ a_values, const int* __restrict__ active, const i64* active_count,
    const i64* __restrict__ b_starts, const int* __restrict__ b_ids, const P* __restrict__ b_places,
    const T* __restrict__ b_values, O* __restrict__ out) {
  for (i64 i = BL_WARP; i < rows; i += BL_WARPS) {
    const i64 first = a_starts[i], last = a_starts[i + 1];
    for (i64 e = indptr[i] + BL_LANE; e < indptr[i + 1]; e += BL_LANES) {
      i64 j = indices[e];
      if (active) {
        j = place_of(active, 0, *active_count, indices[e]);
        if (j == *active_count || active[j] != indices[e]) {
          out[e] = O(0);
          continue;
        }
      }
      i64 x = first, y = b_starts[j];
      const i64 stop = b_starts[j + 1];
      const bool few = last - x > MUCH * (stop - y), many = stop - y > MUCH * (last - x);
      double sum = 0.0;
      while (x < last && y < stop) {
        if (few) x = place_of(a_columns, x, last, b_ids[y]);
        if (many) y = place_of(b_ids, y, stop, a_columns[x]);
        if (x == last || y == stop) break;
        const int c = a_columns[x], d = b_ids[y];
        if (c == d) sum += (double)a_values[x] * (double)b_values[b_places ? b_places[y] : y];
        x += c <= d;
        y += d <= c;
      }
      out[e] = (O)sum;
    }
  }
}
