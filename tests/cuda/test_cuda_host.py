"""The host on which CUDA text runs in tests: it finds races, and threads that wait for ever."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import cuda_host
from tests.support.backends import needs_compiler

pytestmark = needs_compiler

TURN = """
extern "C" __global__ void turn(const int* source, int* out) {
  __shared__ int held[64];
  held[threadIdx.x] = source[threadIdx.x];
  BARRIER
  out[threadIdx.x] = held[63 - threadIdx.x];
}
"""
AHEAD = """
extern "C" __global__ void ahead(int* out) {
  __shared__ int held;
  if (threadIdx.x == 0) held = 1;
  __syncthreads();
  for (int n = 0; n < 3; ++n) __syncwarp();
  out[threadIdx.x] = held;
  for (int n = 0; n < 3; ++n) __syncwarp();
  BARRIER
  if (threadIdx.x == 0) held = 2;
}
"""
SUM = """
extern "C" __global__ void sums(const float* source, float* out) {
  float x = source[threadIdx.x];
  const unsigned mask = 0xffu << (threadIdx.x % 32 / 8 * 8);
  for (int s = 4; s > 0; s >>= 1) x += __shfl_xor_sync(mask, x, s, 8);
  out[threadIdx.x] = x;
}
"""
DIRTY = """
template <class F> F shared(F x) {
  __shared__ F held[2];
  if (threadIdx.x % 2 == 0) held[threadIdx.x / 64] = x;
  __syncthreads();
  return held[0] + held[1];
}
extern "C" __global__ void dirty(float* out, int* number) {
  __shared__ int one;
  out[blockIdx.x] = shared(1.0f);
  number[blockIdx.x] = one;
  __syncthreads();
  one = 7;
}
"""
STUCK = """
extern "C" __global__ void stuck(int* out) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  out[0] = 1;
}
"""


def test_a_missing_barrier_shows() -> None:
    source, found = np.arange(64, dtype=np.int32), []
    for barrier in ("__syncthreads();", ""):
        for backwards in (False, True):
            out = np.full(64, -1, np.int32)
            text = TURN.replace("BARRIER", barrier)
            cuda_host.HostModule(text, 64, backwards=backwards).call("turn", source, out)
            found.append((out == source[::-1]).all())
    assert found == [True, True, False, False]


def test_a_warp_is_ahead_of_others_until_all_meet() -> None:
    for barrier in ("__syncthreads();", ""):
        out = np.zeros(64, np.int32)
        cuda_host.HostModule(AHEAD.replace("BARRIER", barrier), 64).call("ahead", out)
        assert (out == 1).all() == bool(barrier)


@pytest.mark.parametrize("backwards", [False, True])
def test_groups_of_lanes_exchange_numbers(backwards: bool) -> None:
    source, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    cuda_host.HostModule(SUM, 64, backwards=backwards).call("sums", source, out)
    np.testing.assert_array_equal(out, np.repeat(source.reshape(8, 8).sum(axis=1), 8))


def test_what_threads_share_begins_with_no_number() -> None:
    out, number = np.zeros(3, np.float32), np.zeros(3, np.int32)
    cuda_host.HostModule(DIRTY, 64).call("dirty", out, number, blocks=3)
    assert np.isnan(out).all() and (number == -1).all()


def test_a_barrier_that_a_thread_never_comes_to_is_an_error() -> None:
    with pytest.raises(AssertionError, match="stuck: threads wait"):
        cuda_host.HostModule(STUCK, 64).call("stuck", np.zeros(1, np.int32))
