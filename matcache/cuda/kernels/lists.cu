// New topics for tokens whose topics are kept, by lists of the topics that a document has: cpu/topics/kept_lists.py, to
// the last bit. A document belongs to 16 lanes, and is swept entry after entry. What the CPU sums anew for each
// word of a chunk of documents is summed here once for each word of the block.
// Number i of a list is read and written by lane i % 16 alone. Z: type of a topic's number; k or more: none.

#define SPAN 64  // topics of a group, see `sum_word` of cpu/topics/list_vectors.py

// A table of phi: (table + extra) one, where counted; else the table itself.
struct Phi {
  const float *table, *one, *alpha, *extra;
  i64 k, counted;
  __device__ __forceinline__ float more(i64 word) const { return counted ? extra[word] : 0.0f; }
  __device__ __forceinline__ float scale(i64 topic) const { return counted ? one[topic] : 1.0f; }
  // Of a word: its row of the table, and its `more`.
  __device__ __forceinline__ float of(const float* row, float more, i64 topic) const {
    return BL_TIMES(row[topic] + more, scale(topic));
  }
};
// A word's sums of alpha phi: those of lane l up to each group of topics begin at l * groups, and those of the
// lanes up to each lane behind all of them.
__device__ __forceinline__ i64 groups_of(i64 k) { return (k + SPAN - 1) / SPAN; }
__device__ __forceinline__ i64 width_of(i64 k) { return 16 * (groups_of(k) + 1); }

// sums [columns x width_of(k)], of the words that occur. local: whether row a of the table is that of word active[a];
// else it is that of word a.
extern "C" __global__ void sum_words(const i64* count, const int* active, i64 local, i64 k, const float* table,
    const float* one, const float* alpha, const float* extra, i64 counted, float* sums) {
  const Phi phi = {table, one, alpha, extra, k, counted};
  const i64 groups = groups_of(k);
  for (i64 a = BL_WARP; a < *count; a += BL_WARPS) {
    const i64 word = local ? a : (i64)active[a];
    const float *row = table + word * k, more = phi.more(word);
    float* out = sums + word * width_of(k);
    float running[OWN];
    for (int o = 0; o < OWN; ++o) running[o] = 0.0f;
#pragma unroll 4
    for (i64 g = 0; g < groups; ++g)
      for (int o = 0; o < OWN; ++o) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const i64 topic = g * SPAN + n * 16 + BL_LANE + o;
          if (topic < k) running[o] = fma(phi.of(row, more, topic), alpha[topic], running[o]);
        }
        out[(BL_LANE + o) * groups + g] = running[o];
      }
    sums_of_lanes(running);
    for (int o = 0; o < OWN; ++o) out[16 * groups + BL_LANE + o] = running[o];
  }
}

// The topic in whose part of a word's sum t lies; left: how far t is in it.
struct Found {
  int topic;
  float left, part;
};
__device__ __forceinline__ Found search(float t, const Phi& phi, i64 word, const float* sums) {
  const i64 k = phi.k, groups = groups_of(k);
  const float *lanes = sums + 16 * groups, *row = phi.table + word * k, more = phi.more(word);
  u32 bits = 0;
  for (int o = 0; o < OWN; ++o) bits |= bl_ballot(lanes[BL_LANE + o] <= t) << o;
  const int last = k < 16 ? (int)k - 1 : 15, before = __popc(bits), lane = before < last ? before : last;
  Found found = {0, lane ? t - lanes[lane - 1] : t, 0.0f};
  const float* column = sums + lane * groups;
  i64 group = 0;
  for (i64 n0 = 0; n0 < (k - 1 - lane) / SPAN; n0 += BL_LANES) {
    const i64 n = n0 + BL_LANE;
    group += __popc(bl_ballot(n < (k - 1 - lane) / SPAN && column[n] <= found.left));
  }
  if (group) found.left -= column[group - 1];
  i64 topic = group * SPAN + lane;
  const i64 end = k < (group + 1) * SPAN ? k : (group + 1) * SPAN;
  found.part = BL_TIMES(phi.alpha[topic], phi.of(row, more, topic));
  while (found.left >= found.part && topic + 16 < end) {
    found.left -= found.part;
    topic += 16;
    found.part = BL_TIMES(phi.alpha[topic], phi.of(row, more, topic));
  }
  found.topic = (int)topic;
  return found;
}

