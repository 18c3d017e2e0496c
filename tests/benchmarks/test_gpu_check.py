"""The scripts that need a GPU, on a stand-in for one; no figure is tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache.cuda import devices, launcher
from scripts.benchmarks.__main__ import main as bench
from scripts.benchmarks.data import power_law
from scripts.benchmarks.operations import OPERATIONS
from scripts.benchmarks.table1 import check
from scripts.gpu_check import __main__ as gpu_check
from scripts.gpu_check import apart, cubins, needs, trainings
from scripts.gpu_check import tests as gpu_tests
from scripts.gpu_check.measure import Row, agreement
from tests.support import cuda_host
from tests.support.cuda_device import HostDriver

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu-check"
NOW = f"{sys.version_info.major}.{sys.version_info.minor}"


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    if not cuda_host.available():
        pytest.skip("no g++ on this machine")
    monkeypatch.setattr(devices, "open_driver", lambda number: HostDriver())
    monkeypatch.setattr(devices, "count", lambda: 1)


def test_the_script() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    assert os.access(SCRIPT, os.X_OK)


def test_without_a_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "count", lambda: 0)
    assert gpu_check.main([]) == 2
    assert "CuPy sees no CUDA device" in capsys.readouterr().err


@pytest.mark.slow
def test_tests_that_need_a_device_are_skipped_without_one() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "gpu", "tests/cuda/test_gpu.py"]
    done = subprocess.run(
        command,
        cwd=SCRIPT.parents[1],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CuPy sees no CUDA device" in done.stdout
    assert " passed" not in done.stdout


STAND_IN = """
import sys
missing = "xxhash threadpoolctl pydantic ruamel rich typer pytest hypothesis cupy torch"
if sys.argv[1] == "alone":
    sys.modules |= dict.fromkeys([*missing.split(), "pyarrow", "sklearn"])
from blocklearn.matcache.cuda import devices
devices.count, devices.nccl = lambda: 1, lambda: None
if sys.argv[2] == "run":
    from scripts.gpu_check import __main__, apart
    apart.SECTION = (sys.executable, "-W", "error", "-c", sys.orig_argv[-4], sys.argv[1], "part")
    sys.exit(__main__.main(["--quick", "--no-tests", "--json", sys.argv[3]]))
