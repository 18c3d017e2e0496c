// Rows in ascending order, NaN last. V: type of the numbers. Batcher's bitonic network with all
// comparisons one way, so that what is missing beyond the end of a row is as if it were the largest.
// sort_tiles puts tiles of TILE numbers in order. Then, for size = 2 TILE, 4 TILE, ... until a row is
// within one: sort_flip(size); sort_stride(stride) for stride = size / 4, ..., TILE; sort_ends.

#define TILE 1024

__device__ __forceinline__ void in_order(V& a, V& b) {
  const V x = a, y = b;
  if (y < x || (x != x && y == y)) {
    a = y;
    b = x;
  }
}
// Compare all i with i + stride.
__device__ __forceinline__ void compare(V* tile, int count, int stride) {
  for (int e = threadIdx.x; e < TILE / 2; e += BL_BLOCK) {
    const int i = e / stride * 2 * stride + e % stride;
    if (i + stride < count) in_order(tile[i], tile[i + stride]);
  }
  __syncthreads();
}
// Compare all i with their mirror image in blocks of `size`.
__device__ __forceinline__ void mirror(V* tile, int count, int size) {
  for (int e = threadIdx.x; e < TILE / 2; e += BL_BLOCK) {
    const int start = e / (size / 2) * size, i = e % (size / 2);
    if (start + size - 1 - i < count) in_order(tile[start + i], tile[start + size - 1 - i]);
  }
  __syncthreads();
}

template <bool ALL> __device__ __forceinline__ void tiles(i64 rows, i64 columns, const V* source, V* out) {
  __shared__ V tile[TILE];
  const i64 each = (columns + TILE - 1) / TILE;
  for (i64 n = blockIdx.x; n < rows * each; n += gridDim.x) {
    const i64 start = n / each * columns + n % each * TILE, left = columns - n % each * TILE;
    const int count = left < TILE ? (int)left : TILE;
    for (int e = threadIdx.x; e < count; e += BL_BLOCK) tile[e] = source[start + e];
    __syncthreads();
    if (ALL)
      for (int size = 2; size / 2 < count; size *= 2) {
        mirror(tile, count, size);
        for (int stride = size / 4; stride > 0; stride /= 2) compare(tile, count, stride);
      }
    else
      for (int stride = TILE / 2; stride > 0; stride /= 2) compare(tile, count, stride);
    for (int e = threadIdx.x; e < count; e += BL_BLOCK) out[start + e] = tile[e];
    __syncthreads();
  }
}
extern "C" __global__ void sort_tiles(i64 rows, i64 columns, const V* source, V* out) {
  tiles<true>(rows, columns, source, out);
}
extern "C" __global__ void sort_ends(i64 rows, i64 columns, V* out) {
  tiles<false>(rows, columns, out, out);
}
extern "C" __global__ void sort_flip(i64 rows, i64 columns, i64 size, V* out) {
  const i64 pairs = (columns + size - 1) / size * (size / 2);
  for (i64 n = BL_THREAD; n < rows * pairs; n += BL_THREADS) {
    const i64 row = n / pairs, e = n % pairs, start = e / (size / 2) * size, i = e % (size / 2);
    const i64 a = start + i, b = start + size - 1 - i;
    if (b < columns) in_order(out[row * columns + a], out[row * columns + b]);
  }
}
extern "C" __global__ void sort_stride(i64 rows, i64 columns, i64 stride, V* out) {
  const i64 pairs = (columns + 2 * stride - 1) / (2 * stride) * stride;
  for (i64 n = BL_THREAD; n < rows * pairs; n += BL_THREADS) {
    const i64 row = n / pairs, e = n % pairs, a = e / stride * 2 * stride + e % stride;
    if (a + stride < columns) in_order(out[row * columns + a], out[row * columns + a + stride]);
  }
}
