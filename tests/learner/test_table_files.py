"""Tables in files: the bits of memory, refusals, the plan, and who holds the folder."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.errors import DivergedError, RunFolderError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.files import paging
from blocklearn.learner.files.column_places import ColumnPlaces
from blocklearn.learner.files.paging import (
    PAGE,
    PageCount,
    PagedArray,
    fetch_rows,
    map_of,
    pages_of,
)
from blocklearn.learner.files.row_folder import LOCK
from blocklearn.learner.files.stripes import Stripes, part_of, shares
from blocklearn.learner.files.table_files import TableFiles
from blocklearn.optimizers import CombinationError
from tests.support.often import first_often

FEATURES, ROWS = 3000, 200


def clicks() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = sp.random_array((ROWS, FEATURES), density=0.003, rng=rng, dtype=np.float32, format="csr")
    return X, (rng.random((ROWS, 2)) < 0.3).astype(np.float32)


def glm(folder: Any, optimizer: Any = "adagrad", model: Any = "glm", **settings: Any) -> bl.Learner:
    X, Y = clicks()
    given: dict[str, Any] = {"block_rows": 64, "passes": 2, "threads": 2, **settings}
    return bl.Learner(
        model, (X, Y), (X[:50], Y[:50]), optimizer=optimizer, table_folder=folder, **given
    )


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [
        "adagrad",
        {"kind": "adagrad", "step_per": "row", "initial": 0.1},
        pytest.param("sgd", marks=pytest.mark.slow),
        pytest.param("adam", marks=pytest.mark.slow),
        pytest.param("rmsprop", marks=pytest.mark.slow),
        pytest.param({"kind": "ftrl", "l1": 0.01, "l2": 0.1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_tables_in_files_have_the_bits_of_memory(optimizer: Any, tmp_path: Path) -> None:
    memory = glm(None, optimizer).fit()
    learner = glm([tmp_path / "a", tmp_path / "b"], optimizer).fit()
    W = learner.parameter("W")
    assert map_of(W) is not None and not W.flags.writeable
    assert W.tobytes() == memory.parameter("W").tobytes()
    assert learner.progress.scores == memory.progress.scores
    X, _ = clicks()
    assert learner.predict(X).tobytes() == memory.predict(X).tobytes()
    assert {"a/learner-tables/W.float32"} < set(files(tmp_path))
    learner.close()
    assert files(tmp_path) == []
    assert learner.parameter("W").tobytes() == W.tobytes()


FM = {"kind": "fm", "factors": 3}
FIELDS = {**FM, "fields": [1000, 1500, 500]}


@pytest.mark.parametrize(
    ("model", "most"), first_often([(FM, 7), (FIELDS, 2**20)]), ids=["fm", "fields"]
)
def test_rows_are_drawn_when_their_columns_occur(
    model: dict[str, Any], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of columns that never occur, when the table is read."""
    monkeypatch.setattr("blocklearn.learner.files.table_rows.MOST", most)
    memory, learner = glm(None, model=model).fit(), glm(tmp_path, model=model).fit()
    files = learner.placed_tables
    assert files is not None and files.places.count < FEATURES
    assert files.group == PAGE // (4 * memory.parameter("factors").shape[1])  # the longest rows
    for name in ("W", "factors"):
        assert learner.parameter(name).tobytes() == memory.parameter(name).tobytes()
    assert learner.progress.scores == memory.progress.scores
    state = glm(tmp_path / "other", model=model, passes=1).fit().state()
    found = glm(tmp_path / "third", model=model)
    found.restore(state)
    assert found.fit().parameter("factors").tobytes() == memory.parameter("factors").tobytes()


def test_drawn_rows_may_be_those_of_another_table(tmp_path: Path) -> None:
    """A state sets rows that differ from their first values, not from those of other rows."""

    def draw(columns: Any) -> Any:
        return np.repeat(columns[:, None], 2, axis=1).astype(np.float32)

    with TableFiles([tmp_path]) as tables:
        tables.new("V", (5000, 2), np.float32)
        tables.begins_with({"V": draw})
        wanted = draw(np.arange(5000))
        wanted[4321] = 7.0
        tables.restore("V", wanted)
        assert tables.places.count == 1
        tables.set(np.array([8, 4321]), {"V": np.array([[1, 2], [3, 4]], np.float32)})
        wanted[8], wanted[4321] = (1, 2), (3, 4)
        assert tables.kept().by_column("V").tobytes() == wanted.tobytes()