// A document's topics, with their counts; from `length` to the end of the vector, counts are 0.
// parts: sums of n phi of each lane, up to each topic.
struct List {
  int* held;
  float *counts, *parts;
  int length;
  // The place of a topic, or the length.
  __device__ __forceinline__ int find(int topic) const {
    int place = length;
    for (int i0 = 0; i0 < length; i0 += 16) {
      u32 bits = 0;
      for (int o = 0; o < OWN; ++o) {
        const int i = i0 + BL_LANE + o;
        bits |= bl_ballot(held[i] == topic && counts[i] > 0.0f) << o;
      }
      if (bits) place = i0 + __ffs(bits) - 1;
    }
    return place;
  }
  __device__ __forceinline__ bool owns(int i) const { return OWN == 16 || i % 16 == BL_LANE; }
  // Count one token more of the topic at a place, which may be new.
  __device__ __forceinline__ void add(int place, int topic) {
    if (owns(place)) {
      if (place == length) held[place] = topic;
      counts[place] += 1.0f;
    }
    length += place == length;
  }
  // Count one token less of the topic at `mine`; the last topic takes the place of one without tokens. place: of
  // another topic, which is returned where it moved.
  __device__ __forceinline__ int drop(int mine, int place) {
    if (owns(mine)) counts[mine] -= 1.0f;
    BL_SYNC();
    if (counts[mine] == 0.0f) {
      length -= 1;
      const int last = held[length];
      const float count = counts[length];
      BL_SYNC();
      if (owns(mine)) {
        held[mine] = last;
        counts[mine] = count;
      }
      BL_SYNC();
      if (owns(length)) {
        held[length] = 0;
        counts[length] = 0.0f;
      }
      place = place == length ? mine : place < length ? place : length;
    }
    BL_SYNC();
    return place;
  }
  // Draw a topic by n phi, or none by `rest`: return its place or -1. t: what is left of the threshold behind all
  // of them. mine: the place of topic z or -1. share: of phi that is left to z. next: the row that is read next.
  __device__ __forceinline__ int choose(const Phi& phi, const float* row, float more, int z, float share, float rest,
      float u, const float* next, float* t, int* mine) {
    float whole[OWN], prefix[OWN];
    for (int o = 0; o < OWN; ++o) whole[o] = 0.0f;
    *mine = -1;
#pragma unroll 2
    for (int i0 = 0; i0 < length; i0 += 16) {
      u32 bits = 0;
      for (int o = 0; o < OWN; ++o) {
        const int i = i0 + BL_LANE + o, topic = held[i];
        const float f = phi.of(row, more, topic);
        float n = counts[i];
        bl_ask_for(next + topic);
        const bool here = topic == z && n > 0.0f;
        bits |= bl_ballot(here) << o;
        if (here) n = BL_TIMES(n - 1.0f, share);
        parts[i] = whole[o] = fma(n, f, whole[o]);
      }
      if (bits) *mine = i0 + __ffs(bits) - 1;
    }
    for (int o = 0; o < OWN; ++o) prefix[o] = whole[o];
    sums_of_lanes(prefix);
    const float mass = of_lane(prefix, 15), goal = BL_TIMES(u, mass + rest);
    *t = goal - mass;
    u32 bits = 0;
    for (int o = 0; o < OWN; ++o) bits |= bl_ballot(prefix[o] <= goal) << o;
    if (!(goal < mass)) return -1;
    const int lane = __popc(bits);
    int passed[OWN];
    for (int o = 0; o < OWN; ++o) {
      const float left = goal - (prefix[o] - whole[o]);
      passed[o] = 0;
      for (int i0 = 0; i0 + 16 < length; i0 += 16) {
        const float sum = parts[i0 + BL_LANE + o];
        passed[o] += sum <= left && sum < whole[o];
      }
    }
    const int place = of_lane(passed, lane) * 16 + lane;
    return place < length ? place : length - 1;
  }
};

// Where the list of a document begins: whole vectors hold a topic of each token.
__device__ __forceinline__ i64 list_at(i64 row, i64 start) { return (start + 16 * row) / 16 * 16; }