from tests.support.cuda_device import HostDriver
devices.open_driver = lambda number: HostDriver(number=number)
from scripts.gpu_check.section import main
main(sys.argv[3:])
"""


def run(how: str, file: Path) -> tuple[str, dict[str, Any]]:
    """Output, and rows by name, of all sections on the stand-in. how: "alone": in processes that
    have NumPy, SciPy and Numba only.
    """
    if not cuda_host.available():
        pytest.skip("no g++ on this machine")
    command = [sys.executable, "-W", "error", "-c", STAND_IN, how, "run", str(file)]
    root = SCRIPT.parents[1]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr, {row["name"]: row for row in json.loads(file.read_text())}


@pytest.mark.slow
def test_one_table_at_the_end(tmp_path: Path) -> None:
    printed, rows = run("with all", tmp_path / "gpu.json")
    assert all(printed.count(name) >= 2 for name in rows)  # as it comes, and in the table
    for name in ("SGEMM", "SPMV", "sort of rows of 256", "log(exp(x))"):
        assert rows[name]["seconds"] > 0 < rows[name]["cpu"]
    measured = [name for name, row in rows.items() if row["seconds"]]
    assert rows["card"]["note"].startswith("unknown: ") and "numpy" in rows["packages"]["note"]
    of_kernels = (
        "LDA gibbs: topic_counts",
        "LDA gibbs of expected topics: sample",
        "ALS cholesky: solve_rows",
        "NMF: cuBLAS",
    )
    of_trainings = ("LDA, vb", "LDA, kept", "ALS, cholesky", "GLM, 1 targets", "ALS, cg, rank 4")
    far = "GLM, 512 features, 2 targets, 10% of tables on the card"
    for start in ("LDA E-step", "GLM, gradient", far, *of_kernels, *of_trainings):
        assert any(name.startswith(start) for name in measured)


def test_a_training_without_graphs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    X = power_law(60, 50)
    made = bl.models.LDA(topics=3, inference="vb")
    spent = trainings._pass(made, X, "cuda:0", block_rows=10)
    assert spent.note.startswith("read ") and spent.seconds > 0
    monkeypatch.setattr(launcher, "FEWEST", 1000)
    spent = trainings._pass(made, X, "cuda:0", block_rows=10)
    assert spent.note.startswith("failed: no graph was replayed")


@pytest.mark.slow
def test_the_script_needs_few_packages() -> None:
    code = STAND_IN.split("if sys.argv[2]")[0] + "from scripts.gpu_check import __main__, section"
    command = [sys.executable, "-W", "error", "-c", code, "alone"]
    subprocess.run(command, cwd=SCRIPT.parents[1], check=True)


@pytest.mark.slow
def test_with_few_packages_the_matrix_layer_is_measured(tmp_path: Path) -> None:
    printed, rows = run("alone", tmp_path / "gpu.json")
    assert "threadpoolctl is not installed: the last bits" in printed
    assert rows["trainings"]["note"].startswith("not run: ")
    for peer in ("PyTorch, eager", "PyTorch, torch.compile", "CuPy and cupyx"):
        found = [row for name, row in rows.items() if name.endswith(f": {peer}")]
        assert len(found) == 2  # LDA, GLM
        assert all(row["note"].startswith("not installed: ") for row in found)
    for name, row in rows.items():
        if name.startswith("GLM, gradient") and row["seconds"]:
            assert row["note"].startswith("differs from the CPU by")
    for name in ("SGEMM", "sort of rows of 256", "random numbers"):
        assert rows[name]["note"] == "same bits as on the CPU"
    assert sum(name.startswith("GLM") for name in rows if rows[name]["seconds"]) == 2
    assert rows["LDA E-step, K = 8"]["note"].startswith("differs from the CPU by")


def test_numbers_that_differ_from_the_cpus_are_a_failure() -> None:
    numbers = np.arange(5.0)
    assert agreement(numbers, numbers) == "same bits as on the CPU"
    assert agreement(numbers + 0.0004, numbers) == "differs from the CPU by 0.0001 of the largest"
    assert agreement(numbers + 0.4, numbers).startswith("failed: ")
    assert agreement(np.where(numbers == 2, np.nan, numbers), numbers).startswith("failed: ")


def sections(monkeypatch: pytest.MonkeyPatch, **behaviour: str) -> None:
    """Instead of those that there are: what they do, by name."""
    script = f"""
import sys, time
from scripts.gpu_check import section
from scripts.gpu_check.measure import Row

def rows(scale):
    yield Row("first", 1.0)
    how = {behaviour}[sys.argv[1]]
    if how == "raises":
        raise ArithmeticError("no good")
    if how == "dies":
        import os
        os._exit(3)
    while how == "hangs" or not (scale.late or how == "ends"):
        time.sleep(0.01)
    yield Row("second", 2.0)
    yield Row("third", 3.0)

