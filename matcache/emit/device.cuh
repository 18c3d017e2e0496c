// What kernels stand on: lanes, scalar functions, random numbers.
//
// A row belongs to a group of BL_LANES lanes: a part of a warp, a warp, or (256) a whole block. Blocks
// have BL_BLOCK threads. All loops are stride loops over lanes, threads or groups, so that the same
// text with one lane and one thread (host tests) computes the same numbers in another order.
#ifndef BL_BLOCK
#define BL_BLOCK 256
#endif
#ifndef BL_LANES
#define BL_LANES 32
#endif
// Blocks of threads in a team, which share a row in modules for the longest rows: a cluster of sm_90.
#ifndef BL_TEAM
#define BL_TEAM 1
#endif
#if BL_TEAM > 1
#define BL_TEAMED __cluster_dims__(BL_TEAM)
#else
#define BL_TEAMED
#endif
#define BL_WARP_SIZE (BL_LANES < 32 ? BL_LANES : 32)
#define BL_SPREAD (BL_LANES > 32)  // over a whole block

typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;

#define BL_LANE ((int)(threadIdx.x % BL_LANES))
#define BL_WARP ((i64)blockIdx.x * (blockDim.x / BL_LANES) + threadIdx.x / BL_LANES)
#define BL_WARPS ((i64)gridDim.x * (blockDim.x / BL_LANES))
#define BL_THREAD ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define BL_THREADS ((i64)gridDim.x * blockDim.x)
// what must be rounded one by one: never fused into a multiply-add
#ifndef BL_PLUS
#define BL_PLUS(a, b) __dadd_rn(a, b)
#define BL_MINUS(a, b) __dsub_rn(a, b)
#define BL_TIMES(a, b) __fmul_rn(a, b)
#endif
// registers per lane for a vector of k numbers of which each lane holds v side by side
#define BL_PER(k, v) (((k) + BL_LANES * (v) - 1) / (BL_LANES * (v)) * (v))
#if BL_LANES == 1
#define BL_SYNC()
#define BL_MASK 1u
__device__ __forceinline__ u32 bl_ballot(bool x) { return x; }
template <class F> __device__ __forceinline__ F bl_from(F x, int lane) { return x; }
template <class F> __device__ __forceinline__ F bl_swap(F x, int distance) { return x; }
#else
// the lanes of this thread's group within its warp
#define BL_MASK ((0xffffffffu >> (32 - BL_WARP_SIZE)) << (threadIdx.x % 32 / BL_WARP_SIZE * BL_WARP_SIZE))
#if BL_LANES > 32
#define BL_SYNC() __syncthreads()
#else
#define BL_SYNC() __syncwarp(BL_MASK)
#endif
__device__ __forceinline__ u32 bl_ballot(bool x) {
  return __ballot_sync(BL_MASK, x) >> (threadIdx.x % 32 / BL_WARP_SIZE * BL_WARP_SIZE);
}
template <class F> __device__ __forceinline__ F bl_from(F x, int lane) {
  return __shfl_sync(BL_MASK, x, lane, BL_WARP_SIZE);
}
template <class F> __device__ __forceinline__ F bl_swap(F x, int distance) {
  return __shfl_xor_sync(BL_MASK, x, distance, BL_WARP_SIZE);
}
#endif

struct bl_plus { template <class F> static __device__ __forceinline__ F of(F a, F b) { return a + b; } };
struct bl_larger {
  template <class F> static __device__ __forceinline__ F of(F a, F b) { return (a > b || a != a) ? a : b; }
};
struct bl_smaller {
  template <class F> static __device__ __forceinline__ F of(F a, F b) { return (a < b || a != a) ? a : b; }
};
// Butterfly: every lane ends with the same bits, and the order is fixed.
template <class Op, class F> __device__ __forceinline__ F bl_across_warp(F x) {
#pragma unroll
  for (int s = BL_WARP_SIZE / 2; s > 0; s >>= 1) x = Op::of(x, bl_swap(x, s));
  return x;
}
template <class Op, class F> __device__ __forceinline__ F bl_across(F x) {
  x = bl_across_warp<Op>(x);
#if BL_LANES > 32
  __shared__ F parts[BL_LANES / 32];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int w = 1; w < BL_LANES / 32; ++w) x = Op::of(x, parts[w]);
  __syncthreads();
