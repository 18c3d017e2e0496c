"""Runs whose folder is lost resume from copies of checkpoints in a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checkpoints import stored_checkpoints
from blocklearn.learner.errors import ConfigError
from tests.support.learn_command import Learn
from tests.support.workers import results
from tests.support.worse_first import worse_first

STORE = "memory://runs/lda"
X = np.random.default_rng(0).poisson(0.3, (90, 12)).astype(np.float32)
CONFIG = """\
model: {kind: nmf, components: 3}
data: {train: {kind: python-calls}, block_rows: 1024}
learner: {threads: 1, report: false}
checkpoint: {every_blocks: 2, store: "memory://runs/lda"}
"""


@pytest.fixture
def memory() -> Iterator[Any]:
    """The files of a store, by path."""
    store = pytest.importorskip("fsspec").filesystem("memory")
    store.store.clear()
    yield store.store
    store.store.clear()


def learner(folder: Path, passes: int, store: str | None = STORE) -> bl.Learner:
    hooks = [bl.Checkpoints(folder, every_blocks=2, store=store)]
    given: dict[str, Any] = {"block_rows": 20, "threads": 1, "verbose": False, "hooks": hooks}
    return bl.Learner("lda", X, passes=passes, **given)


def weights(trained: bl.Learner) -> bytes:
    return trained.parameter("lambda").tobytes()


def complete(memory: Any) -> list[str]:
    """Names of the checkpoints that have a manifest."""
    return sorted(path.split("/")[-2] for path in memory if path.endswith("/checkpoint.json"))


def test_copies_are_those_of_the_folder_and_resume_a_run_that_has_lost_it(
    memory: Any, tmp_path: Path
) -> None:
    expected = weights(learner(tmp_path / "whole", 3, None).fit())
    learner(tmp_path / "lost", 2).fit()
    assert complete(memory) == sorted(path.name for path in (tmp_path / "lost").iterdir())
    shutil.rmtree(tmp_path / "lost")
    second = learner(tmp_path / "new", 3).fit()
    assert [len(second.history), weights(second)] == [1, expected]
    assert complete(memory) == sorted(path.name for path in (tmp_path / "new").iterdir())
    assert all(name.split("/")[-2] in complete(memory) for name in memory)  # nothing else is left


def test_parts_of_workers_are_copied_and_handed_out(memory: Any, tmp_path: Path) -> None:
    """To one process, and to workers: the parts lie in the folder of worker 0 alone."""

    def rows(folder: str, passes: int, **given: Any) -> bytes:
        own = given.get("engine")
        hooks = [bl.Checkpoints(tmp_path / folder, store=STORE)] if not own or not own.rank else []
        given |= {"block_rows": 20, "threads": 1, "verbose": False, "hooks": hooks}
        return bl.Learner("nmf", X, passes=passes, **given).fit().row_state("W").tobytes()

    expected = rows("whole", 3, replicas=3)
    memory.clear()
    results(3, lambda own: rows("lost", 2, engine=own))
    files = {path for path in memory if "pass-0002/part-" in path}
    assert len(files) == 3
    copy = dict(memory)
    assert rows("new", 3, replicas=3) == expected
    memory.clear(), memory.update(copy)
    assert results(3, lambda own: rows("newer", 3, engine=own)) == [expected] * 3


def test_a_copy_without_its_last_file_is_none(memory: Any, tmp_path: Path) -> None:
    expected = weights(learner(tmp_path / "lost", 2).fit())
    newest = complete(memory)[-1]
    del memory[f"/runs/lda/{newest}/checkpoint.json"]
    shutil.rmtree(tmp_path / "lost")
    second = learner(tmp_path / "new", 2).fit()
    assert [len(second.history), weights(second)] == [1, expected]
    assert newest in complete(memory)


def test_only_what_is_needed_is_copied_back(
    memory: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest that is intact, if it is newer than those of the folder."""
    learner(tmp_path / "first", 2).fit()
    old, new = complete(memory)
    copies = stored_checkpoints.stored(STORE)
    assert copies is not None

    def fetched(name: str) -> list[str]:
        copies.fetch(tmp_path / name)
        return sorted(path.name for path in (tmp_path / name).iterdir())

    assert fetched("lost") == [new]
    shutil.copytree(tmp_path / "first" / old, tmp_path / "behind" / old)
    assert fetched("behind") == [old, new]
    (tmp_path / "ahead" / "pass-0100").mkdir(parents=True)
    assert fetched("ahead") == ["pass-0100"]
    assert not caplog.records
    memory[f"/runs/lda/{new}/state.safetensors"].getbuffer()[-1] ^= 1
    assert fetched("damaged") == [old, new]
    assert "the copy in memory:" in caplog.text and "is damaged: " in caplog.text


def test_the_best_evaluation_comes_along(memory: Any, tmp_path: Path) -> None:
    hooks = [bl.Checkpoints(tmp_path / "lost", keep=1, store=STORE)]
    watched = worse_first("perplexity", "higher")
    options: dict[str, Any] = {"block_rows": 20, "threads": 1, "verbose": False}
    bl.Learner("lda", X, X, passes=3, hooks=hooks, evaluation=watched, **options).fit()
    names = sorted(path.name for path in (tmp_path / "lost").iterdir())
    assert names == ["pass-0001", "pass-0003"]
    copies = stored_checkpoints.stored(STORE)
    assert copies is not None
    copies.fetch(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names


def test_a_store_that_fails_is_warned_of(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any) -> None:
        raise PermissionError("no such key")

    monkeypatch.setattr(stored_checkpoints, "put_folder", fails)
    expected = weights(learner(tmp_path / "whole", 1, None).fit())
    assert weights(learner(tmp_path / "kept", 1).fit()) == expected
    assert "checkpoint pass-0001 is not copied, training continues: no such key" in caplog.text


def test_a_path_of_this_machine_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^checkpoint\.store: /tmp: must be the URL of a store"):
        learner(tmp_path, 1, "/tmp").fit()


def test_the_command_resumes_from_copies_and_never_mixes_runs(
    memory: Any, tmp_path: Path, command: Learn
) -> None:
    (tmp_path / "run.yaml").write_text(CONFIG)

    def train(out: str, passes: int, *options: str) -> tuple[int, str, str]:
        given = ["--config", str(tmp_path / "run.yaml"), "--out", str(tmp_path / out)]
        return command("train", *given, "--set", f"learner.passes={passes}", *options)

    assert train("whole", 2, "--set", "checkpoint.store=null")[0] == 0
    code, _, said = train("lost", 1)
    assert code == 0, said
    shutil.rmtree(tmp_path / "lost")
    code, _, said = train("new", 2)
    assert code != 0 and "memory://" in said and "--resume auto resumes it" in said
    code, _, said = train("new", 2, "--resume", "auto")
    assert code == 0 and "resuming after pass 1" in said
    files = [tmp_path / out / "weights.safetensors" for out in ("whole", "new")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert train("new", 1, "--overwrite")[0] == 0
    assert not any(path.startswith("/runs/lda/pass-0002") for path in memory)
