"""Pages of live tables that are damaged or lost end a run with their place and the remedy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.errors import PageError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.files import live_pages
from blocklearn.learner.files.page_digests import PageDigests, distinct
from blocklearn.learner.files.paging import PAGE
from blocklearn.learner.files.table_files import TableFiles
from tests.support.learn_command import learn
from tests.support.often import first_often

COLUMNS, ROWS, BLOCK = 3000, 200, 32

MODELS: dict[str, dict[str, Any]] = {
    "glm": {"model": "glm", "optimizer": "adagrad"},
    "fm": {"model": {"kind": "fm", "factors": 3}, "optimizer": "adagrad"},
    "averages": {"model": "glm", "optimizer": {"kind": "sgd", "average_from": 2}},
    "lda": {"model": {"kind": "lda", "topics": 5, "inference": "vb"}},
}


def data(model: str) -> Any:
    rng = np.random.default_rng(0)
    X = sp.random_array((ROWS, COLUMNS), density=0.004, rng=rng, dtype=np.float32, format="csr")
    X.data[:] = np.ceil(3 * X.data)
    return X if model == "lda" else (X, (rng.random((ROWS, 2)) < 0.3).astype(np.float32))


def learner(model: str, folder: Path, *hooks: bl.Hook) -> bl.Learner:
    given = {"block_rows": BLOCK, "passes": 3, "threads": 2, "hooks": hooks, **MODELS[model]}
    return bl.Learner(train=data(model), table_folder=folder, **given)


class Harm(bl.Hook):
    """Does something to the file of a table after a block of a pass; counted from 1."""

    def __init__(self, folder: Path, harm: Callable[[Path], Any], at: tuple[int, int]) -> None:
        self.folder, self.harm, self.at = folder, harm, at

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        if (progress.pass_ + 1, progress.block) == self.at:
            self.harm(self.folder)


def flip(name: str, place: int) -> Callable[[Path], None]:
    """Return what flips a bit of a byte in the file of a table."""

    def harm(folder: Path) -> None:
        (file,) = folder.glob(f"*-tables/{name}.*")
        with file.open("r+b") as opened:
            byte = os.pread(opened.fileno(), 1, place)
            os.pwrite(opened.fileno(), bytes([byte[0] ^ 4]), place)

    return harm


def shorten(name: str) -> Callable[[Path], None]:
    """Return what leaves the first page of a file only."""
    return lambda folder: [os.truncate(file, PAGE) for file in folder.glob(f"*-tables/{name}.*")]


# ---- digests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digests_follow_rows_that_leave_and_arrive(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    array = np.zeros((103, 3), dtype)
    digests, fresh = PageDigests(array, 10), PageDigests(array, 10)
    for _ in range(5):
        rows = rng.permutation(103)[:40].astype(np.int32)
        digests.leave(rows)
        array[rows] = rng.normal(size=(40, 3))
        digests.arrive(rows)
    fresh.renew()
    assert digests.sums.tolist() == fresh.sums.tolist()
    assert digests.damaged(np.arange(11)) is None


def test_every_bit_of_a_page_has_its_digest() -> None:
    array = np.random.default_rng(0).normal(size=(23, 2)).astype(np.float32)
    digests = PageDigests(array, 10)
    digests.renew()
    words = array.view(np.uint32)
    for row in range(23):
        for bit in range(64):
            words[row, bit // 32] ^= np.uint32(1 << bit % 32)
            assert digests.damaged(np.arange(3)) == row // 10
            words[row, bit // 32] ^= np.uint32(1 << bit % 32)
    assert digests.damaged(np.arange(3)) is None


def test_pages_and_rows_that_changed_places_are_found() -> None:
    array = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    digests = PageDigests(array, 10)
    digests.renew()
    array[[3, 5]] = array[[5, 3]]
    assert digests.damaged(np.array([0])) == 0
    digests.renew()
    array[10:20], array[20:30] = array[20:30].copy(), array[10:20].copy()
    assert digests.damaged(np.array([0, 3, 1, 2])) == 1


def test_a_damaged_row_is_found_after_training_has_changed_it() -> None:
    array = np.ones((20, 2), np.float32)
    digests, row = PageDigests(array, 10), np.array([7], np.int32)
    digests.renew()
    array[7, 1] = 5.0  # damage
    digests.leave(row)
    array[7] = 2.0
    digests.arrive(row)
    assert digests.damaged(np.arange(2)) == 0


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.float32])
def test_digests_follow_ranges_of_numbers(dtype: Any) -> None:
    """Empty ones, parts of a page, and those of many pages, as rows of tokens are."""
    rng = np.random.default_rng(0)
    array = np.zeros(1003, dtype)
    digests, fresh = (PageDigests(array[:, None], 10) for _ in range(2))
    cuts = np.sort(rng.integers(0, 1004, 40))
    for first in range(2):
        begin, end = cuts[first:-1:2].copy(), cuts[first + 1 :: 2].copy()
        digests.leave_ranges(begin, end)
        for one, other in zip(begin, end, strict=True):
            array[one:other] = rng.integers(0, 60_000, other - one)
        digests.arrive_ranges(begin, end)
    fresh.renew()
    assert digests.sums.tolist() == fresh.sums.tolist()
    array[cuts[5]] += 1
    damaged = cuts[5] // 10
    known = np.zeros(101, np.bool_)
    first = np.array([10 * damaged])
    assert digests.damaged_at(np.array([0]), first, known) is None
    assert known[:damaged].all() and not known[damaged:].any()
    assert digests.damaged_at(first + 9, np.array([1003]), known) == damaged
    assert digests.damaged_at(first, first + 10, known) is None  # it is known


def test_rows_are_listed_once() -> None:
    rows = np.array([9, 3, 9, 8, 3, 0], np.int32)
    seen, into = np.zeros(2, np.uint8), np.zeros(6, np.int32)
    assert into[: distinct(rows, seen, into)].tolist() == [9, 3, 8, 0]
    assert not seen.any()


# ---- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name", "at", "place"),
    first_often(
        [
            ("glm", "W", (1, 2), 100),
            ("glm", "optimizer.W.G", (2, 7), 100),
            ("glm", "columns-of-rows", (1, 3), 9),
            ("fm", "factors", (1, 3), 5000),
            ("averages", "optimizer.W.average", (2, 2), 20_000),
            ("lda", "lambda", (1, 3), 40_001),
            ("lda", "optimizer.lambda.seen", (2, 5), 17_000),
        ],
        3,
    ),
)
def test_a_flipped_bit_is_found_at_the_latest_when_the_table_is_read(
    model: str,
    name: str,
    at: tuple[int, int],
    place: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where pages are compared few at a time."""
    monkeypatch.setattr(live_pages, "AT_ONCE", 2)
    harm = Harm(tmp_path, flip(name, place), at)
    with (
        closing(learner(model, tmp_path, harm)) as found,
        pytest.raises(PageError, match=rf"tables/{name}.*: page \d+ of '{name}'.*resume") as caught,
    ):
        found.fit()
        for parameter in found.model.parameters:
            found.parameter(parameter)
    begin, end = re.findall(r"[\d,]+", str(caught.value).partition("(bytes")[2])[:2]
    assert int(begin.replace(",", "")) <= place <= int(end.replace(",", ""))


