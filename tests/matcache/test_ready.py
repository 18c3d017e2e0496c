"""Kernels of fits in memory are called without Numba, once their machine code is in a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache.cpu import fitting
from blocklearn.matcache.cpu.compiling import jit, ready
from blocklearn.matcache.cpu.compiling.ready import Ready
from blocklearn.matcache.cpu.kernels import column_sums, sparse_rows

CALL = """
import sys
import numpy as np
from blocklearn.matcache.cpu.fitting import multiply_rows
out = np.zeros((3, 1))
rows = np.array([0, 2, 2, 3]), np.array([1, 0, 1]), np.array([0.25, 0.5, 0.75])
multiply_rows(0, 3, *rows, np.array([[3.0], [7.0]]), out)
print(out.ravel().tolist(), "numba" in sys.modules)
"""


@pytest.fixture
def rows() -> Any:
    made = sp.random_array((40, 7), density=0.3, rng=np.random.default_rng(0), dtype=np.float64)
    return sp.csr_array(made, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of compiled kernels."""
    monkeypatch.setattr(ready, "kernel_folder", lambda: tmp_path)
    return tmp_path


def multiplied(multiply: Any, X: Any) -> Any:
    W = np.random.default_rng(1).normal(size=(X.shape[1], 2))
    out = np.full((X.shape[0], 2), np.nan)
    multiply(0, X.shape[0], X.indptr, X.indices, X.data, W, out)
    return out, X.astype(np.float64) @ W


def test_a_file_holds_the_code_that_numba_made(rows: Any, folder: Path) -> None:
    named = Ready("sparse_rows", "multiply_rows")
    first, right = multiplied(named, rows)
    assert len([*folder.iterdir()]) == 1
    found, _ = multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    by_numba, _ = multiplied(sparse_rows.multiply_rows, rows)
    np.testing.assert_allclose(found, right, rtol=1e-12)
    assert first.tobytes() == found.tobytes() == by_numba.tobytes()


def test_other_processes_do_not_import_numba() -> None:
    def printed() -> str:
        done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed()
    right = [0.25 * 7.0 + 0.5 * 3.0, 0.0, 0.75 * 7.0]
    assert printed() == f"{right} False\n"


def test_each_form_of_arguments_has_code_of_its_own(rows: Any, folder: Path) -> None:
    named, shares = Ready("column_sums", "sum_columns"), np.full(rows.shape[0], 0.5)
    for data in (rows.data, rows.data.astype(np.float64)):
        found, right = np.zeros((2, rows.shape[1], 2))
        for _ in range(2):
            named(rows.indptr, rows.indices, data, shares, found)
            column_sums.sum_columns(rows.indptr, rows.indices, data, shares, right)
        assert found.any() and found.tobytes() == right.tobytes()
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize("damage", [b"", b"nothing", None])
def test_a_damaged_file_counts_as_absent(damage: bytes | None, rows: Any, folder: Path) -> None:
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    found, right = multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    np.testing.assert_allclose(found, right, rtol=1e-12)
    assert path.read_bytes() == whole


def test_code_that_another_process_compiled_has_the_name_of_its_entry(
    rows: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes compile a kernel at once: the file holds the code of one of them."""
    ours = sparse_rows.multiply_rows
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    theirs = jit.kernel("contract", "nsz")(ours.py_func)
    monkeypatch.setattr(theirs._cache, "load_overload", lambda *_: None)
    theirs.compile(next(iter(ours.overloads)))
    (path,) = folder.iterdir()
    path.unlink()
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    found, right = multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    np.testing.assert_allclose(found, right, rtol=1e-12)


def test_a_file_without_the_entry_that_it_names_counts_as_absent(rows: Any, folder: Path) -> None:
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    _, code = whole[ready.DIGEST :].split(b"\0", 1)
    path.write_bytes(ready._digest(b"nothing\0" + code) + b"nothing\0" + code)
    found, right = multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    np.testing.assert_allclose(found, right, rtol=1e-12)
    assert path.read_bytes() == whole


def test_code_of_other_sources_is_not_loaded(
    rows: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    monkeypatch.setattr(ready, "sources", lambda _: "others")
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    assert len([*folder.iterdir()]) == 2


def test_a_folder_that_cannot_be_written_is_no_error(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "kernel_folder", lambda: Path("/proc/nothing"))
    found, right = multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    np.testing.assert_allclose(found, right, rtol=1e-12)


def test_wrong_arguments_of_loaded_code_are_errors(rows: Any, folder: Path) -> None:
    multiplied(Ready("sparse_rows", "multiply_rows"), rows)
    named = Ready("sparse_rows", "multiply_rows")
    multiplied(named, rows)
    ((form, entry),) = named._entries.items()
    arrays = [rows.indptr, rows.indices, rows.data, np.zeros((7, 2)), np.zeros((40, 2))]
    entry(0, 40, *arrays)
    for wrong in ([], [0, 40, *arrays[:-1]], ["x", 40, *arrays], [0, 40, *arrays[:-1], [0.0]]):
        with pytest.raises(TypeError):
            entry(*wrong)
    before = [sys.getrefcount(one) for one in (*arrays, None)]
    for _ in range(50):
        entry(0, 40, *arrays)
    after = [sys.getrefcount(one) for one in (*arrays, None)]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True)), form


def test_named_kernels_exist_and_need_nothing_of_numba() -> None:
    """Numba's own function for calls refers to Numba's helpers, which a process may lack."""
    for name, named in [*vars(fitting).items(), *fitting.ASCENTS.items()]:
        if isinstance(named, Ready):
            module = __import__(f"{ready.KERNELS}.{named._module}", fromlist=["_"])
            found = getattr(module, named._name)
            code = found.py_func.__code__
            assert "ValueError" not in code.co_names, name
            assert not found.targetoptions.get("_nrt", True)
