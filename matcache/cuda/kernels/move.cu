// Numbers moved and converted. V: their type.

// out [columns x rows] = source [rows x columns], turned by tiles: lines of memory on both sides.
extern "C" __global__ void transpose_tiles(i64 rows, i64 columns, const V* source, V* out) {
  __shared__ V tile[32][33];
  const i64 across = (columns + 31) / 32, tiles = (rows + 31) / 32 * across;
  for (i64 n = blockIdx.x; n < tiles; n += gridDim.x) {
    const i64 i0 = n / across * 32, j0 = n % across * 32;
    for (int e = threadIdx.x; e < 1024; e += BL_BLOCK)
      if (i0 + e / 32 < rows && j0 + e % 32 < columns)
        tile[e / 32][e % 32] = source[(i0 + e / 32) * columns + j0 + e % 32];
    __syncthreads();
    for (int e = threadIdx.x; e < 1024; e += BL_BLOCK)
      if (j0 + e / 32 < columns && i0 + e % 32 < rows)
        out[(j0 + e / 32) * rows + i0 + e % 32] = tile[e % 32][e / 32];
    __syncthreads();
  }
}

// What is right of the diagonal of out [k x k], copied to the other side of it.
extern "C" __global__ void mirror_tiles(i64 k, V* out) {
  __shared__ V tile[32][33];
  const i64 across = (k + 31) / 32;
  for (i64 n = blockIdx.x; n < across * across; n += gridDim.x) {
    const i64 i0 = n / across * 32, j0 = n % across * 32;
    if (j0 < i0) continue;
    for (int e = threadIdx.x; e < 1024; e += BL_BLOCK)
      if (i0 + e / 32 < j0 + e % 32 && j0 + e % 32 < k) tile[e / 32][e % 32] = out[(i0 + e / 32) * k + j0 + e % 32];
    __syncthreads();
    for (int e = threadIdx.x; e < 1024; e += BL_BLOCK)
      if (i0 + e % 32 < j0 + e / 32 && j0 + e / 32 < k) out[(j0 + e / 32) * k + i0 + e % 32] = tile[e % 32][e / 32];
    __syncthreads();
  }
}

// A table as bfloat16, rounded to even. Both arrays start at multiples of 16 bytes.
extern "C" __global__ void to_bfloat16(i64 size, const float* source, bfloat16* out) {
  const i64 packs = size / 4;
  for (i64 e = BL_THREAD; e < packs; e += BL_THREADS) {
    float x[4];
    bl_load<4>(x, source + 4 * e);
    bl_store<4>(out + 4 * e, x);
  }
  for (i64 e = 4 * packs + BL_THREAD; e < size; e += BL_THREADS) out[e] = bfloat16(source[e]);
}
