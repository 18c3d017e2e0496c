// What generated kernels stand on: lanes of a warp, scalar functions, random numbers.
// A row belongs to one warp. On the host (tests) a warp has one lane and shuffles are identities:
// define BL_LANES, BL_SUM_ACROSS, BL_MAX_ACROSS, BL_MIN_ACROSS and BL_FROM_LANE before including.
#ifndef BL_LANES
#define BL_LANES 32
#define BL_FULL 0xffffffffu
template <class F> __device__ __forceinline__ F BL_SUM_ACROSS(F x) {
  // butterfly: every lane ends with the same bits, and the order is fixed
  for (int s = 16; s > 0; s >>= 1) x += __shfl_xor_sync(BL_FULL, x, s);
  return x;
}
template <class F> __device__ __forceinline__ F bl_larger(F a, F b) { return (a > b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F bl_smaller(F a, F b) { return (a < b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F BL_MAX_ACROSS(F x) {
  for (int s = 16; s > 0; s >>= 1) x = bl_larger(x, __shfl_xor_sync(BL_FULL, x, s));
  return x;
}
template <class F> __device__ __forceinline__ F BL_MIN_ACROSS(F x) {
  for (int s = 16; s > 0; s >>= 1) x = bl_smaller(x, __shfl_xor_sync(BL_FULL, x, s));
  return x;
}
template <class F> __device__ __forceinline__ F BL_FROM_LANE(F x, int lane) {
  return __shfl_sync(BL_FULL, x, lane);
}
#endif

typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;

#define BL_LANE ((int)(threadIdx.x % BL_LANES))
#define BL_WARP ((i64)blockIdx.x * (blockDim.x / BL_LANES) + threadIdx.x / BL_LANES)
#define BL_WARPS ((i64)gridDim.x * (blockDim.x / BL_LANES))
#define BL_THREAD ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define BL_THREADS ((i64)gridDim.x * blockDim.x)
// sums that must be rounded one by one: never fused into a multiply-add
#ifndef BL_PLUS
#define BL_PLUS(a, b) __dadd_rn(a, b)
#define BL_MINUS(a, b) __dsub_rn(a, b)
#endif
// registers per lane for a vector of k numbers
#define BL_PER(k) (((k) + BL_LANES - 1) / BL_LANES)
#define BL_INF(F) ((F)1e300 * (F)1e300)
#define BL_NAN(F) (BL_INF(F) - BL_INF(F))

template <class F> __device__ __forceinline__ F bl_maximum(F a, F b) { return (a > b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F bl_minimum(F a, F b) { return (a < b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F bl_sign(F x) { return x > F(0) ? F(1) : x < F(0) ? F(-1) : x; }
template <class F> __device__ __forceinline__ F bl_sigmoid(F x) {
  F e = exp(-fabs(x)), p = F(1) / (F(1) + e);
  return x >= F(0) ? p : e * p;
}
template <class F> __device__ __forceinline__ F bl_softplus(F x) {
  return (x > F(0) || x != x ? x : F(0)) + log1p(exp(-fabs(x)));
}
// psi(x + n) by its asymptotic series (Abramowitz & Stegun 6.3.18), and the recurrence 6.3.6
template <class F> __device__ __forceinline__ F bl_digamma(F x) {
  F y = x, r = F(0);
#pragma unroll
  for (int i = 0; i < 8; ++i) { r -= F(1) / y; y += F(1); }
  F w = F(1) / (y * y);
  F s = w * (F(1.0 / 12) - w * (F(1.0 / 120) - w * (F(1.0 / 252) - w * (F(1.0 / 240) - w * F(1.0 / 132)))));
  return x < F(0) ? F(0) / F(0) : x == F(0) ? -F(1) / F(0) : r + log(y) - F(0.5) / y - s;
}
// exp(psi(x)), never below 1e-20; exp(psi(y + 1/2)) = y + 1/(24 y) - 37/(5760 y^3) + ...
template <class F> __device__ __forceinline__ F bl_exppsi(F x) {
  const F tiny = F(1e-20);
  F y = x + F(7.5), v = F(1) / y, w = v * v;
  F s = y + v * (F(1.0 / 24) - w * (F(37.0 / 5760) - w * (F(10313.0 / 2903040) - w * F(5509121.0 / 1393459200))));
  F r = F(0);
#pragma unroll
  for (int i = 0; i < 8; ++i) r += F(1) / (x + F(i));
  F p = s * exp(-r);
  if (x != x || x < F(0)) return F(0) / F(0);
  return p > tiny ? p : tiny;
}

// Philox 4x32-10 (Salmon et al. 2011); key: seed, pass, block. As cpu_random.py, bit for bit.
__device__ __forceinline__ u32 bl_random_bits(const i64* key, u32 row, u32 column, u32 stream) {
  u32 c0 = row, c1 = column, c2 = (u32)key[2], c3 = (u32)key[1];
  u32 k0 = (u32)((u64)key[0] & 0xffffffffu), k1 = (u32)((u64)key[0] >> 32) ^ (stream * 0x9E3779B1u);
  for (int i = 0; i < 10; ++i) {
    u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1; c3 = (u32)p0; c0 = n0; c2 = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return c0;
}
template <class F> __device__ __forceinline__ F bl_uniform(u32 bits);
template <> __device__ __forceinline__ float bl_uniform<float>(u32 bits) {
  return ((float)(bits >> 9) + 0.5f) * 1.1920928955078125e-7f;
}
template <> __device__ __forceinline__ double bl_uniform<double>(u32 bits) {
  return ((double)bits + 0.5) * 2.3283064365386963e-10;
}
