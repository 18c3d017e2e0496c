// Drawing one of K topics by all their weights: `draw` of cpu/topics/draws.py, to the last bit.
// Topic 16 v + l is lane l's number v. T: type of the table. COUNTS: where those of a row are, see below.

#define VECTORS ((K + 15) / 16)
#define LAST (K - (VECTORS - 1) * 16)
#define PADDED (VECTORS * 16)
#define STRIDE (PADDED + (VECTORS % 2 ? 0 : 16))  // both rows of a warp are in other banks of shared memory
#define LINE (128 / (int)sizeof(T))  // numbers of the table that arrive together
#define READ_AHEAD (K <= 384)  // whether a word's numbers are read into registers while the word before it is drawn
#define SUMMED_ONCE (K <= 2048)  // whether sums of vectors are kept in registers
#define RESIDENT ((COUNTS == 0 || K > 1024 ? 256 : 512) / BL_BLOCK)  // least blocks of a processor, for registers
#define AT_ONCE (SUMMED_ONCE ? VECTORS : 8)  // vectors whose loads are under way together

// A row's counts of topics, each touched by one lane only. `number`: of vector v, lane o. In registers (0) a change
// is an instruction or two for each of them; in shared memory (1) or the device's (2) fewer, which wait for each other.
struct Counts {
#if COUNTS == 0
  float x[VECTORS][OWN];
  __device__ __forceinline__ float& number(int v, int o) { return x[v][o]; }
  __device__ __forceinline__ void add(int topic, float weight) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o)
        if (topic == v * 16 + BL_LANE + o) x[v][o] += weight;
  }
#else
  float* x;
  __device__ __forceinline__ float& number(int v, int o) { return x[v * 16 + BL_LANE + o]; }
  __device__ __forceinline__ bool has(int topic) {
    const int lane = (topic & 15) - BL_LANE;
    return topic >= 0 && lane >= 0 && lane < OWN;
  }
  __device__ __forceinline__ void add(int topic, float weight) {
    if (has(topic)) x[topic] += weight;
  }
  // Leave out a particle at `topic`, of which only a share is left; return what is left.
  __device__ __forceinline__ float take(int topic, float share) {
    if (!has(topic)) return 0.0f;
    const float left = x[topic] - 1.0f;
    x[topic] = left * share;
    return left;
  }
  // Put back what was left, and add the particle to another topic.
  __device__ __forceinline__ void put(int before, float left, int topic) {
    if (has(before)) x[before] = left;
    add(topic, 1.0f);
  }
#endif
  // Add all counts to those of a row [K].
  __device__ __forceinline__ void add_to(float* row) {
#pragma unroll AT_ONCE
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o) {
        const int topic = v * 16 + BL_LANE + o;
        if (topic < K) row[topic] += number(v, o);
      }
  }
};

// A word's row of the table; `read` begins before its numbers are needed.
struct Word {
#if READ_AHEAD
  float x[VECTORS][OWN];
  __device__ __forceinline__ void read(const T* f) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o) {
        const int topic = v * 16 + BL_LANE + o;
        x[v][o] = topic < K ? (float)f[topic] : 0.0f;
      }
  }
  __device__ __forceinline__ float number(int v, int o) const { return x[v][o]; }
#else
  const T* row;
  __device__ __forceinline__ void read(const T* f) {
    row = f;
    for (int t = BL_LANE * LINE; t < K; t += BL_LANES * LINE) bl_ask_for(f + t);
  }
  __device__ __forceinline__ float number(int v, int o) const {
    const int topic = v * 16 + BL_LANE + o;
    return topic < K ? (float)row[topic] : 0.0f;
  }
#endif
};
// The sum of weights up to vector v. before: the same of the vector before.
__device__ __forceinline__ float sum_of(Counts& counts, const Word& word, int v, int o, float before) {
  const float x = word.number(v, o);
  return v == 0 ? BL_TIMES(counts.number(v, o), x) : fma(counts.number(v, o), x, before);
}

// Draw a topic. Sums of vectors are kept in registers, or made again.
__device__ __forceinline__ int draw(Counts& counts, const Word& word, float u) {
  float prefix[OWN], before[OWN];
#if !SUMMED_ONCE
#pragma unroll AT_ONCE
  for (int v = 0; v < VECTORS; ++v)
    for (int o = 0; o < OWN; ++o) prefix[o] = sum_of(counts, word, v, o, v ? prefix[o] : 0.0f);
#else
  float sums[VECTORS][OWN];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v)
#pragma unroll
    for (int o = 0; o < OWN; ++o) sums[v][o] = sum_of(counts, word, v, o, v ? sums[v ? v - 1 : 0][o] : 0.0f);
#pragma unroll
  for (int o = 0; o < OWN; ++o) prefix[o] = sums[VECTORS - 1][o];
#endif
  sums_of_lanes(prefix);
  for (int o = 0; o < OWN; ++o) before[o] = prefix[o];
  shifted(before, 1);
  const float t = BL_TIMES(u, row_from(prefix[OWN - 1], BL_LANES - 1));
  u32 bits = 0;
  for (int o = 0; o < OWN; ++o) bits |= row_ballot(prefix[o] <= t) << o;
  const int lane = __popc(bits & ((1u << ((K < 16 ? K : 16) - 1)) - 1));
  int passed[OWN];
#pragma unroll
  for (int o = 0; o < OWN; ++o) {
    const float left = t - before[o];
    float sum = 0.0f;
    passed[o] = 0;
#pragma unroll AT_ONCE
    for (int v = 0; v < VECTORS - 1; ++v) {
#if !SUMMED_ONCE
      sum = sum_of(counts, word, v, o, sum);
#else
      sum = sums[v][o];
#endif
      if (!(v == VECTORS - 2 && BL_LANE + o >= LAST)) passed[o] += sum <= left;
    }
  }
  return of_lane(passed, lane) * 16 + lane;
}

// float32 sums of multiples of the grid are exact up to 2 * total.
__device__ __forceinline__ float grid_of(float total) {
  return ldexpf(1.0f, ilogbf(total > 1e-30f ? total : 1e-30f) - 22);
}
// Start a row's counts with alpha, on its grid. memory [groups x PADDED]: of counts, if they are in the device's.
__device__ __forceinline__ void begin_counts(Counts& counts, const float* alpha, float grid, float* memory) {
#if COUNTS == 1
  __shared__ float all[BL_GROUPS * STRIDE];
  counts.x = all + threadIdx.x / BL_LANES * STRIDE;
#elif COUNTS == 2
  counts.x = memory + BL_WARP * PADDED;
#endif
#pragma unroll AT_ONCE
  for (int v = 0; v < VECTORS; ++v)
#pragma unroll
    for (int o = 0; o < OWN; ++o) {
      const int topic = v * 16 + BL_LANE + o;
      const float parts = topic < K ? rint(alpha[topic] / grid) : 0.0f;
      counts.number(v, o) = topic < K ? (parts > 1.0f ? parts : 1.0f) * grid : 0.0f;
    }
}
