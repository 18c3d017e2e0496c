// Sorting by key: numbers whose order is that of the keys, then of their columns, as `pack_keys` of cpu/kernels.py.

extern "C" __global__ void pack_keys(i64 size, i64 columns, const u32* source, u64* out) {
  for (i64 e = BL_THREAD; e < size; e += BL_THREADS) {
    const u32 x = source[e] == 0x80000000u ? 0u : source[e];  // -0 is 0
    u32 key = x ^ (x >> 31 ? 0xffffffffu : 0x80000000u);
    if ((x & 0x7fffffffu) > 0x7f800000u) key = 0xffffffffu;  // NaN
    out[e] = (u64)key << 32 | (u64)(e - bl_divide(e, columns) * columns);
  }
}
extern "C" __global__ void columns_of(i64 size, u64* out) {
  for (i64 e = BL_THREAD; e < size; e += BL_THREADS) out[e] &= 0xffffffffu;
}