section.SECTIONS = dict.fromkeys({list(behaviour)}, rows)
section.main(sys.argv[1:])
"""
    monkeypatch.setattr(devices, "count", lambda: 1)
    monkeypatch.setattr(gpu_check, "PARTS", dict.fromkeys(behaviour, 1))
    monkeypatch.setattr(apart, "SECTION", (sys.executable, "-W", "error", "-c", script))


def test_what_goes_wrong_in_a_section_is_a_line_of_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sections(monkeypatch, raises="raises", dies="dies")
    assert gpu_check.main(["--json", str(tmp_path / "rows")]) == 1
    rows = [(r["name"], r["note"]) for r in json.loads((tmp_path / "rows").read_text())]
    assert rows == [
        ("first", ""),
        ("raises", "failed: ArithmeticError: no good"),
        ("first", ""),
        ("dies", "failed: the process ended with exit code 3"),
    ]
    table = capsys.readouterr().out
    assert all(name in table for name, _ in rows)


@pytest.mark.slow
def test_a_section_that_hangs_is_ended_and_the_others_have_their_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sections(monkeypatch, hangs="hangs", slow="slow")
    monkeypatch.setattr(apart, "GRACE", 0.5)
    assert gpu_check.main(["--minutes", "0.4"]) == 1  # and is not for ever
    printed = capfd.readouterr()
    assert "failed: it hung, and was ended after 12 seconds" in printed.out
    assert "in rows" in printed.err  # where it hung
    assert "slow" in printed.out and "its time is over" in printed.out
    assert "\nsecond " in printed.out and "third" not in printed.out


@pytest.mark.slow
def test_what_ends_the_script_leaves_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(name: str, seconds: float, *, quick: bool) -> list[Row]:
        if name == "second":
            os.kill(os.getpid(), signal.SIGTERM)
        return [Row(f"of {name}", 1.0)]

    sections(monkeypatch, first="", second="")
    monkeypatch.setattr(apart, "section", ended)
    with pytest.raises(SystemExit) as stop:
        gpu_check.main([])
    assert stop.value.code == 128 + signal.SIGTERM
    assert "of first" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_time_that_is_left_is_for_those_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "PARTS", {"a": 1, "b": 2, "c": 1})
    monkeypatch.setattr(gpu_check.time, "monotonic", lambda: now)
    now = 100.0
    shares = gpu_check.shares(["a", "b", "c"], 140.0)
    assert next(shares) == ("a", 10.0)
    now = 101.0
    assert next(shares) == ("b", 26.0)
    now = 150.0
    assert next(shares) == ("c", 0.0)


def test_tests_that_take_too_long_are_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = apart.run

    def hangs(command: list[str], *given: Any, **more: Any) -> Any:
        more["stdout"].write("1 of 9\n")
        more["stdout"].flush()
        return run([sys.executable, "-c", "import time; time.sleep(60)"], *given, **more)

    monkeypatch.setattr(apart, "run", hangs)
    row = gpu_tests.of_file("tests/some.py", until=0.0)
    assert row.name == "tests/some.py"
    assert row.note == "failed: not done after 1 s, last: 1 of 9"
    assert "1 of 9" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_of_tests_that_fails_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {"dies": "import os; os._exit(9)", "works": "", "other": "assert False"}
    for name, body in files.items():
        text = f"import pytest\n@pytest.mark.gpu\ndef test_it():\n    {body or 'pass'}\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    paths = [str(tmp_path / f"test_{name}.py") for name in files]
    monkeypatch.setattr(gpu_tests, "files_with_tests", lambda: paths)
    monkeypatch.setattr(gpu_tests, "OTHERS", ())
    notes = [row.note.partition(":")[0] for row in gpu_tests.rows(600.0)]
    assert notes == ["failed", "passed", "failed"]


@pytest.mark.slow
def test_the_page_has_what_kernels_need() -> None:
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    page = (SCRIPT.parents[1] / "docs" / "gpu-kernels.md").read_text()
    if f"what NVRTC {cubins.version()} makes" not in page:
        pytest.skip("another NVRTC")
    head, rule, *rows = cubins.shown().splitlines()
    assert "\n".join([head, rule, *filter(leaves_threads_idle, rows)]) in page


def leaves_threads_idle(row: str) -> bool:
    """Whether a kernel's blocks use fewer threads than a processor has: such rows are shown."""
    _, _, threads, *_, blocks, _ = row.strip("| ").split(" | ")
    return int(threads) * int(blocks) < cubins.ALL_THREADS


