// Sets found[0], in memory of the host, to 1 if a number is infinite or NaN. V: type of the numbers.
extern "C" __global__ void find_infinite(i64 count, const V* numbers, unsigned* found) {
  bool infinite = false;
  for (i64 i = BL_THREAD; i < count; i += BL_THREADS) infinite |= !(numbers[i] - numbers[i] == V(0));
  if (infinite) *found = 1;
}
