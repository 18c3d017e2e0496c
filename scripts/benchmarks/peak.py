"""Measure this processor's peak of float32 operations.

The kernel is fused multiply-adds of vectors that never leave their registers.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

from llvmlite import binding as llvm

from .machine import best_seconds

CHAINS = 12  # independent ones: more than latency * units of any processor today
ROUNDS = 10_000_000  # a few hundredths of a second


def fma_gflops(threads: int = 1, *, quick: bool = False) -> float:
    """Return billions of operations a second, of `threads` threads at once."""
    width, rounds = vector_width(), 1000 if quick else ROUNDS
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    with llvm.create_mcjit_compiler(llvm.parse_assembly(assembly(width)), machine) as engine:
        engine.finalize_object()
        call = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(  # lets other threads run
            engine.get_function_address("chains")
        )
        with ThreadPoolExecutor(threads) as pool:
            seconds = best_seconds(lambda: list(pool.map(call, [rounds] * threads)), 5)
    return round(2 * CHAINS * width * rounds * threads / seconds / 1e9, 1)


def vector_width() -> int:
    """Return the floats in the widest vector that this processor multiplies and adds."""
    features = llvm.get_host_cpu_features()
    return next((n for name, n in (("avx512f", 16), ("avx", 8)) if features.get(name)), 4)


def assembly(width: int) -> str:
    """Return LLVM's text of `chains(n)`: n times x = x * a + b for each of the chains."""
    vector = f"<{width} x float>"
    zero, some = "zeroinitializer", f"<{', '.join(['float 0.5'] * width)}>"
    chains = range(CHAINS)
    phis = [f"  %x{i} = phi {vector} [{zero}, %entry], [%y{i}, %loop]" for i in chains]
    fma = f"{vector} @llvm.fma.v{width}f32"
    factors = f"{vector} {some}, {vector} {some}"
    steps = [f"  %y{i} = call {fma}({vector} %x{i}, {factors})" for i in chains]
    sums = [f"  %s1 = fadd {vector} %y0, %y1"]
    sums += [f"  %s{i} = fadd {vector} %s{i - 1}, %y{i}" for i in chains[2:]]
    lines = [
        f"declare {fma}({vector}, {vector}, {vector})",
        "define float @chains(i64 %n) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [0, %entry], [%next, %loop]",
        *phis,
        *steps,
        "  %next = add i64 %k, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *sums,
        f"  %first = extractelement {vector} %s{CHAINS - 1}, i32 0",
        "  ret float %first",
        "}",
    ]
    return "\n".join(lines)