@pytest.mark.parametrize("model", first_often(["glm", "lda"]))
def test_no_checkpoint_has_a_flipped_bit(model: str, tmp_path: Path) -> None:
    """The run resumes from the checkpoint before, and ends with the bits of one without harm."""
    name = "lambda" if model == "lda" else "W"
    saved = bl.Checkpoints(tmp_path / "saved", every_blocks=2)
    harm = Harm(tmp_path / "tables", flip(name, 50), (2, 3))
    broken = learner(model, tmp_path / "tables", saved, harm)
    with closing(broken), pytest.raises(PageError, match="damaged"):
        broken.fit()
    newest = max(path.name for path in (tmp_path / "saved").iterdir())
    assert newest == "pass-0001-block-0000003"  # the next one would have had it
    again = learner(model, tmp_path / "tables", bl.Checkpoints(tmp_path / "saved")).fit()
    wanted = learner(model, tmp_path / "other").fit()
    assert again.parameter(name).tobytes() == wanted.parameter(name).tobytes()


def test_a_page_that_does_not_change_is_not_compared_by_checkpoints(tmp_path: Path) -> None:
    """They have it from an earlier one; the parameter is read from the file, and compared."""
    with TableFiles([tmp_path]) as tables:
        tables.new("W", (3 * PAGE, 1), np.float32)
        columns = np.arange(3 * PAGE)
        tables.set(columns, {"W": columns[:, None].astype(np.float32)})
        flip("W", 2 * PAGE)(tmp_path)
        with tables.live.checked(np.array([0, 1, 3])):
            pass
        with pytest.raises(PageError, match=r"W\.float32: page 2 of 'W' \(bytes 8,192 to"):
            tables.kept().by_column("W")