def test_zeros_of_a_new_table_are_not_written(tmp_path: Path) -> None:
    learner = glm(tmp_path, {"kind": "ftrl"}, passes=1)
    team = learner._prepare(learner.data.training.shape)
    replica = team.first
    names = replica.files.tables.keys()  # type: ignore[union-attr]
    assert names == {"W", "optimizer.W.z", "optimizer.W.n"}
    for name in names:
        slot = replica.learned.mats()[name].slot
        assert slot.version == slot.cleared
    learner.close()


def test_a_state_is_set_in_the_parts_that_differ(tmp_path: Path) -> None:
    with TableFiles([tmp_path]) as tables:
        array = tables.new("W", (5000, 2), np.float32)
        tables.begins_with({})
        wanted = np.zeros((5000, 2), np.float32)
        wanted[4321] = -0.0, 7.0
        tables.restore("W", wanted)
        assert array[0].tobytes() == wanted[4321].tobytes() and not array[1:].any()
        wanted[4321], wanted[8] = 0.0, -0.0
        tables.restore("W", wanted)
        assert tables.places.count == 2
        assert tables.kept().by_column("W").tobytes() == wanted.tobytes()


def test_training_continues_from_a_state(tmp_path: Path) -> None:
    first = glm(tmp_path, passes=1).fit()
    state = first.state()
    first.close()
    second = glm(tmp_path, passes=2)
    second.restore(state)
    assert second.fit().parameter("W").tobytes() == glm(None).fit().parameter("W").tobytes()


def test_a_number_that_is_not_finite_is_found_in_a_file(tmp_path: Path) -> None:
    class Break(bl.Hook):
        def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
            if progress.block == 2:
                team = learner.team
                assert team is not None
                row = int(team.first.occurring[0])
                team.first.model.parameters["W"].slot.array[row, 1] = np.nan

    with pytest.raises(DivergedError, match="W is not finite"):
        glm(tmp_path, hooks=[Break()]).fit()


# ---- pages ---------------------------------------------------------------------------------------


