"""Files of compiled kernels that a crash left damaged: they are made anew, whatever is left."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from blocklearn.matcache import MatCache, exp, from_array, named, total
from blocklearn.matcache.cpu.compiling import code_files, jit, sources
from blocklearn.matcache.emit import source as codefiles
from tests.support.often import rarely

PROGRAM = """
import numpy as np
from blocklearn.matcache import MatCache, from_array, total
with MatCache(threads=1) as memory:
    print(float(total(from_array(memory, np.ones((4, 3), np.float32)) * 7.25)))
"""
COMPILES = "import sys\nprint('numba.np.arraymath' in sys.modules)"  # Numba's compiler imports it


def run(folder: Path, *, compiles: bool = True) -> None:
    own = os.environ | {"BLOCKLEARN_CACHE": str(folder)}
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    code = [sys.executable, "-c", PROGRAM + COMPILES]
    done = subprocess.run(code, env=own, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"87.0\n{compiles}\n"), done.stderr


def test_loading_does_not_make_the_compiler_ready(made: Path) -> None:
    run(made, compiles=False)


def test_loading_functions_that_allocate_makes_the_memory_manager_ready(monkeypatch: Any) -> None:
    called: list[str] = []
    function = code_files.kept(numba.njit(lambda n: np.zeros(n)))
    monkeypatch.setattr(function.targetctx, "refresh", lambda: called.append("refresh"))
    assert function._cache.load_overload((numba.types.int64,), function.targetctx) is None
    assert called == ["refresh"]


def test_code_that_calls_helpers_of_a_module_that_is_gone_counts_as_absent(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Code of an earlier version names its modules, which a later one may have moved."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "moved_helpers.py"
    module.write_text("class Helper:\n    pass\n")
    files = code_files.CodeFiles(str(tmp_path), "kernel", "stamp")
    files.save("types", importlib.import_module("moved_helpers").Helper())
    assert files.load("types") is not None
    module.unlink()
    monkeypatch.delitem(sys.modules, "moved_helpers")
    assert files.load("types") is None


@pytest.mark.parametrize("left", ["half", *rarely("empty", "zeros")])
def test_damaged_compiled_code_is_made_anew(left: str, made: Path) -> None:
    compiled = list(made.rglob("*.nbc"))
    for suffix in (".pyc", ".nbc"):
        damaged = list(made.rglob(f"*{suffix}"))
        assert damaged
        for path in damaged:
            spoil(path, left)
    run(made)
    for path in compiled:
        content = path.read_bytes()
        assert len(content) > code_files.DIGEST
        assert content[: code_files.DIGEST] == code_files._digest(content[code_files.DIGEST :])


@pytest.mark.parametrize("left", ["empty", "half", "zeros"])
def test_damaged_source_is_written_anew(left: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path))
    text = "run = 'what a kernel would be'\n"
    codefiles.load_source(text, "test")
    (path,) = tmp_path.rglob("*.py")
    spoil(path, left)
    assert codefiles.load_source(text, "test").run == "what a kernel would be"
    assert path.read_text() == text


def spoil(path: Path, left: str) -> None:
    """What is left of a file after a crash."""
    data = path.read_bytes()
    part = {"empty": b"", "half": data[: len(data) // 2], "zeros": bytes(len(data))}[left]
    path.write_bytes(part)


def test_kernels_lie_with_generated_ones_where_numba_can_write_nowhere(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """A package and a home that are read only."""
    ensure = code_files._CacheLocator.ensure_cache_path

    def writable(self: Any) -> None:
        if not isinstance(self, code_files.KernelFolder):
            raise OSError(30, "Read-only file system")
        ensure(self)

    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path))
    monkeypatch.setattr(code_files._CacheLocator, "ensure_cache_path", writable)
    (tmp_path / "adds.py").write_text("def run(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = jit.kernel()(importlib.import_module("adds").run)
    assert kernel(41) == 42
    assert list(codefiles.cache_folder().rglob("adds.run-*.nbc"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: Any) -> Path:
    """A folder of kernels that a process has compiled."""
    folder: Path = tmp_path_factory.mktemp("kernels")
    run(folder)
    return folder


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        codefiles.load_source("run = 1\n", "test")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "own, other",
    [
        ("room/cpu", "room/cpu"),
        ("room/cpu/inside", "room/cpu"),
        ("another", "room/cpu"),
        ("another", "another"),
    ],
)
def test_a_kernel_is_compiled_anew_when_a_file_of_helpers_changes(
    own: str, other: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Numba looks at the file of the kernel alone."""
    path = tmp_path / own / "one_kernel.py"
    for folder in own, other:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    path.write_text("def run(x):\n    return x + 1\n")
    for module in jit, sources:
        monkeypatch.setattr(module, "FOLDER", tmp_path / "room/cpu")
    misses = []
    for helper in ("3", "3", "4"):
        (tmp_path / other / "helpers.py").write_text(f"x = {helper}\n")
        sources.sources.cache_clear()
        spec = importlib.util.spec_from_file_location("one_kernel", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "one_kernel", module)
        spec.loader.exec_module(module)
        found = jit.kernel()(module.run)
        assert found(2) == 3
        misses.append(sum(found.stats.cache_misses.values()))
    assert misses == [1, 0, 1]
    sources.sources.cache_clear()