@pytest.mark.parametrize("model", ["glm", "lda"])
def test_a_file_that_became_shorter_ends_the_run_not_the_process(
    model: str, tmp_path: Path
) -> None:
    name = "lambda" if model == "lda" else "W"
    harm = Harm(tmp_path, shorten(name), (1, 2))
    with (
        closing(learner(model, tmp_path, harm)) as found,
        pytest.raises(PageError, match=rf"{name}\.float32: page \d+ .*no longer be read.*resume"),
    ):
        found.fit()


def test_messages_name_the_file_of_several(tmp_path: Path) -> None:
    with TableFiles([tmp_path / "a", tmp_path / "b"]) as tables:
        columns = np.arange(3 * PAGE)
        tables.new("W", (3 * PAGE, 1), np.float32)
        tables.set(columns, {"W": columns[:, None].astype(np.float32)})
        flip("W", PAGE + 7)(tmp_path / "a")
        with pytest.raises(PageError, match=r"a/learner-tables/W\S+ page 2 of 'W' \(bytes 4,096 "):
            tables.check_pages()
        flip("W", PAGE + 7)(tmp_path / "a")
        shorten("W")(tmp_path / "b")
        with pytest.raises(PageError, match=r"b/learner-tables/W\.float32: page 1 .*no longer"):
            tables.check_pages()


STATES: dict[str, Any] = {
    "als": {"kind": "als", "rank": 3},
    "nmf": {"kind": "nmf", "components": 3},
    "lda": {"kind": "lda", "topics": 20, "assignments": "kept", "fresh_passes": 0},
}


def of_rows(model: str, folder: Path | None, *hooks: bl.Hook, **given: Any) -> bl.Learner:
    """A learner whose states of rows lie in files of the folder."""
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 1500), density=0.01, rng=rng, dtype=np.float32, format="csr")
    X.data[:] = np.ceil(4 * X.data)
    given = {"block_rows": 128, "passes": 3, "threads": 2, "row_folder": folder, **given}
    return bl.Learner(STATES[model], X, hooks=hooks, **given)


def flip_state(name: str, place: int) -> Callable[[Path], None]:
    """Return what flips a bit of a byte in the file of a state of rows."""

    def harm(folder: Path) -> None:
        (file,) = folder.glob(f"learner/{name}.*")
        content = bytearray(file.read_bytes())
        content[place] ^= 4
        with file.open("r+b") as opened:
            os.pwrite(opened.fileno(), content[place : place + 1], place)

    return harm


@pytest.mark.parametrize(
    ("model", "name", "at", "place"),
    first_often(
        [
            ("als", "users", (1, 2), 10_001),
            ("als", "items", (1, 25), 5001),
            ("nmf", "W", (1, 16), 77),
            ("lda", "assignments", (2, 3), 30_000),
        ],
        2,
    ),
)
def test_a_flipped_bit_in_a_state_of_rows_is_found(
    model: str, name: str, at: tuple[int, int], place: int, tmp_path: Path
) -> None:
    """Its page is compared when a block takes its rows, or the state is read as a whole."""
    harm = Harm(tmp_path, flip_state(name, place), at)
    wanted = rf"learner/{name}\.\w+: page {place // PAGE} of '{name}' .*damaged.*resume"
    with closing(of_rows(model, tmp_path, harm)) as found:
        with pytest.raises(PageError, match=wanted):
            found.fit()
        with pytest.raises(PageError, match=wanted):
            found.state()


