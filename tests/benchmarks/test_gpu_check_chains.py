"""The longest chain of dependent instructions of a kernel, by its PTX."""

from __future__ import annotations

import pytest

from blocklearn.matcache.cuda import kernels as sources
from scripts.gpu_check.chains import CYCLES, PLAIN, chains, cycles, longest
from tests.support.cubin import ptx

LOAD, SHUFFLE = CYCLES["ld.global"], CYCLES["shfl"]


def test_the_longest_match_of_a_name_counts() -> None:
    assert cycles("ld.global.nc.v4.f32") == LOAD
    assert cycles("ld.shared.f32") == CYCLES["ld"]
    assert cycles("div.rn.f32") == CYCLES["div.rn.f32"] < cycles("div.s64")
    assert cycles("add.f32") == PLAIN


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", 0),
        ("add.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f2, %f3;", PLAIN),  # side by side
        ("ld.global.f32 %f1, [%rd1];\nadd.f32 %f1, %f1, %f1;", LOAD + PLAIN),
        ("ld.global.v2.f32 {%f1, %f2}, [%rd1];\nadd.f32 %f3, %f2, %f2;", LOAD + PLAIN),
        ("shfl.sync.up.b32 %r1|%p1, %r2, %r3, 0, -1;\n@%p1 mov.u32 %r5, 1;", SHUFFLE + PLAIN),
        ("ld.global.f32 %f1, [%rd1];\nmov.f32 %f1, %f2;\nadd.f32 %f3, %f1, %f1;", LOAD),
        ("ld.global.f32 %f1, [%rd1];\n@%p1 mov.f32 %f1, %f2;", LOAD + PLAIN),
        ("ld.global.u64 %rd2, [%rd1];\nst.global.u32 [%rd2], %r1;", LOAD + PLAIN),
        ("ld.global.u32 %r1, [%rd1];\nbar.sync 0;\nadd.u32 %r3, %r2, %r2;",
         LOAD + CYCLES["bar"] + PLAIN),
        ("$L__BB0_1:\n\tld.global.u32 %r1, [%rd1];\n\t@%p1 bra $L__BB0_1;", LOAD),
    ],
)  # fmt: skip
def test_results_wait_for_what_they_are_made_of(body: str, expected: int) -> None:
    assert longest(body) == expected


def test_a_module_of_cuda_text() -> None:
    """Moving counts: offset, first token, topics and the counts that they choose."""
    found = chains(ptx(sources.moves_source(100)))
    assert found.keys() == {"begin_topics", "move_counts", "add_moved"}
    assert 3 * LOAD < found["move_counts"] < 10 * LOAD
