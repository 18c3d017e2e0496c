// Rows in the order in which they are worked on: the longest first, of equal length classes the first.
// A class is the length's power of two and its next three bits. order_count, then order_rows.

#define CLASSES 256
#define PARTS 64  // of the rows, that are counted apart

__device__ __forceinline__ int length_class(i64 length) {
  int power = 0;
  while (length >> power > 15) ++power;
  const int found = power == 0 ? (int)length : 16 + (power - 1) * 8 + (int)((length >> power) & 7);
  return CLASSES - 1 - (found < CLASSES - 1 ? found : CLASSES - 1);
}

// found[p * CLASSES + c]: rows of part p in class c. count: the number of rows, or 0 where it is `rows`.
extern "C" __global__ void order_count(const i64* count, i64 rows, const i64* indptr, int* found) {
  __shared__ int own[CLASSES];
  const i64 n = count ? *count : rows;
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    for (int c = threadIdx.x; c < CLASSES; c += BL_BLOCK) own[c] = 0;
    __syncthreads();
    for (i64 i = n * part / PARTS + threadIdx.x; i < n * (part + 1) / PARTS; i += BL_BLOCK)
      atomicAdd(&own[length_class(indptr[i + 1] - indptr[i])], 1);
    __syncthreads();
    for (int c = threadIdx.x; c < CLASSES; c += BL_BLOCK) found[part * CLASSES + c] = own[c];
    __syncthreads();
  }
}

// next[c]: where the rows of a part that are in class c begin.
__device__ __forceinline__ void begin_classes(const int* found, i64 part, int* next) {
  int base = 0, all;
  for (int first = 0; first < CLASSES; first += BL_BLOCK) {
    const int c = first + threadIdx.x;
    int before = 0, sum = 0;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
      const int here = c < CLASSES ? found[p * CLASSES + c] : 0;
      sum += here;
      if (p < part) before += here;
    }
    const int place = base + bl_before(sum, &all) + before;
    if (c < CLASSES) next[c] = place;
    base += all;
  }
  __syncthreads();
}

// order int [rows]. A tile has a row for each thread; those of one class stay in their order.
// split[0], split[1]: how many rows are longer than `block` and `team`, about (whole classes).
extern "C" __global__ void order_rows(const i64* count, i64 rows, const i64* indptr, const int* found,
    i64 block, i64 team, i64* split, int* order) {
  __shared__ int next[CLASSES], classes[BL_BLOCK];
  const i64 n = count ? *count : rows;
  for (i64 part = blockIdx.x; part < PARTS; part += gridDim.x) {
    const i64 last = n * (part + 1) / PARTS;
    begin_classes(found, part, next);
    if (part == 0 && threadIdx.x == 0) {
      split[0] = next[length_class(block)];
      split[1] = next[length_class(team)];
    }
    for (i64 start = n * part / PARTS; start < last; start += BL_BLOCK) {
      const int here = last - start < BL_BLOCK ? (int)(last - start) : BL_BLOCK;
      const int me = threadIdx.x;
      const i64 i = start + me;
      if (me < here) classes[me] = length_class(indptr[i + 1] - indptr[i]);
      __syncthreads();
      int before = 0, all = 0, place = 0;
      if (me < here) {
        for (int t = 0; t < here; ++t) {
          const bool same = classes[t] == classes[me];
          all += same;
          before += same && t < me;
        }
        place = next[classes[me]] + before;
        order[place] = (int)i;
      }
      __syncthreads();
      if (me < here && before == all - 1) next[classes[me]] = place + 1;
      __syncthreads();
    }
  }
}
