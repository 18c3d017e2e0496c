// Follows cholesky.cu: equations whose sums are kept, from block to block.

// out[i] = x, (sums[i] + gram + D_i) x = rhs[i].
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) solve_sums(i64 rows, const float* sums,
    const float* gram, const float* free, const float* scaling, const float* shift, const float* ridge,
    const float* rhs, float* out) {
  __shared__ Rows shared;
  __shared__ Known known;
  known.find(free);
  for (i64 i = blockIdx.x; i < rows; i += gridDim.x) {
    Squares own;
    own.packs([&](int at, float* x) { bl_load<PACK>(x, sums + i * PACKED + at); });
    solve(own, shared, known, ridge[i], gram, scaling, shift, rhs + i * K, out + i * K);
  }
}

// sums[c] (packed) grows by weights v v' of the entries of column c, rows ascending, for the active c.
template <class P>
__device__ __forceinline__ void outer(const i64* count, const int* active, const i64* starts,
    const int* t_rows, const P* t_pos, const float* weights, const T* table, float* sums) {
  __shared__ Rows shared;
  const i64 columns = *count;
  for (i64 a = blockIdx.x; a < columns; a += gridDim.x) {
    float* to = sums + (i64)active[a] * PACKED;
    Squares own;
    own.packs([&](int at, float* x) { bl_load<PACK>(x, to + at); });
    own.add(shared, starts[a], starts[a + 1], table, [&](i64 e) { return (i64)t_rows[e]; },
            [&](i64 e) { return weights[t_pos[e]]; });
    own.packs([&](int at, float* x) { bl_store<PACK>(to + at, x); });
  }
}
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) add_outer_32(const i64* count, const int* active,
    const i64* starts, const int* t_rows, const int* t_pos, const float* weights, const T* table,
    float* sums) {
  outer<int>(count, active, starts, t_rows, t_pos, weights, table, sums);
}
extern "C" __global__ void __launch_bounds__(BL_BLOCK, SHARED) add_outer_64(const i64* count, const int* active,
    const i64* starts, const int* t_rows, const i64* t_pos, const float* weights, const T* table,
    float* sums) {
  outer<i64>(count, active, starts, t_rows, t_pos, weights, table, sums);
}
