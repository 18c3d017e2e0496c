// What replicas have learned, merged: parts[r * stride + i] is the i-th number of replica r. Everything is
// computed in double and in the order of the replicas, so the bits are those of merge.py. V: type of the numbers.

// Each becomes rest itself + share (the sum of all).
extern "C" __global__ void merge_mean(i64 count, i64 replicas, i64 stride, double share, double rest, V* parts) {
  for (i64 i = BL_THREAD; i < count; i += BL_THREADS) {
    double total = (double)parts[i];
    for (i64 r = 1; r < replicas; ++r) total += (double)parts[r * stride + i];
    total *= share;
    for (i64 r = 0; r < replicas; ++r) {
      V* own = parts + r * stride + i;
      *own = (V)BL_PLUS((double)*own * rest, total);
    }
  }
}

// Each becomes base + the sum of what each has grown by since it was base.
extern "C" __global__ void merge_sum(i64 count, i64 replicas, i64 stride, const V* base, V* parts) {
  for (i64 i = BL_THREAD; i < count; i += BL_THREADS) {
    const double before = (double)base[i];
    double total = before;
    for (i64 r = 0; r < replicas; ++r) total += (double)parts[r * stride + i] - before;
    for (i64 r = 0; r < replicas; ++r) parts[r * stride + i] = (V)total;
  }
}

// Each becomes the largest of all.
extern "C" __global__ void merge_max(i64 count, i64 replicas, i64 stride, V* parts) {
  for (i64 i = BL_THREAD; i < count; i += BL_THREADS) {
    V largest = parts[i];
    for (i64 r = 1; r < replicas; ++r) largest = bl_larger::of(largest, parts[r * stride + i]);
    for (i64 r = 0; r < replicas; ++r) parts[r * stride + i] = largest;
  }
}