#endif
  return x;
}
#define BL_SUM_ACROSS(x) bl_across<bl_plus>(x)
#define BL_MAX_ACROSS(x) bl_across<bl_larger>(x)
#define BL_MIN_ACROSS(x) bl_across<bl_smaller>(x)
template <class F> __device__ __forceinline__ F BL_FROM_LANE(F x, int lane) {
#if BL_LANES > 32
  __shared__ F one;
  if ((int)threadIdx.x == lane) one = x;
  __syncthreads();
  x = one;
  __syncthreads();
  return x;
#else
  return bl_from(x, lane);
#endif
}
// The sum of the first n of SIZE numbers, by the lanes of a group; loads are under way together.
template <int SIZE, class T> __device__ __forceinline__ i64 bl_sum_of_first(const T* x, int n) {
  i64 sum = 0;
#pragma unroll 16
  for (int e = BL_LANE; e < SIZE; e += BL_LANES) sum += e < n ? x[e] : T(0);
  return BL_SUM_ACROSS(sum);
}
// The blocks of a team: which of them this one is; a barrier of all their threads, after which each sees what
// all have written; and a number in the shared memory of another one, at the place of `own` in this one's.
#if BL_TEAM == 1
__device__ __forceinline__ int bl_rank() { return 0; }
__device__ __forceinline__ void bl_meet() { __syncthreads(); }
template <class T> __device__ __forceinline__ T bl_of(int, const T* own) { return *own; }
#elif defined(__CUDA_ARCH__)
__device__ __forceinline__ int bl_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
__device__ __forceinline__ void bl_meet() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ u32 bl_place_of(int rank, const void* own) {
  u32 place;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"((u32)__cvta_generic_to_shared(own)), "r"(rank));
  return place;
}
__device__ __forceinline__ float bl_of(int rank, const float* own) {
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(bl_place_of(rank, own)) : "memory");
  return x;
}
__device__ __forceinline__ double bl_of(int rank, const double* own) {
  double x;
  asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(x) : "r"(bl_place_of(rank, own)) : "memory");
  return x;
}
#endif
// The groups of a block, and of the blocks that share a long row; which of those this one is.
#define BL_GROUPS (BL_BLOCK / BL_LANES)
#define BL_SHARERS (BL_TEAM * BL_GROUPS)
#define BL_SHARER (bl_rank() * BL_GROUPS + (int)threadIdx.x / BL_LANES)
// Combine what these groups have, group by group and block by block; every thread gets the result.
template <class Op, class F> __device__ __forceinline__ F bl_across_groups(F x) {
  __shared__ F parts[BL_GROUPS];
  if (threadIdx.x % BL_LANES == 0) parts[threadIdx.x / BL_LANES] = x;
  __syncthreads();
  x = parts[0];
  for (int g = 1; g < BL_GROUPS; ++g) x = Op::of(x, parts[g]);
  __syncthreads();
#if BL_TEAM > 1
  __shared__ F own;
  if (threadIdx.x == 0) own = x;
  bl_meet();
  x = bl_of(0, &own);
  for (int b = 1; b < BL_TEAM; ++b) x = Op::of(x, bl_of(b, &own));
  bl_meet();
#endif
  return x;
}
// The same of vectors in registers, PER of them in packs of V.
template <int PER, int V, class F> __device__ __forceinline__ void bl_add_groups(F* x) {
  __shared__ F parts[BL_BLOCK * V];
#pragma unroll
  for (int s = 0; s < PER; s += V) {
#pragma unroll
    for (int v = 0; v < V; ++v) parts[v * BL_BLOCK + threadIdx.x] = x[s + v];
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      F sum = parts[v * BL_BLOCK + threadIdx.x % BL_LANES];
      for (int g = 1; g < BL_GROUPS; ++g) sum += parts[v * BL_BLOCK + g * BL_LANES + threadIdx.x % BL_LANES];
      x[s + v] = sum;
    }
    __syncthreads();
  }
#if BL_TEAM > 1
  __shared__ F own[PER * BL_LANES];
  if (threadIdx.x < BL_LANES) {
#pragma unroll
    for (int r = 0; r < PER; ++r) own[r * BL_LANES + threadIdx.x] = x[r];
  }
  bl_meet();
#pragma unroll
  for (int r = 0; r < PER; ++r) {
    const F* place = own + r * BL_LANES + BL_LANE;
    F sum = bl_of(0, place);
    for (int b = 1; b < BL_TEAM; ++b) sum += bl_of(b, place);
    x[r] = sum;
  }
  bl_meet();
