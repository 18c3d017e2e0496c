// Counts of words and topics from a sampler's last sweeps. K: the number of topics.

#define TOPICS (K < 2048 ? K : 2048)  // that a block counts at a time
#define AT_ONCE 9  // sweeps whose topics are under way together

// The weight of each particle of an entry in a sweep.
__device__ __forceinline__ float share(float value, i64 sweeps) {
  const i64 parts = particles(value);
  return parts ? value / (float)(parts * sweeps) : 0.0f;
}

// out[c] = weights of the particles of column c by topic, averaged over the saved sweeps; all rows of
// out [columns x K] are written. local: out[a] is that of the a-th column that occurs. A block has a
// column. Weights are whole multiples of 2^-30 of the
// largest, so their sums are exact in any order.
template <class P>
__device__ __forceinline__ void count_topics(const i64* count, i64 columns, const int* active,
    const i64* starts, const P* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out, i64 local) {
  __shared__ u32 sums[TOPICS], carries[TOPICS];  // of 64 bits, which processors do not add atomically at once
  const i64 there = *count;
  for (i64 a = blockIdx.x; a <= there; a += gridDim.x) {
    const i64 before = a == 0 || local ? a : (i64)active[a - 1] + 1;
    const i64 column = a == there ? columns : local ? a : active[a];
    for (i64 e = before * K + threadIdx.x; e < column * K; e += BL_BLOCK) out[e] = 0.0f;
    if (a == there) continue;
    const i64 begin = starts[a], entries = starts[a + 1] - begin;
    float largest = 0.0f;
    for (i64 e = threadIdx.x; e < entries; e += BL_BLOCK)
      largest = bl_maximum(largest, share(values[t_pos[begin + e]], save));
    largest = bl_across_groups<bl_larger>(BL_MAX_ACROSS(largest));
    const double grid = ldexp(1.0, ilogbf(largest > 1e-30f ? largest : 1e-30f) - 30);
    for (int low = 0; low < K; low += TOPICS) {
      for (int t = threadIdx.x; t < TOPICS; t += BL_BLOCK) sums[t] = carries[t] = 0;
      __syncthreads();
      i64 next = threadIdx.x < entries ? t_pos[begin + threadIdx.x] : 0;
      for (i64 n = threadIdx.x; n < entries; n += BL_BLOCK) {
        const i64 i = next, parts = particles(values[i]);
        if (n + BL_BLOCK < entries) next = t_pos[begin + n + BL_BLOCK];
        const u32 weight = (u32)rint((double)share(values[i], save) / grid);  // at most 2^31
        for (i64 p = 0; p < parts; ++p)
          for (i64 s = 0; s < save; s += AT_ONCE) {
            const unsigned short* topics = z + s * width + first[i] + p;
            int drawn[AT_ONCE];
#pragma unroll
            for (int b = 0; b < AT_ONCE; ++b) drawn[b] = s + b < save ? topics[b * width] - low : -1;
#pragma unroll
            for (int b = 0; b < AT_ONCE; ++b) {
              if (drawn[b] < 0 || drawn[b] >= TOPICS) continue;
              const u32 before = atomicAdd(&sums[drawn[b]], weight);
              if (before + weight < before) atomicAdd(&carries[drawn[b]], 1u);
            }
          }
      }
      __syncthreads();
      for (int t = threadIdx.x; t < TOPICS && low + t < K; t += BL_BLOCK)
        out[column * K + low + t] = (float)((double)((u64)carries[t] << 32 | sums[t]) * grid);
      __syncthreads();
    }
  }
}
extern "C" __global__ void topic_counts_32(const i64* count, i64 columns, const int* active,
    const i64* starts, const int* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out, i64 local) {
  count_topics<int>(count, columns, active, starts, t_pos, values, first, save, width, z, out, local);
}
extern "C" __global__ void topic_counts_64(const i64* count, i64 columns, const int* active,
    const i64* starts, const i64* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out, i64 local) {
  count_topics<i64>(count, columns, active, starts, t_pos, values, first, save, width, z, out, local);
}