def test_the_plan_and_the_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main(["--plan", "--minutes", "6"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(gpu_check.PARTS)
    assert abs(sum(float(line.split()[1]) for line in lines) - 6) < 0.01 * len(lines)
    assert gpu_check.main(["--needs"]) == 0
    assert "pydantic-core" in capsys.readouterr().out


@pytest.mark.parametrize("asked", ["--plan", "--needs"])
def test_a_bare_machine_says_what_it_needs(asked: str) -> None:
    """With the standard library alone."""
    command = [sys.executable, "-S", "-P", "-m", "scripts.gpu_check", asked]
    env = {"PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    if asked == "--needs":
        lines = [line.split() for line in done.stdout.splitlines()]
        missing = [line for line in lines if line and line[-1] == "missing"]
        assert ["missing"] == sorted({line[-1] for line in missing})
        assert len(missing) == sum(map(len, needs.NEEDS.values()))
        assert f"pip download --no-deps --only-binary=:all: --python-version {NOW}" in done.stdout


USED = """
import sys
from importlib.metadata import packages_distributions
import numpy as np
import blocklearn as bl
from scripts.benchmarks.idle_device import idle_devices
with idle_devices():
    model = bl.models.LDA(topics=3, inference="vb")
    X = np.ones((20, 5), np.float32)
    bl.Learner(model, X, passes=2, block_rows=10, device="cuda:0", verbose=False).fit().close()
of = packages_distributions()
names = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
print(*{package for name in names for package in of.get(name, [])})
"""
LEFT_OUT = (
    "cffi charset-normalizer cloudpickle colorama pycparser pyyaml setuptools blocklearn".split()
)
"""Packages that NumPy, Numba and others take where they are installed."""


@pytest.mark.slow
def test_a_training_uses_no_package_that_is_not_listed() -> None:
    command, root = [sys.executable, "-c", USED], SCRIPT.parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    used = {name.lower().replace("_", "-") for name in done.stdout.split()}
    listed = [*needs.NEEDS["the matrix layer"], *needs.NEEDS["trainings, kernels"]]
    assert "numpy" in used and used <= {*listed, *LEFT_OUT}


def test_sizes_are_about_those_of_packages_here() -> None:
    for name, size in [item for part in needs.NEEDS.values() for item in part.items()]:
        assert size > 0
        if size >= 1 and needs.here(name):
            found = sum(path.size or 0 for path in files(name) or ()) / 2**20
            assert 0.5 < found / size < 2, name


@pytest.mark.parametrize("missing", ["", "ruamel.yaml", "pydantic"])
def test_tests_are_those_that_can_be_imported(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(apart, "run", lambda command, *_, **__: bool(given.extend(command)))
    find_spec = gpu_tests.find_spec

    def found(name: str) -> object:
        if missing and name.startswith(missing.split(".")[0]):
            raise ModuleNotFoundError(name)
        return find_spec(name)

    monkeypatch.setattr(gpu_tests, "find_spec", found)
    rows = gpu_tests.rows(1.0)
    files = [name for name in given if name.startswith("tests/")]
    assert {"tests/cuda/test_cuda_kernels.py", "tests/cuda/test_gpu.py"} <= set(files)
    assert ("tests/cuda/test_gpu_learner.py" in files) == (not missing)
    assert rows[0].note.startswith("passed")
    assert missing in rows[-1].note


@pytest.mark.slow
def test_bench_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All kinds of data, with the scores of the CPU on a stand-in of a device."""
    stand_in(monkeypatch)
    rng, data = np.random.default_rng(0), tmp_path / "data"
    data.mkdir()
    X, Y = sp.csr_array(rng.poisson(0.4, (60, 30))), sp.csr_array(rng.random((60, 3)) < 0.4)
    for name, matrix in {"docword": X, "X": X, "Y": Y.astype(np.float32)}.items():
        sp.save_npz(data / f"{name}.npz", matrix)
    np.save(data / "y.npy", np.arange(60) % 2)
    user, item = X.nonzero()
    ratings = {"user": user, "item": item, "rating": X.data.astype(np.float32)}
    np.savez(data / "ratings.npz", n_users=60, n_items=30, **ratings)
    file = tmp_path / "devices.json"
    assert bench(["devices", "--quick", "--data", str(data), "--json", str(file)]) == 0
    scores: dict[str, dict[str, Any]] = {}
    for row in json.loads(file.read_text())["rows"]:
        scores.setdefault(row["settings"]["model"], {})[row["system"]] = row["quality"]
    assert len(scores) == 8
    for name, found in scores.items():
        for score, value in found["cpu"].items():
            assert found["cuda"][score] == pytest.approx(value, rel=0.02), name
    with pytest.raises(SystemExit):
        bench(["devices", "--data", str(tmp_path)])


def test_bench_table1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch)
    file = tmp_path / "table1.json"
    assert bench(["table1", "--quick", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    for name in OPERATIONS:
        rows = {r["system"]: r for r in report["rows"] if r["settings"]["operation"] == name}
        assert rows.keys() == {"blocklearn", "cuda:0", "numpy"}
        assert all(row["seconds"] > 0 < row["quality"]["gb_per_s"] for row in rows.values())
        assert bool(rows["cuda:0"]["quality"]["gflops"]) == name.startswith("S")
    assert "ours / cuda:0" in capsys.readouterr().out


def test_a_device_that_computes_something_else_ends_bench_table1() -> None:
    right = np.ones(5, np.float32)
    check("SPMV", right, right * (1 + 1e-6), "cuda:0")
    for wrong in (right * 1.01, np.where(np.arange(5) == 3, np.nan, right)):
        with pytest.raises(ValueError, match="^SPMV: cuda:0's result differs from ours by "):
            check("SPMV", right, wrong, "cuda:0")