// `again` sweeps over the tokens of each row, in `order`; `sweeps` where they have no topics. room, old, words: as in
// kept.cu. sums: of sum_words. held, counts, parts: scratch, a number for each token and 16 for each row.
extern "C" __global__ void redraw_lists(i64 rows, const int* order, const i64* indptr, const int* indices,
    const float* values, const i64* first, i64 room, const i64* row_ids, const i64* key, Z* topics, i64 k,
    const float* table, const float* one, const float* alpha, const float* extra, i64 counted, i64 sweeps,
    i64 again, Z* old, const float* sums, int* words, int* held, float* counts, float* parts) {
  const Phi phi = {table, one, alpha, extra, k, counted};
  const i64 width = width_of(k);
  for (i64 turn = BL_WARP; turn < rows; turn += BL_WARPS) {
    const i64 row = order[turn], p = indptr[row], q = indptr[row + 1];
    if (p == q) continue;
    const i64 start = first[p], size = first[q - 1] + particles(values[q - 1]) - start;
    if (size == 0 || start + size > room) continue;
    for (i64 i = p + BL_LANE; i < q; i += BL_LANES)
      for (i64 n = first[i]; n < first[i] + particles(values[i]); ++n) words[n] = indices[i];
    const i64 at = list_at(row, start), most = size < k ? size : k;
    List list = {held + at, counts + at, parts + at, 0};
    for (i64 i0 = 0; i0 < most; i0 += 16)
      for (int o = 0; o < OWN; ++o) {
        const i64 i = i0 + BL_LANE + o;
        list.held[i] = 0;
        list.counts[i] = 0.0f;
      }
    for (i64 n0 = 0; n0 < size; n0 += BL_LANES) {
      const i64 mine = start + (n0 + BL_LANE < size ? n0 + BL_LANE : size - 1);
      const Z own = topics[mine];
      if (n0 + BL_LANE < size) old[mine] = own;
      const int own_topic = own < k ? (int)own : -1;
      for (int l = 0; l < BL_LANES && n0 + l < size; ++l) {
        const int topic = bl_from(own_topic, l);
        if (topic >= 0) list.add(list.find(topic), topic);
      }
    }
    BL_SYNC();
    const i64 due = list.length ? again : sweeps;
    for (i64 sweep = 0; sweep < due; ++sweep)
      for (i64 n0 = 0; n0 < size; n0 += BL_LANES) {
        const i64 mine = n0 + BL_LANE < size ? n0 + BL_LANE : size - 1;
        const float own_u = uniform_of(mine, size, sweep, row_ids[row], key);
        const Z own = topics[start + mine];
        const int own_word = words[start + mine], own_topic = own < k ? (int)own : -1;
        const float own_more = phi.more(own_word), own_total = sums[own_word * width + width - 1];
        float own_share = 1.0f, own_less = 0.0f;  // the token is left out of the topic at which phi counts it
        if (own < k && own == old[start + mine]) {
          const float here = phi.of(table + (i64)own_word * k, own_more, own), lost = one[own];
          own_share = bl_maximum((here - lost) / BL_TIMES(1.0f - lost, here), 0.0f);
          own_less = BL_TIMES(BL_TIMES(alpha[own], here), 1.0f - own_share);
        }
        const float own_rest = bl_maximum(own_total - own_less, 0.0f);
        int drawn = 0;
        for (int l = 0; l < BL_LANES && n0 + l < size; ++l) {
          const float u = bl_from(own_u, l), share = bl_from(own_share, l), rest = bl_from(own_rest, l);
          const float more = bl_from(own_more, l);
          const i64 word = bl_from(own_word, l), next = bl_from(own_word, l + 1 < BL_LANES ? l + 1 : l);
          const int z = bl_from(own_topic, l);
          int before, topic;
          float t;
          int place = list.choose(
              phi, table + word * k, more, z, share, rest, u, table + next * k, &t, &before);
          if (place >= 0) {
            topic = list.held[place];
          } else {
            Found found = search(t, phi, word, sums + word * width);
            const float kept = BL_TIMES(found.part, share);
            if (found.topic == z && found.left >= kept) {
              // what the token takes from its topic stands for what lies behind the rest of the sum
              t = bl_maximum(t - found.left + found.part, rest) + (found.left - kept);
              found = search(t, phi, word, sums + word * width);
            }
            topic = found.topic;
            place = list.find(topic);
          }
          if (place != before) {
            BL_SYNC();  // all have read the list
            if (before >= 0) place = list.drop(before, place);
            list.add(place, topic);
            BL_SYNC();
          }
          if (l == BL_LANE) drawn = topic;
        }
        if (n0 + BL_LANE < size) topics[start + mine] = (Z)drawn;
      }
  }
}
