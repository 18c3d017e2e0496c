// The sampler of topics: cpu_gibbs.py, to the last bit. K: the number of topics; T: type of the table.
// A row belongs to 16 lanes, two rows to a warp. Topic 16 v + l is in lane l's register v; of more than
// RESIDENT topics it is number 16 v + l of the row's counts in memory, which only lane l touches.

#define VECTORS ((K + 15) / 16)
#define LAST (K - (VECTORS - 1) * 16)
#define PADDED (VECTORS * 16)
#if K > RESIDENT
#define AHEAD 8  // vectors whose loads are under way together
#else
#define AHEAD VECTORS
#endif
#define CAP 8
#define LINE (128 / (int)sizeof(T))  // numbers of the table that arrive together
#define OWN (16 / BL_LANES)  // of the 16 lanes, how many are this thread's: 1, and 16 on the host
#define CHUNKS 1024
#define TOPICS (K < 2048 ? K : 2048)  // that a block counts at a time

__device__ __forceinline__ i64 particles(float x) {
  if (!(x > 0.0f)) return 0;
  return x > (float)CAP ? CAP : (i64)ceil(x);
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
// sums[c]: particles before chunk c. work[0] grows by `each` for every particle. One block of threads.
extern "C" __global__ void count_starts(i64* sums, i64 each, i64* work) {
  const i64 all = bl_starts<i64>(CHUNKS, sums);
  if (threadIdx.x == 0) work[0] += each * all;
}
// first[i] = number of the first particle of entry i.
extern "C" __global__ void count_particles(i64 rows, const i64* indptr, const float* values,
    const i64* sums, i64* first) {
  const i64 start = indptr[0], nnz = indptr[rows] - start;
  for (i64 c = BL_WARP; c < CHUNKS; c += BL_WARPS) {
    const i64 end = start + nnz * (c + 1) / CHUNKS;
    i64 before = sums[c];
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

// The 16 lanes' numbers, moved up by `s` lanes; zeros come in.
__device__ __forceinline__ void shifted(float* x, int s) {
#if BL_LANES == 1
  for (int l = 15; l >= 0; --l) x[l] = l >= s ? x[l - s] : 0.0f;
#else
  const float other = __shfl_up_sync(BL_MASK, x[0], s, BL_WARP_SIZE);
  x[0] = BL_LANE >= s ? other : 0.0f;
#endif
}

// A row's counts of topics, without those of the particle that is drawn. `number`: of vector v, lane o.
struct Counts {
#if K > RESIDENT
  float* x;
  __device__ __forceinline__ float& number(int v, int o) { return x[v * 16 + BL_LANE + o]; }
  __device__ __forceinline__ void add(int topic, float weight) {
    const int lane = (topic & 15) - BL_LANE;
    if (topic >= 0 && lane >= 0 && lane < OWN) x[topic] += weight;
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
  float prefix[OWN], before[OWN], moved[OWN];
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
#pragma unroll
  for (int s = 1; s < 16; s <<= 1) {
    for (int o = 0; o < OWN; ++o) moved[o] = prefix[o];
    shifted(moved, s);
    for (int o = 0; o < OWN; ++o) prefix[o] += moved[o];
  }
  for (int o = 0; o < OWN; ++o) before[o] = prefix[o];
  shifted(before, 1);
  const float t = BL_TIMES(u, bl_from(prefix[OWN - 1], BL_LANES - 1));
  u32 bits = 0;
  for (int o = 0; o < OWN; ++o) bits |= bl_ballot(prefix[o] <= t) << o;
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
  return OWN == 1 ? bl_from(passed[0], lane) * 16 + lane : passed[lane % OWN] * 16 + lane;
}

// Sweeps over the particles of each row, in `order`. z u16 [save x width]: topics after each of the last sweeps.
// Scratch, one number for each particle: weights, words (columns), topics. memory [groups x PADDED]: of counts,
// where K > RESIDENT.
extern "C" __global__ void __launch_bounds__(BL_BLOCK, 1) sample(i64 rows, const int* order,
    const i64* indptr, const int* indices, const float* values, const i64* first, const i64* row_ids, const i64* key,
    const T* phi, const float* alpha, i64 burn, i64 save, i64 width, unsigned short* z,
    float* weights, int* words, int* topics, float* memory) {
  for (i64 turn = BL_WARP; turn < rows; turn += BL_WARPS) {
    const i64 row = order[turn], p = indptr[row], q = indptr[row + 1];
    float total = 0.0f;  // in order, as on the CPU
    for (int k = 0; k < K; ++k) total += alpha[k];
    i64 size = 0;
    for (i64 i = p; i < q; ++i) {
      const i64 count = particles(values[i]);
      size += count;
      if (count > 0) total += values[i];
    }
    if (size == 0) continue;
    const float grid = ldexpf(1.0f, ilogbf(total > 1e-30f ? total : 1e-30f) - 22);
    for (i64 i = p + BL_LANE; i < q; i += BL_LANES) {
      const i64 count = particles(values[i]);
      const float parts = rint(values[i] / (float)count / grid);
      for (i64 n = first[i]; n < first[i] + count; ++n) {
        weights[n] = (parts > 1.0f ? parts : 1.0f) * grid;
        words[n] = indices[i];
        topics[n] = -1;
      }
    }
    Counts counts;
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
    BL_SYNC();
    const i64 start = first[p];
    for (i64 sweep = 0; sweep < burn + save; ++sweep) {
      for (i64 n0 = 0; n0 < size; n0 += BL_LANES) {
        const i64 mine = n0 + BL_LANE < size ? n0 + BL_LANE : size - 1;
        const float own_u = uniform_of(mine, size, sweep, row_ids[row], key);
        const float own_weight = weights[start + mine];
        const int own_word = words[start + mine], own_topic = topics[start + mine];
        int drawn = 0;
        for (int l = 0; l < BL_LANES && n0 + l < size; ++l) {
          const float u = bl_from(own_u, l), weight = bl_from(own_weight, l);
          const int word = bl_from(own_word, l), old = bl_from(own_topic, l);
          const T* next = phi + (i64)bl_from(own_word, l + 1 < BL_LANES ? l + 1 : l) * K;
          for (int t = BL_LANE * LINE; t < K; t += BL_LANES * LINE) bl_ask_for(next + t);
          counts.add(old, -weight);
          const int topic = draw(counts, phi + (i64)word * K, u);
          counts.add(topic, weight);
          if (l == BL_LANE) drawn = topic;
        }
        if (n0 + BL_LANE < size) {
          topics[start + mine] = drawn;
          if (sweep >= burn) z[(sweep - burn) * width + start + mine] = (unsigned short)drawn;
        }
      }
      BL_SYNC();
    }
  }
}

// The weight of each particle of an entry in a sweep.
__device__ __forceinline__ float share(float value, i64 sweeps) {
  const i64 parts = particles(value);
  return parts ? value / (float)(parts * sweeps) : 0.0f;
}

// out[c] = weights of the particles of column c by topic, averaged over the saved sweeps; all rows of
// out [columns x K] are written. A block has a column. Weights are whole multiples of 2^-30 of the
// largest, so their sums are exact in any order.
template <class P>
__device__ __forceinline__ void count_topics(const i64* count, i64 columns, const int* active,
    const i64* starts, const P* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out) {
  __shared__ unsigned long long sums[TOPICS];
  const i64 there = *count;
  for (i64 a = blockIdx.x; a <= there; a += gridDim.x) {
    const i64 before = a == 0 ? 0 : (i64)active[a - 1] + 1, column = a < there ? active[a] : columns;
    for (i64 e = before * K + threadIdx.x; e < column * K; e += BL_BLOCK) out[e] = 0.0f;
    if (a == there) continue;
    const i64 begin = starts[a], entries = starts[a + 1] - begin;
    float largest = 0.0f;
    for (i64 e = threadIdx.x; e < entries; e += BL_BLOCK)
      largest = bl_maximum(largest, share(values[t_pos[begin + e]], save));
    largest = bl_across_groups<bl_larger>(BL_MAX_ACROSS(largest));
    const double grid = ldexp(1.0, ilogbf(largest > 1e-30f ? largest : 1e-30f) - 30);
    for (int low = 0; low < K; low += TOPICS) {
      for (int t = threadIdx.x; t < TOPICS; t += BL_BLOCK) sums[t] = 0;
      __syncthreads();
      for (i64 e = threadIdx.x; e < entries * save; e += BL_BLOCK) {
        const i64 n = bl_divide(e, save), i = t_pos[begin + n], s = e - n * save;
        const u64 weight = (u64)rint((double)share(values[i], save) / grid);
        const unsigned short* topics = z + s * width + first[i];
        for (i64 p = 0; p < particles(values[i]); ++p)
          if ((int)topics[p] >= low && (int)topics[p] - low < TOPICS)
            atomicAdd(&sums[topics[p] - low], (unsigned long long)weight);
      }
      __syncthreads();
      for (int t = threadIdx.x; t < TOPICS && low + t < K; t += BL_BLOCK)
        out[column * K + low + t] = (float)((double)sums[t] * grid);
      __syncthreads();
    }
  }
}
extern "C" __global__ void topic_counts_32(const i64* count, i64 columns, const int* active,
    const i64* starts, const int* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out) {
  count_topics<int>(count, columns, active, starts, t_pos, values, first, save, width, z, out);
}
extern "C" __global__ void topic_counts_64(const i64* count, i64 columns, const int* active,
    const i64* starts, const i64* t_pos, const float* values, const i64* first, i64 save, i64 width,
    const unsigned short* z, float* out) {
  count_topics<i64>(count, columns, active, starts, t_pos, values, first, save, width, z, out);
}
