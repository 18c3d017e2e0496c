"""Kernels for other numbers of columns: made of what Numba made of the first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numba
import pytest

from blocklearn.matcache.cpu.compiling import ahead as compiling
from blocklearn.matcache.cpu.compiling import sized
from blocklearn.matcache.cpu.compiling.compiled import compiled
from blocklearn.matcache.emit import source as codefiles

TEXT = """\
from blocklearn.matcache.cpu.compiling.access import make_reads, put2
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.compiling.sized import make_size
from blocklearn.matcache.cpu.inline import math64 as m

get1, get2 = make_reads(64)
size0 = make_size(0)


@kernel("contract", "reassoc", "nsz", sizes=({size},), unroll={unroll})
def run(a0, o0):
    for i in range(a0.shape[0]):
        s = 0.0
        for k in range({length}):
            s = s + m.maximum(get2(a0, i, k), {number}) * get2(a0, i, k)
        put2(o0, i, 0, s)
"""
TYPES = (numba.float64[:, ::1], numba.float64[:, ::1])


@pytest.fixture(autouse=True)
def nothing_compiled(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path))


def text(size: int, number: float, length: str = "size0()", *, unroll: bool = True) -> str:
    return TEXT.format(size=size, length=length, number=number, unroll=unroll)


def assembly(*given: Any, **named: Any) -> str:
    """Compile the kernel; return its machine code as text, without its own name."""
    kernel = compiled(text(*given, **named))
    kernel.compile(TYPES)  # type: ignore[attr-defined]
    library = kernel.overloads[TYPES].library  # type: ignore[attr-defined]
    return re.sub("blocklearn_kernel_[0-9a-f]+3runB[0-9]+v[0-9]+", "run", library.get_asm_str())


@pytest.fixture
def translated(monkeypatch: Any) -> list[tuple[int, ...]]:
    """The sizes of the kernels that go through Numba's passes, in order."""
    found: list[tuple[int, ...]] = []
    whole = sized.compile_sized

    def counting(state: Any, function: Any, translate: Any) -> Any:
        def noted(function: Any) -> Any:
            found.append(function.sizes.numbers)
            return translate(function)

        return whole(state, function, noted)

    monkeypatch.setattr("blocklearn.matcache.cpu.compiling.jit.compile_sized", counting)
    return found


def test_another_size_is_not_translated_and_has_the_code_of_its_own_text(
    translated: list[tuple[int, ...]],
) -> None:
    """A short loop is unrolled, a long one not: LLVM knows the number before it begins."""
    for size in (40, 6):
        assert assembly(size, 0.25) == assembly(size, 0.25, length=str(size))
    assert translated == [(40,), (40,), (6,)]  # the first kernel, and all texts with numbers


def test_another_size_forks_no_child(monkeypatch: Any) -> None:
    """What a child costs is more than it saves."""
    monkeypatch.setattr(compiling, "_may_fork", lambda: True)  # runners of tests have threads
    together: list[list[Any]] = []
    monkeypatch.setattr(compiling, "_compile_together", lambda jobs, _: together.append(jobs))
    for size in (40, 6):
        wanted: compiling.Signatures = {}
        for n in (3.5, 4.5):
            compiling.want(wanted, compiled(text(size, n)), TYPES)
        compiling.compile_all(wanted, 2)
    assert [len(jobs) for jobs in together] == [2, 0]


def test_loops_of_a_kernel_are_unrolled_where_its_text_allows() -> None:
    jumps = [
        len(re.findall(r"\n\tj", assembly(40, 5.5, unroll=unroll))) for unroll in (True, False)
    ]
    assert jumps[0] < jumps[1]


def test_a_damaged_template_is_made_anew(tmp_path: Path, translated: list[tuple[int, ...]]) -> None:
    assembly(40, 0.75)
    (template,) = tmp_path.rglob("template-*.nbc")
    whole = template.read_bytes()
    template.write_bytes(whole[: len(whole) // 2])
    assert assembly(6, 0.75)
    assert template.read_bytes() != whole[: len(whole) // 2]
    assert translated == [(40,), (6,)]


def test_texts_that_differ_elsewhere_have_templates_of_their_own(
    tmp_path: Path, translated: list[tuple[int, ...]]
) -> None:
    assert assembly(40, 0.5) != assembly(40, 1.5)
    assert len(list(tmp_path.rglob("template-*.nbc"))) == len(translated) == 2
    assert all(path.is_relative_to(codefiles.cache_folder()) for path in tmp_path.rglob("*.nbc"))