#endif
}
// The sum of what the threads of this block before this one have; all: of what all have.
template <class F> __device__ __forceinline__ F bl_before(F x, F* all) {
  __shared__ F sums[2][BL_BLOCK];
  const int me = threadIdx.x;
  int side = 0;
  sums[0][me] = x;
  __syncthreads();
  for (int step = 1; step < BL_BLOCK; step *= 2) {
    sums[1 - side][me] = sums[side][me] + (me >= step ? sums[side][me - step] : F(0));
    side = 1 - side;
    __syncthreads();
  }
  const F found = sums[side][me] - x;
  *all = sums[side][BL_BLOCK - 1];
  __syncthreads();
  return found;
}
// sums[e], e < n, becomes the sum of those before e; returns the sum of all. One block of threads, which
// reads and writes numbers side by side. Between those of two threads is a place, so that they are in other banks.
template <class F> __device__ __forceinline__ F bl_starts(i64 n, F* sums) {
  const int each = 8;  // numbers of a thread at a time
  __shared__ F tile[(each + 1) * BL_BLOCK];
  F base = F(0), all;
  for (i64 start = 0; start < n; start += each * BL_BLOCK) {
#pragma unroll
    for (int e = threadIdx.x; e < each * BL_BLOCK; e += BL_BLOCK)
      tile[e + e / each] = start + e < n ? sums[start + e] : F(0);
    __syncthreads();
    F* mine = tile + (each + 1) * threadIdx.x;
    F own = F(0);
    for (int e = 0; e < each; ++e) own += mine[e];
    F before = base + bl_before(own, &all);
    for (int e = 0; e < each; ++e) {
      const F here = mine[e];
      mine[e] = before;
      before += here;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < each * BL_BLOCK && start + e < n; e += BL_BLOCK) sums[start + e] = tile[e + e / each];
    __syncthreads();
    base += all;
  }
  return base;
}
// Which rows this thread's group works on, or (together) this block: of `rows` in an order, the first
// `split` are long, and the first blocks, at most `apart`, work on those; but on none before `begin`.
struct bl_turns {
  bool together;
  i64 first, end, step;
  __device__ __forceinline__ bl_turns(i64 split, i64 apart, i64 rows, i64 begin = 0) {
    const i64 most = split - begin, blocks = most < apart ? most : apart, groups = blockDim.x / BL_LANES;
    together = blockIdx.x < blocks;
    first = together ? begin + blockIdx.x : split + BL_WARP - blocks * groups;
    end = together ? split : rows;
    step = together ? blocks : BL_WARPS - blocks * groups;
  }
};
// Ask for what will be read soon.
__device__ __forceinline__ void bl_ask_for(const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
#else
  (void)address;
#endif
}
// e / by, both not negative; a division of 64 bits takes five times as long as one of 32.
__device__ __forceinline__ i64 bl_divide(i64 e, i64 by) {
  return (u64)(e | by) >> 32 ? e / by : (i64)((u32)e / (u32)by);
}
// Sums of N numbers at once, N a power of two: two become one, of which each half of the lanes holds one,
// until each lane holds a part of one sum. Fewer shuffles than N sums; the order is fixed.
template <int N, class F> __device__ __forceinline__ void bl_sums(F* x) {
#if BL_LANES == 1
  (void)x;
#elif BL_LANES > 32 || BL_LANES < 8
#pragma unroll
  for (int n = 0; n < N; ++n) x[n] = BL_SUM_ACROSS(x[n]);
#else
  int distance = BL_LANES / 2;
#pragma unroll
  for (int half = N / 2; half > 0; half >>= 1) {
    const bool upper = threadIdx.x & distance;
#pragma unroll
    for (int n = 0; n < half; ++n) {
      const F keep = upper ? x[n + half] : x[n], give = upper ? x[n] : x[n + half];
      x[n] = keep + bl_swap(give, distance);
    }
    distance >>= 1;
  }
#pragma unroll
  for (int s = BL_LANES / N / 2; s > 0; s >>= 1) x[0] += bl_swap(x[0], s);
  const F mine = x[0];
#pragma unroll
  for (int n = 0; n < N; ++n) x[n] = bl_from(mine, n * (BL_LANES / N));
#endif
}
// V numbers that are read and written at once: 16 bytes where the address is a multiple of 16.
template <class T, int V> struct alignas(sizeof(T) * V) bl_pack { T x[V]; };
template <int V, class F, class T> __device__ __forceinline__ void bl_load(F* to, const T* from) {
  const bl_pack<T, V> pack = *reinterpret_cast<const bl_pack<T, V>*>(from);
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = (F)pack.x[v];
}
template <int V, class F, class T> __device__ __forceinline__ void bl_store(T* to, const F* from) {
  bl_pack<T, V> pack;
#pragma unroll
  for (int v = 0; v < V; ++v) pack.x[v] = (T)from[v];
  *reinterpret_cast<bl_pack<T, V>*>(to) = pack;
}
// The upper half of a float32: what a table may be stored as. Read as float32; rounded to even.
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  __device__ __forceinline__ explicit bfloat16(float x) {
    union { float f; u32 u; } as;
    as.f = x;
    bits = x != x ? 0x7fc0 : (unsigned short)((as.u + 0x7fffu + (as.u >> 16 & 1u)) >> 16);
  }
  __device__ __forceinline__ operator float() const {
    union { u32 u; float f; } as;
    as.u = (u32)bits << 16;
    return as.f;
  }
};
// By words of two, each of which takes one operation.
template <int V, class F> __device__ __forceinline__ void bl_load(F* to, const bfloat16* from) {
  bl_pack<u32, (V + 1) / 2> words;
  if (V == 1) words.x[0] = from->bits;
  else words = *reinterpret_cast<const bl_pack<u32, (V + 1) / 2>*>(from);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    union { u32 u; float f; } as;
    as.u = v % 2 ? words.x[v / 2] & 0xffff0000u : words.x[v / 2] << 16;
    to[v] = (F)as.f;
  }
}