def test_savers_at_once_do_not_exchange_their_code(tmp_path: Path) -> None:
    """Numba numbers files by an index, which two processes may have read before either wrote."""
    one, other = (code_files.CodeFiles(str(tmp_path), "kernel", "source") for _ in range(2))
    keys = {
        n: ((numba.types.float32, numba.types.Array(numba.int64, n, "C")), "cpu") for n in (1, 2)
    }
    write = one._open_for_write

    @contextmanager
    def meanwhile(path: str) -> Any:
        other.save(keys[2], "code for 2 dimensions")
        with write(path) as file:
            yield file

    one._open_for_write = meanwhile
    one.save(keys[1], "code for 1 dimension")
    for reader in (one, other):
        assert reader.load(keys[1]) == "code for 1 dimension"
        assert reader.load(keys[2]) == "code for 2 dimensions"


def test_code_of_another_source_or_signature_is_not_loaded(
    tmp_path: Path, monkeypatch: Any
) -> None:
    before, after = (code_files.CodeFiles(str(tmp_path), "kernel", stamp) for stamp in (1, 2))
    before.save(("f32",), "old")
    assert after.load(("f32",)) is None
    after.save(("f32",), "new")
    assert before.load(("f32",)) is None and after.load(("f32",)) == "new"
    (path,) = tmp_path.iterdir()
    monkeypatch.setattr(code_files.CodeFiles, "_path", lambda *_: str(path))  # as if names collided
    assert after.load(("f64",)) is None


def test_kernels_of_later_stages_are_compiled_when_they_are_called() -> None:
    with MatCache(threads=1, reserving=True) as memory:
        numbers = named(memory, "numbers", (4, 3))
        first = total(numbers + 1.0).mat()
        with memory.backend.later():
            last = total(exp(numbers) * 3.0 - numbers).mat()
        memory.commit()
        memory.freeze()
        assert memory.backend._put_off
        numbers.set(np.zeros((4, 3), np.float32))
        first = total(numbers + 1.0).mat()
        assert float(first) == 12.0 and memory.backend._put_off
        last = total(exp(numbers) * 3.0 - numbers).mat()
        assert float(last) == 36.0 and not memory.backend._put_off


def test_long_compilations_are_logged(caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("blocklearn.matcache.cpu.compiling.ahead.LONG", -1.0)
    caplog.set_level("INFO", "blocklearn.compile")
    with MatCache(threads=1, reserving=True) as memory:
        total(from_array(memory, np.ones((4, 3), np.float32)))
        memory.commit()
    (text,) = (record.getMessage() for record in caplog.records)
    assert text.startswith("kernels compiled in ") and "; later runs load them from " in text
