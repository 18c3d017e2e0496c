// Random numbers of many distributions: cpu/draws.py, of the same counters. Before this text:
// device.cuh. Parameters have the sides of the result [n x m], or 1: then their step is 0.

#define ATTEMPTS 256

__device__ __forceinline__ double unit(u32 word) { return ((double)word + 0.5) * 2.3283064365386963e-10; }
__device__ __forceinline__ double fine_unit(u32 first, u32 second) {
  return ((double)(first >> 5) * 67108864.0 + (double)(second >> 6) + 0.5) * 1.1102230246251565e-16;
}

__device__ double draw_log_gamma(const i64* key, u32 row, u32 column, u32 stream, double a) {
  if (!(a > 0.0)) return BL_NAN(double);
  const double larger = a >= 1.0 ? a : a + 1.0, d = larger - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  for (u32 attempt = 0; attempt < ATTEMPTS; ++attempt) {
    const bl_words w = bl_random_words(key, row, column, stream + attempt);
    const double x = sqrt(-2.0 * log(unit(w.x[0]))) * cospi(2.0 * unit(w.x[1]));
    double v = 1.0 + c * x;
    v = v * v * v;
    if (v > 0.0 && log(unit(w.x[2])) < 0.5 * x * x + d - d * v + d * log(v)) {
      const double found = log(d * v);
      return a >= 1.0 ? found : found + log(unit(w.x[3])) / a;
    }
  }
  return log(larger);
}

__device__ double draw_poisson(const i64* key, u32 row, u32 column, u32 stream, double rate) {
  if (!(rate >= 0.0 && rate < BL_INF(double))) return BL_NAN(double);
  if (rate < 10.0) {
    const bl_words w = bl_random_words(key, row, column, stream);
    const double u = fine_unit(w.x[0], w.x[1]);
    double k = 0.0, p = exp(-rate), total = p;
    while (u > total && k < 1000.0) {
      k += 1.0;
      p *= rate / k;
      total += p;
    }
    return k;
  }
  const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), least = 0.9277 - 3.6224 / (b - 2.0);
  for (u32 attempt = 0; attempt < ATTEMPTS; ++attempt) {
    const bl_words w = bl_random_words(key, row, column, stream + attempt);
    const double u = fine_unit(w.x[0], w.x[1]) - 0.5, v = fine_unit(w.x[2], w.x[3]), us = 0.5 - fabs(u);
    const double k = floor((2.0 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= least) return k;
    if (k >= 0.0 && (us >= 0.013 || v <= us))
      if (log(v * inverse / (a / (us * us) + b)) <= -rate + k * log(rate) - lgamma(k + 1.0)) return k;
  }
  return floor(rate);
}

__device__ double draw_binomial(const i64* key, u32 row, u32 column, u32 stream, double n, double chance) {
  if (!(n >= 0.0 && n == floor(n) && n < BL_INF(double) && chance >= 0.0 && chance <= 1.0))
    return BL_NAN(double);
  const double p = chance < 1.0 - chance ? chance : 1.0 - chance;
  double k = 0.0;
  if (n * p < 10.0) {
    const bl_words w = bl_random_words(key, row, column, stream);
    const double u = fine_unit(w.x[0], w.x[1]), odds = p / (1.0 - p);
    double q = exp(n * log1p(-p)), total = q;
    while (u > total && k < n && k < 1000.0) {
      k += 1.0;
      q *= odds * (n - k + 1.0) / k;
      total += q;
    }
    return chance > 0.5 ? n - k : k;
  }
  const double spread = sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, middle = n * p + 0.5, least = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * spread, log_odds = log(p / (1.0 - p));
  const double mode = floor((n + 1.0) * p), h = lgamma(mode + 1.0) + lgamma(n - mode + 1.0);
  for (u32 attempt = 0; attempt < ATTEMPTS; ++attempt) {
    const bl_words w = bl_random_words(key, row, column, stream + attempt);
    const double u = fine_unit(w.x[0], w.x[1]) - 0.5, v = fine_unit(w.x[2], w.x[3]), us = 0.5 - fabs(u);
    k = floor((2.0 * a / us + b) * u + middle);
    if (us >= 0.07 && v <= least) break;
    if (k >= 0.0 && k <= n) {
      const double bound = h - lgamma(k + 1.0) - lgamma(n - k + 1.0) + (k - mode) * log_odds;
      if (log(v * alpha / (a / (us * us) + b)) <= bound) break;
    }
    k = mode;
  }
  return chance > 0.5 ? n - k : k;
}

// A parameter at (i, j), whose steps are 0 where it has one row or one column.
#define AT(p, i, j) p[(i) * p##_tall + (j) * p##_wide]
#define PARAMETER(p) const double *p, i64 p##_tall, i64 p##_wide

extern "C" __global__ void log_gamma(i64 n, i64 m, const i64* key, i64 stream, PARAMETER(a), float* out) {
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS)
    out[e] = (float)draw_log_gamma(key, (u32)(e / m), (u32)(e % m), (u32)stream, AT(a, e / m, e % m));
}

