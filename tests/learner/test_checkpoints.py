"""Checkpoints of a learner in Python: saved, resumed to the same bits, refused for other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.errors import ConfigError, ModelFolderError
from blocklearn.matcache import total

X = np.random.default_rng(0).poisson(0.7, (70, 6)) + 1.0


class Killed(Exception):
    """Stands for the end of a process."""


class KillAt(bl.Hook):
    """Ends training after a block."""

    def __init__(self, pass_: int, block: int) -> None:
        self.at = pass_, block

    def block(self, learner: Any, progress: Any) -> None:
        if (progress.pass_, progress.block) == self.at:
            raise Killed


def learner(*hooks: bl.Hook, data: Any = X, **given: Any) -> bl.Learner:
    settings: dict[str, Any] = {"passes": 3, "block_rows": 16, "threads": 1, "seed": 2} | given
    model = settings.pop("model", bl.models.LDA(topics=2))
    return bl.Learner(model, data, hooks=hooks, verbose=False, **settings)


def tensors(trained: bl.Learner) -> dict[str, bytes]:
    return {name: trained.parameter(name).tobytes() for name in trained.model.parameters}


@pytest.mark.parametrize("at", [(1, 3)])
def test_a_killed_program_resumes_to_the_same_bits(tmp_path: Path, at: tuple[int, int]) -> None:
    straight = learner().fit()
    with pytest.raises(Killed):
        learner(bl.Checkpoints(tmp_path, every_blocks=2), KillAt(*at)).fit()
    resumed = learner(bl.Checkpoints(tmp_path, every_blocks=2)).fit()
    assert tensors(resumed) == tensors(straight)
    assert resumed.progress.rows == straight.progress.rows


@pytest.mark.parametrize("at", [(0, 1), (2, 5)])
def test_the_parameter_saves_and_resumes_like_the_hook(tmp_path: Path, at: tuple[int, int]) -> None:
    given: dict[str, Any] = {"checkpoint": str(tmp_path), "every_blocks": 2}
    with pytest.raises(Killed):
        learner(KillAt(*at), **given).fit()
    blocks = [path.name for path in tmp_path.glob("pass-*-block-*")]
    assert blocks or at == (0, 1)
    resumed = learner(**given).fit()
    assert resumed.progress.rows == 3 * len(X) and len(resumed.history) == 3 - at[0]
    assert tensors(resumed) == tensors(learner().fit())
    with pytest.raises(ConfigError, match="model.topics: 3, but"):
        learner(model=bl.models.LDA(topics=3), **given).fit()


def test_without_every_blocks_checkpoints_are_saved_after_passes(tmp_path: Path) -> None:
    learner(checkpoint=tmp_path).fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pass-0002", "pass-0003"]


@pytest.mark.parametrize(
    "given, told",
    [
        ({"every_blocks": 4}, "every_blocks=4: must come with a folder of checkpoints"),
        ({"checkpoint": "x", "every_blocks": 0}, "every_blocks=0: must be a whole number"),
        ({"checkpoint": 3}, "checkpoint=3: must be the path of a folder"),
    ],
)
def test_what_cannot_be_saved_is_refused(given: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        learner(**given)


def test_a_folder_that_is_not_one_of_checkpoints_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ModelFolderError, match=r"file: a file, but checkpoints need a folder"):
            learner(checkpoint=path)
    trained = learner(checkpoint=tmp_path / "saved").fit()
    with pytest.raises(ModelFolderError, match=r"a single checkpoint.*the folder that it is in"):
        learner(checkpoint=tmp_path / "saved" / "pass-0003")
    hooks = bl.Checkpoints(tmp_path / "model")
    bl.save(trained, tmp_path / "model")
    with pytest.raises(ModelFolderError, match=r"a saved model \(it has a model.json\)"):
        learner(checkpoint=tmp_path / "model")
    with pytest.raises(ModelFolderError, match="a saved model"):
        learner(hooks).fit()


def test_two_hooks_in_one_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two hooks save checkpoints here"):
        learner(bl.Checkpoints(tmp_path / "a"), checkpoint=tmp_path / "b" / ".." / "a")
    learner(bl.Checkpoints(tmp_path / "a", keep=1), checkpoint=tmp_path / "b").fit()
    assert len(list((tmp_path / "a").iterdir())) == 1 and len(list((tmp_path / "b").iterdir())) == 2


def test_a_finished_program_trains_nothing_again_but_further(tmp_path: Path) -> None:
    first = learner(bl.Checkpoints(tmp_path)).fit()
    again = learner(bl.Checkpoints(tmp_path)).fit()
    assert len(again.history) == 0 and tensors(again) == tensors(first)
    longer = learner(bl.Checkpoints(tmp_path), passes=5).fit()
    assert longer.history["pass"] == [4, 5]
    assert tensors(longer) == tensors(learner(passes=5).fit())
    assert len(list(tmp_path.glob("pass-*"))) == 2  # `keep`


@pytest.mark.parametrize(
    "given, told",
    [
        ({"seed": 3}, "learner.seed: 3, but the run was started with 2"),
        ({"model": bl.models.LDA(topics=3)}, "model.topics: 3, but"),
        ({"data": X + 1.0}, "data.train: the data have changed"),
    ],
)
def test_another_run_is_refused_by_name(tmp_path: Path, given: Any, told: str) -> None:
    learner(bl.Checkpoints(tmp_path)).fit()
    with pytest.raises(ConfigError) as caught:
        learner(bl.Checkpoints(tmp_path), **given).fit()
    assert told in str(caught.value) and "another folder" in str(caught.value)


def test_the_best_model_of_before_the_kill_is_kept(tmp_path: Path) -> None:
    class Worse(bl.Model):
        """Its score is best after the first pass."""

        def allocate(self, shapes: Any, rng: Any) -> None:
            self.count = self.parameter("count", 1, 1)

        def update(self, block: Any) -> None:
            self.count <<= self.count + 1.0

        def predict(self, block: Any) -> Any:
            return block.X.mat()

        def score(self, block: Any) -> Any:
            return {"rmse": bl.Sum(total(self.count), total(self.count * 0.0 + 1.0))}

    given: dict[str, Any] = {"model": Worse(), "eval": X, "evaluation": "rmse"}
    with pytest.raises(Killed):
        learner(bl.Checkpoints(tmp_path), KillAt(2, 1), **given).fit()
    resumed = learner(bl.Checkpoints(tmp_path), **given).fit()
    straight = learner(**given).fit()
    assert tensors(resumed) == tensors(straight)
    assert resumed.parameter("count").item() == 5.0  # the blocks of one pass


def test_damaged_checkpoints_are_an_error(tmp_path: Path) -> None:
    learner(bl.Checkpoints(tmp_path)).fit()
    for file in tmp_path.glob("pass-*/checkpoint.json"):
        file.write_text("{")
    with pytest.raises(
        ModelFolderError, match=r"No checkpoint is intact. Remove the folder, or"
    ) as caught:
        learner(bl.Checkpoints(tmp_path)).fit()
    assert "--" not in str(caught.value)


def test_a_full_disk_names_no_option_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Path:
        raise OSError("full")

    written = checkpoint.write
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(OSError, match="full") as caught:
        learner(checkpoint=tmp_path).fit()
    assert not hasattr(caught.value, "__notes__")  # there is nothing to resume from
    monkeypatch.setattr(checkpoint, "write", written)
    learner(checkpoint=tmp_path, passes=1).fit()
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(OSError, match="full") as caught:
        learner(checkpoint=tmp_path).fit()
    assert caught.value.__notes__ == [
        "earlier checkpoints are intact; the same program resumes from them"
    ]
