// Drawing one of K topics by all their weights: `sample` of cpu/gibbs.py, to the last bit.
// Topic 16 v + l is in lane l's register v; of more than RESIDENT topics it is number 16 v + l of the row's
// counts in memory, which only lane l touches. T: type of the table.

#define VECTORS ((K + 15) / 16)
#define LAST (K - (VECTORS - 1) * 16)
#define PADDED (VECTORS * 16)
#if K > RESIDENT
#define AHEAD 8  // vectors whose loads are under way together
#else
#define AHEAD VECTORS
#endif
#define LINE (128 / (int)sizeof(T))  // numbers of the table that arrive together

// A row's counts of topics, without those of the particle that is drawn. `number`: of vector v, lane o.
struct Counts {
#if K > RESIDENT
  float* x;
  __device__ __forceinline__ float& number(int v, int o) { return x[v * 16 + BL_LANE + o]; }
  __device__ __forceinline__ void add(int topic, float weight) {
    const int lane = (topic & 15) - BL_LANE;
    if (topic >= 0 && lane >= 0 && lane < OWN) x[topic] += weight;
  }
  // Leave out a particle at `topic`, of which only a share is left; return what is left.
  __device__ __forceinline__ float take(int topic, float share) {
    const int lane = (topic & 15) - BL_LANE;
    if (topic < 0 || lane < 0 || lane >= OWN) return 0.0f;
    const float left = x[topic] - 1.0f;
    x[topic] = left * share;
    return left;
  }
  // Put back what was left, and add the particle to another topic.
  __device__ __forceinline__ void put(int before, float left, int topic) {
    const int lane = (before & 15) - BL_LANE;
    if (before >= 0 && lane >= 0 && lane < OWN) x[before] = left;
    add(topic, 1.0f);
  }
#else
  float x[VECTORS][OWN];
  __device__ __forceinline__ float& number(int v, int o) { return x[v][o]; }
  __device__ __forceinline__ void add(int topic, float weight) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o)
        if (topic == v * 16 + BL_LANE + o) x[v][o] += weight;
  }
  __device__ __forceinline__ float take(int topic, float share) {
    float left = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o)
        if (topic == v * 16 + BL_LANE + o) {
          left = x[v][o] - 1.0f;
          x[v][o] = left * share;
        }
    return left;
  }
  __device__ __forceinline__ void put(int before, float left, int topic) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int o = 0; o < OWN; ++o) {
        const int here = v * 16 + BL_LANE + o;
        if (before == here) x[v][o] = left;
        if (topic == here) x[v][o] += 1.0f;
      }
  }
#endif
  // The sum of weights up to vector v. before: the same of the vector before; f: the word's row.
  __device__ __forceinline__ float sum(const T* f, int v, int o, float before) {
    const int topic = v * 16 + BL_LANE + o;
    const float x = topic < K ? (float)f[topic] : 0.0f;
    return v == 0 ? BL_TIMES(number(v, o), x) : fma(number(v, o), x, before);
  }
};

// Draw a topic. f: the word's row of the table. Sums of vectors are kept in registers, or made again.
__device__ __forceinline__ int draw(Counts& counts, const T* f, float u) {
  float prefix[OWN], before[OWN];
#if K > RESIDENT
#pragma unroll AHEAD
  for (int v = 0; v < VECTORS; ++v)
    for (int o = 0; o < OWN; ++o) prefix[o] = counts.sum(f, v, o, v ? prefix[o] : 0.0f);
#else
  float sums[VECTORS][OWN];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v)
#pragma unroll
    for (int o = 0; o < OWN; ++o) sums[v][o] = counts.sum(f, v, o, v ? sums[v ? v - 1 : 0][o] : 0.0f);
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
#pragma unroll AHEAD
    for (int v = 0; v < VECTORS - 1; ++v) {
#if K > RESIDENT
      sum = counts.sum(f, v, o, sum);
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
// Start a row's counts with alpha, on its grid. memory [groups x PADDED]: of counts, where K > RESIDENT.
__device__ __forceinline__ void begin_counts(Counts& counts, const float* alpha, float grid, float* memory) {
#if K > RESIDENT
  counts.x = memory + BL_WARP * PADDED;
#endif
#pragma unroll AHEAD
  for (int v = 0; v < VECTORS; ++v)
#pragma unroll
    for (int o = 0; o < OWN; ++o) {
      const int topic = v * 16 + BL_LANE + o;
      const float parts = topic < K ? rint(alpha[topic] / grid) : 0.0f;
      counts.number(v, o) = topic < K ? (parts > 1.0f ? parts : 1.0f) * grid : 0.0f;
    }
}