@pytest.mark.parametrize("model", first_often(STATES))
def test_states_of_rows_in_files_have_the_bits_of_memory(model: str, tmp_path: Path) -> None:
    """Of two replicas, which share pages; from a checkpoint, too."""
    given: dict[str, Any] = {"replicas": 2}
    saved = tmp_path / "saved"
    memory = of_rows(model, None, **given).fit()
    hook = bl.Checkpoints(saved, every_blocks=6)
    of_rows(model, tmp_path, hook, **given, passes=2).fit().close()
    found = of_rows(model, tmp_path, bl.Checkpoints(saved), **given).fit()
    for name in memory.model.states:
        if memory.model.states[name].saved:
            assert found.row_state(name).tobytes() == memory.row_state(name).tobytes()
    for name in memory.model.parameters:
        assert found.parameter(name).tobytes() == memory.parameter(name).tobytes()


def test_a_state_of_rows_that_became_shorter_ends_the_run(tmp_path: Path) -> None:
    harm = Harm(tmp_path, lambda folder: os.truncate(folder / "learner/users.float32", 0), (1, 1))
    with (
        closing(of_rows("als", tmp_path, harm)) as found,
        pytest.raises(PageError, match=r"users\.float32: page \d .*no longer be read.*resume"),
    ):
        found.fit()


def test_a_saved_model_that_became_shorter_ends_predictions(tmp_path: Path) -> None:
    bl.save(learner("glm", tmp_path / "tables").fit(), tmp_path / "model")
    file = tmp_path / "model" / "weights.safetensors"
    with closing(bl.load(tmp_path / "model")) as loaded:
        X, _ = data("glm")
        loaded.predict(X)
        os.truncate(file, 0)
        with pytest.raises(PageError, match=r"weights\.safetensors: page \d .*copy of the model"):
            loaded.predict(X)


def test_sigbus_elsewhere_ends_the_process_as_before(tmp_path: Path) -> None:
    code = """
        import os, sys
        from pathlib import Path
        import numpy as np
        from blocklearn.learner.files.lost_pages import Watched
        from blocklearn.learner.files.stripes import one_file

        folder = Path(sys.argv[1])
        ours, other = [np.memmap(folder / name, np.uint8, "w+", shape=9999) for name in "ab"]
        watched = Watched(ours, one_file(folder / "a"))
        os.truncate(folder / "a", 0)
        print(ours.sum(), flush=True)
        os.truncate(folder / "b", 0)
        other.sum()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["0"]
    assert done.returncode == -7


def test_a_run_says_how_long_it_waited_for_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the thread stands still while it waits."""
    clock = iter(range(1000))
    monkeypatch.setattr("blocklearn.learner.files.live_pages.perf_counter", lambda: next(clock))
    monkeypatch.setattr("blocklearn.learner.files.live_pages.thread_time", lambda: 0.0)
    monkeypatch.setattr("blocklearn.learner.files.live_pages.seconds_queued", lambda: 0.0)
    found = learner("glm", tmp_path).fit()
    assert found.progress.table_wait_seconds == 21.0  # of 21 blocks


CONFIG = """\
model: {kind: glm}
optimizer: {kind: adagrad}
data: {train: {kind: file, path: x.npz, targets: y.npy}, block_rows: 32}
learner: {passes: 2, threads: 1, table_folder: tables}
"""


def test_learn_ends_with_the_code_of_reading_and_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    X, Y = data("glm")
    sp.save_npz("x.npz", sp.csr_matrix(X))
    np.save("y.npy", Y)
    Path("run.yaml").write_text(CONFIG)
    arguments = ["train", "--config", "run.yaml", "-q"]
    assert learn(*arguments, "--out", "good") == ExitCode.DONE
    *_, last = map(json.loads, Path("good/metrics.jsonl").read_text().splitlines())
    assert last["table_wait_s"] >= 0
    leave, once = PageDigests.leave, iter([flip("W", 8000)])

    def harm(digests: PageDigests, rows: Any) -> None:
        leave(digests, rows)
        for flipped in once:
            flipped(tmp_path / "tables")

    monkeypatch.setattr(PageDigests, "leave", harm)
    assert learn(*arguments, "--out", "bad") == ExitCode.IO
    error = capsys.readouterr().err
    assert "bad-tables/W.float32: page 1 " in error and "resume" in error
    assert not (tmp_path / "tables" / "bad-tables").exists()
