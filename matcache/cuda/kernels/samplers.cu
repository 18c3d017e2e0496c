// What samplers of topics share: numbers of particles, random numbers, sums of lanes.
// A row belongs to 16 lanes, two rows to a warp. KEPT: a particle is a token. TOGETHER: both rows go through the
// same loops, as long as the longer one needs; then a mask is known to the compiler, and exchanges are cheap.

#define CAP 8
#define OWN (16 / BL_LANES)  // of the 16 lanes, how many are this thread's: 1, and 16 on the host
#define CHUNKS 1024

__device__ __forceinline__ i64 particles(float x) {
  if (!(x > 0.0f)) return 0;
#if KEPT
  return (i64)x;
#else
  return x > (float)CAP ? CAP : (i64)ceil(x);
#endif
}

// sums[c]: particles of the chunk c of the entries; sums int64 [CHUNKS].
extern "C" __global__ void count_sums(i64 rows, const i64* indptr, const float* values, i64* sums) {
  const i64 start = indptr[0], nnz = indptr[rows] - start;
  for (i64 c = BL_WARP; c < CHUNKS; c += BL_WARPS) {
    i64 sum = 0;
    for (i64 i = start + nnz * c / CHUNKS + BL_LANE; i < start + nnz * (c + 1) / CHUNKS; i += BL_LANES)
      sum += particles(values[i]);
    sum = BL_SUM_ACROSS(sum);
    if (BL_LANE == 0) sums[c] = sum;
  }
}
// first[i] = number of the first particle of entry i. work[0] grows by `each` for every particle.
extern "C" __global__ void count_particles(i64 rows, const i64* indptr, const float* values,
    const i64* sums, i64 each, i64* work, i64* first) {
  const i64 start = indptr[0], nnz = indptr[rows] - start;
  for (i64 c = BL_WARP; c < CHUNKS; c += BL_WARPS) {
    const i64 end = start + nnz * (c + 1) / CHUNKS;
    i64 before = bl_sum_of_first<CHUNKS>(sums, (int)c);
    for (i64 i0 = start + nnz * c / CHUNKS; i0 < end; i0 += BL_LANES) {
      const i64 own = i0 + BL_LANE < end ? particles(values[i0 + BL_LANE]) : 0;
      i64 place = before, all = 0;
      for (int l = 0; l < BL_LANES; ++l) {
        const i64 other = bl_from(own, l);
        all += other;
        if (l < BL_LANE) place += other;
      }
      if (i0 + BL_LANE < end) first[i0 + BL_LANE] = place;
      before += all;
    }
    if (c == CHUNKS - 1 && BL_LANE == 0) work[0] += each * before;
  }
}

// Philox as in device.cuh, all four words.
__device__ __forceinline__ void philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1, u32* out) {
  for (int i = 0; i < 10; ++i) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    const u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1; c3 = (u32)p0; c0 = n0; c2 = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}
// Uniform number j of n of a row's sweep.
__device__ __forceinline__ float uniform_of(i64 j, i64 n, i64 sweep, i64 row, const i64* key) {
  const i64 q = (n + 3) >> 2;
  const u64 seed = (u64)key[0];
  const u32 k0 = (u32)seed ^ 0x47494242u, k1 = (u32)(seed >> 32) ^ (u32)((u64)key[1] * 0x9E3779B1u);
  u32 words[4];
  philox((u32)(j % q), (u32)sweep, (u32)row, (u32)((u64)row >> 32), k0, k1, words);
  const i64 w = j / q;
  const u32 word = w == 0 ? words[0] : w == 1 ? words[1] : w == 2 ? words[2] : words[3];
  return (float)(int)(word >> 8) * 5.9604644775390625e-8f;
}

#if TOGETHER && BL_LANES == 16
#define ROWS_MASK 0xffffffffu
#else
#define ROWS_MASK BL_MASK
#endif
#if BL_LANES == 1
#define ROWS_SYNC()
__device__ __forceinline__ i64 most(i64 x) { return x; }
#else
#define ROWS_SYNC() __syncwarp(ROWS_MASK)
// The larger x of both rows of a warp.
__device__ __forceinline__ i64 most(i64 x) {
  const i64 other = __shfl_xor_sync(ROWS_MASK, x, 16, 32);
  return x > other ? x : other;
}
#endif
// What lane `lane` of the row has; which of its lanes have a true x.
template <class F> __device__ __forceinline__ F row_from(F x, int lane) {
#if BL_LANES == 1
  return x;
#else
  return __shfl_sync(ROWS_MASK, x, lane, BL_WARP_SIZE);
#endif
}
__device__ __forceinline__ u32 row_ballot(bool x) {
#if BL_LANES == 1
  return x;
#else
  return __ballot_sync(ROWS_MASK, x) >> (threadIdx.x % 32 / BL_WARP_SIZE * BL_WARP_SIZE) & 0xffffu;
#endif
}

// The 16 lanes' numbers, moved up by `s` lanes; zeros come in.
__device__ __forceinline__ void shifted(float* x, int s) {
#if BL_LANES == 1
  for (int l = 15; l >= 0; --l) x[l] = l >= s ? x[l - s] : 0.0f;
#else
  const float other = __shfl_up_sync(ROWS_MASK, x[0], s, BL_WARP_SIZE);
  x[0] = BL_LANE >= s ? other : 0.0f;
#endif
}

// What lane `lane` of the 16 has.
template <class F> __device__ __forceinline__ F of_lane(const F* x, int lane) {
  return OWN == 1 ? row_from(x[0], lane) : x[lane % OWN];
}
// Sums of the 16 lanes' numbers, each of all up to it.
__device__ __forceinline__ void sums_of_lanes(float* x) {
  float moved[OWN];
#pragma unroll
  for (int s = 1; s < 16; s <<= 1) {
    for (int o = 0; o < OWN; ++o) moved[o] = x[o];
    shifted(moved, s);
    for (int o = 0; o < OWN; ++o) x[o] += moved[o];
  }
}