extern "C" __global__ void poisson(i64 n, i64 m, const i64* key, i64 stream, PARAMETER(a), float* out) {
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS)
    out[e] = (float)draw_poisson(key, (u32)(e / m), (u32)(e % m), (u32)stream, AT(a, e / m, e % m));
}

extern "C" __global__ void binomial(i64 n, i64 m, const i64* key, i64 stream, PARAMETER(a), PARAMETER(b),
    float* out) {
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS) {
    const i64 i = e / m, j = e % m;
    out[e] = (float)draw_binomial(key, (u32)i, (u32)j, (u32)stream, AT(a, i, j), AT(b, i, j));
  }
}

// A thread has rows, whose columns are drawn one after another.
extern "C" __global__ void multinomial(i64 n, i64 m, const i64* key, i64 stream, PARAMETER(a), PARAMETER(b),
    float* out) {
  for (i64 i = BL_THREAD; i < n; i += BL_THREADS) {
    double left = AT(a, i, 0), rest = 0.0;
    for (i64 j = 0; j < m; ++j) {
      const double weight = AT(b, i, j);
      rest += weight >= 0.0 ? weight : BL_NAN(double);
    }
    if (!(rest > 0.0 && rest < BL_INF(double))) left = BL_NAN(double);
    for (i64 j = 0; j < m; ++j) {
      const double weight = AT(b, i, j), ratio = weight / rest;
      const double share = j == m - 1 ? 1.0 : rest > 0.0 ? (ratio < 1.0 ? ratio : 1.0) : 0.0;
      const double x = draw_binomial(key, (u32)i, (u32)j, (u32)stream, left, share);
      out[i * m + j] = (float)x;
      left -= x;
      rest -= weight;
    }
  }
}

// Whole numbers below a[0].
extern "C" __global__ void integers(i64 n, i64 m, const i64* key, i64 stream, const double* a, i64* out) {
  const u64 end = (u64)a[0];
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS) {
    const bl_words w = bl_random_words(key, (u32)(e / m), (u32)(e % m), (u32)stream);
    out[e] = (i64)((u64)w.x[0] * end >> 32);
  }
}

// Positions below `end`, by the chance of staying and the other position.
extern "C" __global__ void choice(i64 n, i64 m, const i64* key, i64 stream, i64 end, const float* chance,
    const i64* other, i64* out) {
  for (i64 e = BL_THREAD; e < n * m; e += BL_THREADS) {
    const bl_words w = bl_random_words(key, (u32)(e / m), (u32)(e % m), (u32)stream);
    const i64 place = (i64)((u64)w.x[0] * (u64)end >> 32);
    out[e] = unit(w.x[1]) < (double)chance[place] ? place : other[place];
  }
}

// A column for each entry of a pattern, with a one. A row belongs to a group of lanes.
extern "C" __global__ void beside(i64 n, const i64* key, i64 stream, i64 end, const float* chance,
    const i64* other, const i64* indptr, i64* starts, int* columns, float* values, i64* counts) {
  for (i64 i = BL_WARP; i < n; i += BL_WARPS) {
    const i64 from = indptr[i], length = indptr[i + 1] - from;
    if (BL_LANE == 0) starts[i + 1] = from + length;
    if (BL_LANE == 0 && i == 0) starts[0] = from, counts[0] = indptr[n];
    for (i64 e = BL_LANE; e < length; e += BL_LANES) {
      const bl_words w = bl_random_words(key, (u32)i, (u32)e, (u32)stream);
      i64 place = (i64)((u64)w.x[0] * (u64)end >> 32);
      if (!(unit(w.x[1]) < (double)chance[place])) place = other[place];
      columns[from + e] = place < 0 ? 0 : (int)place;
      values[from + e] = place < 0 ? BL_NAN(float) : 1.0f;
    }
  }
}

// A table for `choice`, by one thread: Vose's algorithm, whose steps follow each other.
extern "C" __global__ void alias_table(i64 m, const double* weights, float* chance, i64* other,
    double* rest, i64* stack) {
  if (BL_THREAD > 0) return;
  double total = 0.0;
  for (i64 i = 0; i < m; ++i) total += weights[i] >= 0.0 ? weights[i] : BL_NAN(double);
  if (!(total > 0.0 && total < BL_INF(double))) {
    for (i64 i = 0; i < m; ++i) {
      chance[i] = 0.0f;
      other[i] = -1;
    }
    return;
  }
  i64 few = 0, many = m;
  for (i64 i = 0; i < m; ++i) {
    rest[i] = weights[i] / total * (double)m;
    if (rest[i] < 1.0)
      stack[few++] = i;
    else
      stack[--many] = i;
  }
  while (few > 0 && many < m) {
    const i64 one = stack[--few], giver = stack[many];
    chance[one] = (float)rest[one];
    other[one] = giver;
    rest[giver] = rest[giver] + rest[one] - 1.0;
    if (rest[giver] < 1.0) {
      ++many;
      stack[few++] = giver;
    }
  }
  for (i64 n = 0; n < m; ++n)
    if (n < few || n >= many) {
      chance[stack[n]] = 1.0f;
      other[stack[n]] = stack[n];
    }
}
