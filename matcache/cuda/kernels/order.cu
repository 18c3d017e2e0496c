// Rows in the order in which they are worked on: the longest first, of equal length classes the first.
// A class is the length's power of two and its next three bits; one block of threads.

#define CLASSES 256

__device__ __forceinline__ int length_class(i64 length) {
  int power = 0;
  while (length >> power > 15) ++power;
  const int found = power == 0 ? (int)length : 16 + (power - 1) * 8 + (int)((length >> power) & 7);
  return CLASSES - 1 - (found < CLASSES - 1 ? found : CLASSES - 1);
}

// order int [rows]; split[0]: how many rows are longer than `longest`, about (whole classes). count: the
// number of rows, or 0 where it is `rows`. scratch: int [CLASSES x BL_BLOCK].
extern "C" __global__ void length_order(const i64* count, i64 rows, const i64* indptr, i64 longest,
    int* order, i64* split, int* scratch) {
  const i64 n = count ? *count : rows;
  const i64 first = n * threadIdx.x / BL_BLOCK, last = n * (threadIdx.x + 1) / BL_BLOCK;
  for (int c = 0; c < CLASSES; ++c) scratch[c * BL_BLOCK + threadIdx.x] = 0;
  for (i64 i = first; i < last; ++i)
    ++scratch[length_class(indptr[i + 1] - indptr[i]) * BL_BLOCK + threadIdx.x];
  __syncthreads();
  // each thread sums up some classes, then all that come before them, then fills in their places
  __shared__ i64 before[CLASSES + 1];
  for (int c = threadIdx.x; c < CLASSES; c += BL_BLOCK) {
    i64 sum = 0;
    for (int t = 0; t < BL_BLOCK; ++t) sum += scratch[c * BL_BLOCK + t];
    before[c + 1] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    before[0] = 0;
    for (int c = 0; c < CLASSES; ++c) before[c + 1] += before[c];
    *split = before[length_class(longest)];
  }
  __syncthreads();
  for (int c = threadIdx.x; c < CLASSES; c += BL_BLOCK) {
    i64 place = before[c];
    for (int t = 0; t < BL_BLOCK; ++t) {
      const int here = scratch[c * BL_BLOCK + t];
      scratch[c * BL_BLOCK + t] = (int)place;
      place += here;
    }
  }
  __syncthreads();
  for (i64 i = first; i < last; ++i)
    order[scratch[length_class(indptr[i + 1] - indptr[i]) * BL_BLOCK + threadIdx.x]++] = (int)i;
}
