"""Run CUDA text on the host: compiled by g++, as one thread per block, or as many that take turns.

Kernels are written as stride loops over lanes, threads and warps, so that the same text with one
lane computes the same thing: that tests the arithmetic. With `threads`, every thread of a block has
a stack of its own and runs until it comes to a barrier or a shuffle: that tests the parallel part
too. With `team`, so many blocks take turns as well, and what each shares is kept apart. What one
thread writes, others see at the worst moment: those before it have not begun to read, or those
behind it have not begun to write (`backwards`). A barrier that some thread of its group
never comes to is an error. What threads share is NaN, or -1, when a block begins. Numbers too small
for a normal float32 count as 0, as on a device (`-ftz=true`); here those of float64 do so, too.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

COMMON = """
#include <cmath>
#include <cstring>
#include <cstdio>
#include <ucontext.h>
using std::exp; using std::log; using std::log1p; using std::sqrt; using std::fabs; using std::pow;
using std::lgamma; using std::fma; using std::ceil; using std::floor; using std::log2;
using std::rint; using std::tanh; using std::cos; using std::sin;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define BL_PLUS(a, b) ((a) + (b))
#define BL_MINUS(a, b) ((a) - (b))
#define BL_TIMES(a, b) ((a) * (b))
struct Dim { unsigned x; };
static inline double cospi(double x) { return cos(3.14159265358979323846 * x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(unsigned x) { return __builtin_ffs(x); }
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
template <class F> static inline F atomicAdd(F* sum, F x) {  // threads take turns
  const F before = *sum;
  *sum += x;
  return before;
}
static inline int atomicExch(int* at, int x) {
  const int before = *at;
  *at = x;
  return before;
}
"""

ONE = """
#define __shared__ static thread_local
#define __syncthreads()
#define __syncwarp(...)
static thread_local Dim threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
#define BL_LANES 1
#define BL_BLOCK 1
#define BL_TEAM 1
#define __cluster_dims__(...)
extern "C" void set_block(unsigned block, unsigned blocks) {
  blockIdx.x = block;
  gridDim.x = blocks;
}
"""

MANY = """
#include <cstdlib>
#define __shared__ static
#define OWN static __attribute__((section("of_the_host")))  // not what the threads of a block share
OWN Dim threadIdx{0}, blockIdx{0}, blockDim{THREADS}, gridDim{1};
#define EDGE extern "C" __attribute__((visibility("hidden"))) char
EDGE __bss_start[], _end[];  // of all that kernels share, among little else
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))
#define __cluster_dims__(...)
extern "C" void set_block(unsigned block, unsigned blocks) {  // the first one of a team
  blockIdx.x = block;
  gridDim.x = blocks;
}
namespace many {
struct Thread {
  ucontext_t context;
  bool done, waits, meets;
  unsigned mask, turn;
  char stack[1 << 18];
};
OWN Thread* all = (Thread*)std::calloc(THREADS * BL_TEAM, sizeof(Thread));
OWN Thread* threads = all;  // of the block at work
OWN unsigned rank = 0;  // of the block at work
OWN char* kept[BL_TEAM]{};  // what other blocks share
OWN ucontext_t home{};
OWN unsigned long long slots[2][THREADS]{};
UNWATCHED static void fill() {
  for (volatile char* p = __bss_start; p < _end; ++p) *p = (char)0xff;
}
UNWATCHED static void keep() {
  if (BL_TEAM == 1) return;
  if (!kept[rank]) kept[rank] = (char*)std::malloc(_end - __bss_start);
  for (volatile char* p = __bss_start; p < _end; ++p) kept[rank][p - __bss_start] = *p;
}
UNWATCHED static void bring() {
  if (BL_TEAM == 1) return;
  for (volatile char* p = __bss_start; p < _end; ++p) *p = kept[rank][p - __bss_start];
}
UNWATCHED static void read(int of, const void* own, volatile char* to, unsigned bytes) {
  const long place = (const char*)own - __bss_start;
  const char* from = (unsigned)of == rank ? (const char*)own : kept[of] + place;
  for (unsigned b = 0; b < bytes; ++b) to[b] = from[b];
}
OWN void (*body)(void*) = nullptr;
OWN void* arguments = nullptr;
// wait for the threads of this warp in `mask`, or (0) for all of the block
static void barrier(unsigned mask) {
  const unsigned me = threadIdx.x;
  threads[me].waits = true;
  threads[me].mask = mask;
  swapcontext(&threads[me].context, &home);
}
static bool complete(unsigned t) {
  const unsigned mask = threads[t].mask, first = mask ? t / 32 * 32 : 0;
  for (unsigned o = 0; o < (mask ? 32u : THREADS); ++o) {
    if (mask && !(mask >> o & 1)) continue;
    const Thread& other = threads[first + o];
    if (first + o >= THREADS || !other.waits || other.mask != mask) return false;
  }
  return true;
}
// Those that `t` waited for came, and it is the last one: they go on.
static bool met(unsigned t) {
  if (!threads[t].waits || !complete(t)) return false;
  const unsigned mask = threads[t].mask, first = mask ? t / 32 * 32 : 0;
  for (unsigned o = 0; o < (mask ? 32u : THREADS); ++o)
    if (!mask || (mask >> o & 1)) threads[first + o].waits = false;
  return true;
}
static void enter() {
  body(arguments);
  threads[threadIdx.x].done = true;
  swapcontext(&threads[threadIdx.x].context, &home);
}
static void begin() {
  fill();
  for (unsigned t = 0; t < THREADS; ++t) {
    threads[t].done = threads[t].waits = threads[t].meets = false;
    threads[t].turn = 0;
    getcontext(&threads[t].context);
    threads[t].context.uc_stack.ss_sp = threads[t].stack;
    threads[t].context.uc_stack.ss_size = sizeof threads[t].stack;
    threads[t].context.uc_link = nullptr;
    makecontext(&threads[t].context, enter, 0);
  }
}
// The first thread that need not wait for others, in an order: those it meets get as far ahead of
// the rest as they ever could.
static void advance() {
  for (unsigned n = 0; n < THREADS;) {
    const unsigned t = BACKWARDS ? THREADS - 1 - n : n;
    if (threads[t].done || threads[t].waits || threads[t].meets) {
      ++n;
      continue;
    }
    threadIdx.x = t;
    swapcontext(&home, &threads[t].context);
    if (met(t)) n = 0;
  }
}
static void turn_to(unsigned block) {
  blockIdx.x += block - rank;
  rank = block;
  threads = all + rank * THREADS;
}
// Run the blocks of a team one after the other, each until all of its threads wait for the others.
static int launch(void (*what)(void*), void* with) {
  body = what;
  arguments = with;
  rank = 0;
  for (unsigned block = 0; block < BL_TEAM; ++block) {
    turn_to(block);
    begin();
    keep();
  }
  for (unsigned done = 0; done < THREADS * BL_TEAM;) {
    for (unsigned n = 0; n < BL_TEAM; ++n) {
      turn_to(BACKWARDS ? BL_TEAM - 1 - n : n);
      bring();
      advance();
      keep();
    }
    unsigned meet = done = 0;
    for (unsigned t = 0; t < THREADS * BL_TEAM; ++t) {
      done += all[t].done;
      meet += all[t].meets;
      all[t].meets = false;
    }
    if (done < THREADS * BL_TEAM && meet < THREADS * BL_TEAM) return turn_to(0), 1;
  }
  turn_to(0);
  return 0;
}
template <class F> static const unsigned long long* exchange(unsigned mask, F x) {
  unsigned long long* side = slots[threads[threadIdx.x].turn++ & 1];
  std::memcpy(&side[threadIdx.x], &x, sizeof x);
  barrier(mask);
  return side + threadIdx.x / 32 * 32;
}
template <class F> static F taken(const unsigned long long* warp, unsigned lane) {
  F x;
  std::memcpy(&x, &warp[lane], sizeof x);
  return x;
}
}
static void __syncthreads() { many::barrier(0); }
#if BL_TEAM > 1
static int bl_rank() { return many::rank; }
static void bl_meet() {
  many::threads[threadIdx.x].meets = true;
  swapcontext(&many::threads[threadIdx.x].context, &many::home);
}
template <class T> static T bl_of(int rank, const T* own) {
  T x;
  many::read(rank, own, (volatile char*)&x, sizeof x);
  return x;
}
#endif
static void __syncwarp(unsigned mask = 0xffffffffu) { many::barrier(mask); }
template <class F> static F __shfl_sync(unsigned mask, F x, int lane, int width = 32) {
  const unsigned first = threadIdx.x % 32 / width * width;
  return many::taken<F>(many::exchange(mask, x), first + lane % width);
}
template <class F> static F __shfl_xor_sync(unsigned mask, F x, int distance, int width = 32) {
  (void)width;
  return many::taken<F>(many::exchange(mask, x), threadIdx.x % 32 ^ distance);
}
template <class F> static F __shfl_up_sync(unsigned mask, F x, unsigned distance, int width = 32) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned from = lane >= distance ? lane - distance : lane;
  const F other = many::taken<F>(many::exchange(mask, x), from);
  return lane % width >= distance ? other : x;
}
static unsigned __ballot_sync(unsigned mask, bool x) {
  const unsigned long long* warp = many::exchange(mask, (unsigned char)x);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) bits |= (unsigned)many::taken<unsigned char>(warp, lane) << lane;
  return bits;
}
"""

CONTROL = """
#ifdef __SSE__
#include <xmmintrin.h>
extern "C" unsigned flush(void) {  // returns what was set before
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  return before;
}
extern "C" void restore(unsigned before) { _mm_setcsr(before); }
#else
extern "C" unsigned flush(void) { return 0; }
extern "C" void restore(unsigned) {}
#endif
"""

# That the compiler has watch memory: set in the processes that test_cuda_sanitized.py starts.
SANITIZERS = os.environ.get("HOST_SANITIZERS", "").split()

_KERNEL = re.compile(
    r'extern "C" __global__ void (?:BL_TEAMED )?(?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)'
)


def _many(source: str, threads: int, team: int, backwards: bool) -> str:
    """The text, with a function `many_NAME` for each kernel that runs all threads of a block."""
    sizes = (
        f"#define THREADS {threads}u\n#define BL_TEAM {team}\n#define BACKWARDS {int(backwards)}\n"
    )
    runs = []
    for name, parameters in _KERNEL.findall(source):
        every = [part.strip() for part in parameters.split(",")]
        names = ", ".join(re.split(r"[\s*]+", part)[-1] for part in every)
        runs.append(
            f'extern "C" int many_{name}({", ".join(every)}) {{'
            f" auto body = [&] {{ {name}({names}); }};"
            " return many::launch([](void* f) { (*(decltype(body)*)f)(); }, &body); }"
        )
    block = f"#define BL_BLOCK {threads}\n"
    return sizes + MANY + block + source + "\n".join(runs)


def available() -> bool:
    """Whether there is a C++ compiler."""
    return shutil.which("g++") is not None


def compiled(text: str) -> ctypes.CDLL:
    """The library of `COMMON` and a C++ text; a folder keeps those of earlier processes."""
    folder = Path(tempfile.gettempdir()) / "blocklearn-cuda-host"
    folder.mkdir(exist_ok=True)
    common = _compiled(folder, COMMON, ".h", ".h.gch", ["-x", "c++-header"])
    header = str(common.with_suffix(""))
    return ctypes.CDLL(str(_compiled(folder, text, ".cpp", ".so", ["-shared", "-include", header])))


def _compiled(folder: Path, text: str, given: str, made: str, options: list[str]) -> Path:
    """What g++ makes of a text, unless an earlier process has made it.

    Headers of the language are half of a small module: so `COMMON` is compiled once, as a header.
    """
    name = hashlib.sha256(f"3{SANITIZERS}{COMMON}{text}".encode()).hexdigest()[:24]
    result = folder / f"{name}{made}"
    if not result.exists():
        # no other process writes to these while they are compiled
        part = folder / f"{name}.{os.getpid()}.{threading.get_ident()}.tmp"
        source = part.with_suffix(given)
        source.write_text(text)
        always = ["-std=c++17", "-O1", "-w", "-fPIC"]
        always += ["-fno-gnu-unique"]  # what modules keep under one name is not shared
        command = ["g++", *always, *SANITIZERS, *options, str(source), "-o", str(part)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{done.stderr[:3000]}\n{text[-3000:]}")
        if made.endswith(".gch"):
            source.replace(result.with_suffix(""))  # g++ looks for the one beside the other
        else:
            source.unlink()
        part.replace(result)
    return result


@cache
def _control() -> ctypes.CDLL:
    return compiled(CONTROL)


@contextmanager
def flushed() -> Iterator[None]:
    """While this thread is here, numbers too small to be normal count as 0."""
    before = _control().flush()
    try:
        yield
    finally:
        _control().restore(before)


class HostModule:
    """A compiled module; `call(name, *args, blocks=n)` runs a kernel block after block.

    threads: of a block, a multiple of 32; or 1. team: the blocks of a team, of all kernels.
    """

    def __init__(
        self, source: str, threads: int = 1, *, team: int = 1, backwards: bool = False
    ) -> None:
        self.threads, self.team = threads, team
        if threads == 1:
            text = ONE + source
        else:
            text = _many(source, threads, team, backwards)
        self.library = compiled(text)

    def call(self, name: str, *args: Any, blocks: int = 1) -> None:
        """args: arrays (as pointers), Python ints (as int64), NumPy scalars (as they are)."""
        converted = [_convert(a) for a in args]
        function = self.library[name if self.threads == 1 else f"many_{name}"]
        function.restype = None if self.threads == 1 else ctypes.c_int
        with flushed():
            for block in range(0, blocks, self.team):
                self.library.set_block(block, blocks)
                stuck = function(*converted)
                assert not stuck, f"{name}: threads wait at a barrier that others never come to"


def _convert(arg: Any) -> Any:
    if isinstance(arg, np.ndarray):
        assert arg.flags.c_contiguous
        return ctypes.c_void_p(arg.ctypes.data)
    kinds = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int}
    if isinstance(arg, np.generic):
        return kinds.get(arg.dtype.name, ctypes.c_longlong)(arg.item())
    return ctypes.c_longlong(arg)