#define BL_INF(F) ((F)1e300 * (F)1e300)
#define BL_NAN(F) (BL_INF(F) - BL_INF(F))

template <class F> __device__ __forceinline__ F bl_maximum(F a, F b) { return (a > b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F bl_minimum(F a, F b) { return (a < b || a != a) ? a : b; }
template <class F> __device__ __forceinline__ F bl_sign(F x) { return x > F(0) ? F(1) : x < F(0) ? F(-1) : x; }
template <class F> __device__ __forceinline__ F bl_sigmoid(F x) {
  const F e = exp(-fabs(x));
  return (x >= F(0) ? F(1) : e) / (F(1) + e);
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
// 1 / y and the sum of 1 / (x + i), i < 4, are by one division: with q = x (x + 3) the sum is
// (2 x + 3) (1 / q + 1 / (q + 2)). From 1e7 on, where q (q + 2) would overflow, it is left out.
template <class F> __device__ __forceinline__ F bl_exppsi(F x) {
  const F tiny = F(1e-20), many = F(1e7);
  const bool large = x > many;
  const F y = large ? x - F(0.5) : x + F(3.5), c = large ? many : x, q = c * (c + F(3));
  const F below = large ? F(1) : q * (q + F(2)), above = (F(2) * c + F(3)) * (F(2) * q + F(2));
  const F one = F(1) / (y * below), v = one * below, w = v * v;
  const F r = large ? F(0) : above * y * one;
  F s = y + v * (F(1.0 / 24) - w * (F(37.0 / 5760) - w * (F(10313.0 / 2903040) - w * F(5509121.0 / 1393459200))));
  F p = s * exp(-r);
  if (x != x || x < F(0)) return BL_NAN(F);
  return p > tiny ? p : tiny;
}
// The same to the precision of double, as cpu_math64.py.
__device__ __forceinline__ double bl_digamma(double x) {
  if (x < 0.0 || x != x) return BL_NAN(double);
  if (x == 0.0) return -BL_INF(double);
  double y = x, r = 0.0;
  for (; y < 10.0; y += 1.0) r -= 1.0 / y;
  const double w = 1.0 / (y * y);
  const double s = w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132 - w * (691.0 / 32760))))));
  return r + log(y) - 0.5 / y - s;
}
__device__ __forceinline__ double bl_exppsi(double x) { return bl_maximum(exp(bl_digamma(x)), 1e-20); }
// For x >= 0; NaN where gamma has a sign.
template <class F> __device__ __forceinline__ F bl_lgamma(F x) { return x < F(0) ? BL_NAN(F) : lgamma(x); }

// Philox 4x32-10 (Salmon et al. 2011); key: seed, pass, block. As cpu_random.py, bit for bit.
struct bl_words { u32 x[4]; };
__device__ __forceinline__ bl_words bl_random_words(const i64* key, u32 row, u32 column, u32 stream) {
  u32 c0 = row, c1 = column, c2 = (u32)key[2], c3 = (u32)key[1];
  u32 k0 = (u32)((u64)key[0] & 0xffffffffu), k1 = (u32)((u64)key[0] >> 32) ^ (stream * 0x9E3779B1u);
  for (int i = 0; i < 10; ++i) {
    u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1; c3 = (u32)p0; c0 = n0; c2 = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
__device__ __forceinline__ u32 bl_random_bits(const i64* key, u32 row, u32 column, u32 stream) {
  return bl_random_words(key, row, column, stream).x[0];
}
template <class F> __device__ __forceinline__ F bl_uniform(u32 bits);
template <> __device__ __forceinline__ float bl_uniform<float>(u32 bits) {
  return ((float)(bits >> 9) + 0.5f) * 1.1920928955078125e-7f;
}
template <> __device__ __forceinline__ double bl_uniform<double>(u32 bits) {
  return ((double)bits + 0.5) * 2.3283064365386963e-10;
}