def test_pages_of_parts() -> None:
    found = pages_of(np.array([0, 1, 3, 9]), PAGE, 9 * PAGE + 1)
    assert (found // PAGE).tolist() == [[0, 2], [3, 1], [9, 1]]
    assert pages_of(np.array([2]), 3 * PAGE // 2, 9 * PAGE)[0].tolist() == [3 * PAGE, 2 * PAGE]
    assert pages_of(np.array([], np.int64), 8, 80).shape == (0, 2)


@pytest.mark.parametrize("known", [True, False])
def test_pages_are_asked_for(known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the call that takes many ranges; contents stay."""
    if not known:
        monkeypatch.setattr("blocklearn.learner.files.paging._handle", lambda process: None)
    with TableFiles([tmp_path]) as tables:
        array = tables.new("W", (2000, 3), np.float32)
        array[:] = 5.0
        fetch_rows([tables.tables["W"]], np.array([1999, 0, 700], np.int32))
        assert (array == 5.0).all()
    PagedArray(np.zeros((3, 3))).fetch(np.array([1]), 1)  # in memory: nothing to do


def test_pages_are_counted_and_those_in_memory_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TableFiles([tmp_path]) as tables:
        array = tables.new("W", (PAGE, 25), np.float32)
        array[:] = 5.0
        table, rows = [tables.tables["W"]], np.arange(PAGE)
        assert fetch_rows(table, rows[:1]).asked == 1
        first = array.ctypes.data
        monkeypatch.setattr(paging, "_in_memory", lambda place: place < first + 50 * PAGE)
        assert fetch_rows(table, rows) == PageCount(100, 50)
        assert fetch_rows(table, rows[: PAGE // 8]) == PageCount(13, 13)
        assert fetch_rows(table, rows[-PAGE // 8 :]) == PageCount(14, 0)


def test_events_count_pages_of_tables(run: Path) -> None:
    assert learn("--out", "a", "-q") == ExitCode.DONE
    *_, last = map(json.loads, (run / "a" / "metrics.jsonl").read_text().splitlines())
    assert last["table_pages"] >= last["table_page_hits"] >= 0
    assert last["table_pages"] > 0


# ---- places of columns ---------------------------------------------------------------------------


@hypothesis.given(st.lists(st.lists(st.integers(0, 399), max_size=40), max_size=8))
@hypothesis.settings(max_examples=30)
def test_places_follow_the_first_occurrence(blocks: list[list[int]]) -> None:
    places = ColumnPlaces(np.zeros((400, 1), np.uint32))
    expected: dict[int, int] = {}
    for block in blocks:
        for column in block:
            expected.setdefault(column, len(expected))
        found = places.of(np.array(block, np.int32))
        assert found.tolist() == [expected[column] for column in block]
    kept = [pair for parts in places.parts(7, places.count) for pair in zip(*parts, strict=True)]
    assert kept == sorted(((row, column) for column, row in expected.items()), key=lambda p: p[1])


def test_many_places_outgrow_the_first_slots() -> None:
    places = ColumnPlaces(np.zeros((10_000, 1), np.uint32))
    columns = np.random.default_rng(0).permutation(10_000).astype(np.int32)
    for part in np.split(columns, 10):
        places.of(part)
    assert places.count == 10_000
    assert places.of(columns).tolist() == list(range(10_000))


def test_threads_find_the_places_that_others_give() -> None:
    """In a table of few free slots, which grows meanwhile."""
    places = ColumnPlaces(np.zeros((20_000, 1), np.uint32))

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for size in range(200, 20_000, 400):
            columns = rng.integers(0, size, 500).astype(np.int32)
            found = np.full(500, -1, np.int32)
            known = places.find(columns, found, places.count)
            places.give(columns[known:], found[known:])
            np.testing.assert_array_equal(places.columns[found, 0], columns + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(4)))
    taken = places.columns[: places.count, 0]
    assert len(np.unique(taken)) == places.count and taken.all()


def test_rows_that_begin_unlike_each_other_are_refused(tmp_path: Path) -> None:
    """They would belong to columns that are not known yet."""
    with pytest.raises(CombinationError, match="'W': all rows of a table outside memory must"):
        glm(tmp_path, model=Drawn()).fit()
    assert files(tmp_path) == []


class Drawn(bl.models.GLM):
    """A linear model whose weights begin with random numbers."""

    def allocate(self, shapes: Any, random: Any) -> None:
        super().allocate(shapes, random)
        W = self.parameters["W"]
        W.set(np.random.default_rng(0).normal(size=W.shape).astype(np.float32))


# ---- refusals ------------------------------------------------------------------------------------


class WholeSteps(bl.optimizers.SGD):
    """Halves all weights."""

    def step(self, updates: Any, objective: Any = None) -> None:
        for w in self.parameters.values():
            w <<= 0.5 * w


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"optimizer": "lbfgs"}, "LBFGS steps once a pass"),
        ({"optimizer": {"kind": "sgld", "rows": ROWS}}, "SGLD may change all rows"),
        ({"optimizer": WholeSteps()}, "WholeSteps may change all rows"),
        ({"replicas": 2}, "one replica on the CPU"),
        ({"evaluation": "auc"}, "keep_best=False"),
        ({"tables": "bfloat16"}, "tables='float32'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_whole_tables_is_refused(
    settings: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(CombinationError, match=text):
        glm(tmp_path, **settings).fit()
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("nmf", "no optimizer"),
        ("als", "row for each column"),
        ({"kind": "kmeans", "update_centres": "batch"}, "a sample of rows"),
        ({"kind": "lda", "topics": 4, "eta": "auto", "assignments": "kept"}, "is a whole table"),
    ],
    ids=str,
)
def test_models_that_change_whole_tables_are_refused(model: Any, text: str, tmp_path: Path) -> None:
    X = abs(clicks()[0][:, :300]).ceil()
    with pytest.raises(CombinationError, match=text):
        bl.Learner(model, X, table_folder=tmp_path, threads=1).fit()


def test_dense_data_are_refused(tmp_path: Path) -> None:
    X, Y = clicks()
    with pytest.raises(CombinationError, match="data are dense"):
        bl.Learner("glm", (X[:, :40].toarray(), Y), table_folder=tmp_path, threads=1).plan()


# ---- the plan, and the folder --------------------------------------------------------------------


def test_tables_in_files_are_no_memory_of_the_plan(tmp_path: Path) -> None:
    memory, paged = glm(None).plan(), glm(tmp_path).plan()
    wanted = {"W.float32": 8 * FEATURES, "optimizer.W.G.float32": 8 * FEATURES}
    assert paged.table_files == {**wanted, "columns-of-rows.uint32": 4 * FEATURES}
    (needed,) = [row for row in paged.rows if row.name.startswith("rows of tables")]
    assert needed.shape[1] == 16 and 0 < needed.shape[0] < FEATURES
    (digests,) = [row for row in paged.rows if row.name == "digests of pages"]
    assert memory.total - paged.total == sum(wanted.values()) - needed.held - digests.held
    learner = glm(tmp_path).fit()
    assert learner.placed_tables is not None
    assert digests.held == learner.placed_tables.live.nbytes
    learner.close()
    assert files(tmp_path) == []


def test_one_learner_holds_the_folder(tmp_path: Path) -> None:
    first = glm(tmp_path, passes=1).fit()
    with pytest.raises(RunFolderError, match=r"learner-tables: must be held .*learner\.table_fol"):
        glm(tmp_path).fit()
    first.close()
    glm(tmp_path).fit().close()


def test_a_disk_with_too_little_room_is_found_before_files_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages go to the folders in turn: the second one gets two of four, and 8 bytes."""
    folders = [tmp_path / "a", tmp_path / "b"]
    monkeypatch.setattr(
        "blocklearn.learner.files.row_folder.free_bytes",
        lambda path: 3 * PAGE if path.parent == folders[0] else 2 * PAGE + 7,
    )
    TableFiles(folders).check({"W.float32": 4 * PAGE})
    with pytest.raises(OSError, match="8,200 bytes are needed, 8,199 bytes are free"):
        TableFiles(folders).check({"W.float32": 4 * PAGE, "optimizer.W.G.float32": PAGE + 8})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folders", [1, 2, 3])
@pytest.mark.parametrize("nbytes", [8, PAGE, PAGE + 8, 7 * PAGE + 16, 3000 * PAGE + 8])
def test_folders_share_the_pages_of_a_table(folders: int, nbytes: int, tmp_path: Path) -> None:
    """Each disk has as much as the others, but for a part; and messages find the byte."""
    names = [tmp_path / str(i) for i in range(folders)]
    with TableFiles(names) as tables:
        array = tables.new("W", (nbytes // 8, 2), np.float32).view(np.uint64).ravel()
        array[:] = np.arange(len(array))
        tables.check_pages()
        sizes = shares(nbytes, folders)
        assert sum(sizes) == nbytes and max(sizes) - min(sizes) <= part_of(nbytes, folders)
        files = [name / "learner-tables" / "W.float32" for name in names]
        assert [file.stat().st_size if file.exists() else 0 for file in files] == sizes
        place = Stripes(files, part_of(nbytes, folders))
        for number in np.random.default_rng(0).integers(0, len(array), 50).tolist():
            file, byte = place.at(8 * number)
            assert int.from_bytes(file.read_bytes()[byte : byte + 8], "little") == number


CONFIG = """\
model: {kind: glm}
optimizer: {kind: adagrad}
data: {train: {kind: file, path: x.npz, targets: y.npy}, block_rows: 64}
learner: {passes: 2, threads: 1, table_folder: [tables]}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, Y = clicks()
    sp.save_npz("x.npz", sp.csr_matrix(X))
    np.save("y.npy", Y)
    Path("run.yaml").write_text(CONFIG)
    return tmp_path


def learn(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["train", "--config", "run.yaml", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_tables_that_fit_stay_in_memory(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bits are those of a run in memory, also where a run moves to files or back."""
    places = "learner.tables={{memory: {}, folder: [tables]}}".format
    for name, first, second in [("a", "null", "46kB"), ("b", "1MiB", "47999")]:
        begun = ["--out", name, "--set", "learner.table_folder=null", "-q", "--set"]
        assert learn(*begun, places(first), "--set", "learner.passes=1") == ExitCode.DONE
        assert learn(*begun, places(second), "--resume", "auto") == ExitCode.DONE
    assert learn("--out", "whole", "--set", "learner.table_folder=null", "-q") == ExitCode.DONE
    W = {name: bl.load(run / name).parameter("W").tobytes() for name in ("a", "b")}
    assert W["a"] == W["b"] == bl.load(run / "whole").parameter("W").tobytes()
    assert not (run / "tables").exists() or files(run / "tables") == []
    capsys.readouterr()
    for memory, text in [("48kB", "W: float32 3,000 x 2\n"), ("47999", "W: float32 3,000 x 2, in")]:
        arguments = ["--dry-run", "--set", "learner.table_folder=null", "--set", places(memory)]
        assert learn(*arguments) == ExitCode.DONE
        assert text in capsys.readouterr().out
    assert learn(*arguments[:-1], places("1000")) != ExitCode.DONE
    assert "learner.tables.memory: 1.0 kB: must hold" in capsys.readouterr().err


# ---- checkpoints ---------------------------------------------------------------------------------


ADAGRAD = {"kind": "adagrad", "initial": 0.1}


def trained(folder: Path, passes: int, tables: bool = True, model: Any = "glm") -> bl.Learner:
    hooks = [bl.Checkpoints(folder / "saved", every_blocks=2, keep=2)]
    where = folder / "tables" if tables else None
    return glm(where, ADAGRAD, model, passes=passes, hooks=hooks).fit()


def logs(folder: Path) -> list[dict[str, int]]:
    """The files of logs in each checkpoint, oldest first, with their i-nodes."""
    return [
        {file.name: file.stat().st_ino for file in sorted(saved.glob("pages-*"))}
        for saved in sorted((folder / "saved").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    ]


@pytest.mark.parametrize("tables", [True, False], ids=["to files", "to memory"])
@pytest.mark.parametrize("model", ["glm", FM], ids=["glm", "fm"])
def test_a_run_resumes_from_logs_with_the_same_bits(
    model: Any, tables: bool, tmp_path: Path
) -> None:
    trained(tmp_path, 1, model=model).close()
    found = trained(tmp_path, 3, tables, model)
    assert len(found.history) == 2
    wanted = glm(None, ADAGRAD, model, passes=3).fit()
    for name in wanted.team.first.model.parameters:  # type: ignore[union-attr]
        assert found.parameter(name).tobytes() == wanted.parameter(name).tobytes()


def test_checkpoints_write_what_has_changed_and_link_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All groups change in each block: the third log would make three times the tables."""
    monkeypatch.setattr("blocklearn.learner.storage.page_logs.PART", 4)
    monkeypatch.setattr("blocklearn.learner.files.placed_tables.rows_of_page", lambda row_bytes: 8)
    trained(tmp_path, 1).close()
    first, second = logs(tmp_path)
    assert {name[:10] for name in first} == {"pages-0000"}
    assert {name[:10] for name in second} == {"pages-0000", "pages-0001"}
    assert first.items() < second.items()
    trained(tmp_path, 3).close()
    assert all(len({name[:10] for name in found}) <= 4 for found in logs(tmp_path))
    assert "pages-0000-0000.safetensors" not in logs(tmp_path)[-1]  # everything was written anew


def test_a_damaged_log_is_found_and_the_checkpoint_before_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained(tmp_path, 1).close()
    newest = tmp_path / "saved" / "pass-0001"
    log = sorted(newest.glob("pages-*"))[-1]
    data = bytearray(log.read_bytes())
    data[-5] ^= 1
    log.write_bytes(data)
    found = trained(tmp_path, 2)
    assert "damaged, its digest does not match" in caplog.text
    wanted = glm(None, {"kind": "adagrad", "initial": 0.1}, passes=2).fit()
    assert found.parameter("W").tobytes() == wanted.parameter("W").tobytes()


@pytest.mark.slow
def test_the_best_model_comes_from_its_checkpoint(run: Path) -> None:
    """A rate far too high: the first evaluation is the best."""
    Path("run.yaml").write_text(
        CONFIG.replace("kind: adagrad", "kind: adagrad, rate: 30.0").replace(
            "block_rows: 64", "block_rows: 64, eval: {kind: holdout}"
        )
        + "evaluation: {metric: log_loss}\n"
    )
    for out, more in [("a", []), ("b", ["--set", "learner.table_folder=null"])]:
        assert learn("--out", out, "-q", "--set", "learner.passes=3", *more) == ExitCode.DONE
    weights = [(run / out / "weights.safetensors").read_bytes() for out in "ab"]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_run_has_the_bits_of_memory_and_leaves_no_files(run: Path) -> None:
    assert learn("--out", "a", "-q") == ExitCode.DONE
    assert learn("--out", "b", "-q", "--set", "learner.table_folder=null") == ExitCode.DONE
    weights = [(run / out / "weights.safetensors").read_bytes() for out in "ab"]
    assert weights[0] == weights[1]
    assert not (run / "tables" / "a-tables").exists()


def test_a_dry_run_says_what_lies_in_files(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn("--out", "a", "--dry-run") == ExitCode.DONE
    found = capsys.readouterr()
    assert f"W: float32 {FEATURES:,} x 2, in a file" in found.out + found.err
    assert not (run / "tables").exists()


def test_files_of_others_are_left_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / "tables" / "a-tables"
    folder.mkdir(parents=True)
    (folder / "W.float32").write_text("mine")
    assert learn("--out", "a", "-q") == ExitCode.USAGE
    assert "must not exist" in capsys.readouterr().err
    assert not (run / "a").exists() and LOCK not in files(folder)
    assert (folder / "W.float32").read_text() == "mine"
