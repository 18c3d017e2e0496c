"""A learner's model to and from a model folder: `bl.save(learner, "m")`, `bl.load("runs/lda")`."""

from pathlib import Path

from ..matcache import MatCache, from_array
from ..models import MODELS
from . import model_folder
from .errors import ModelFolderError
from .learner import Learner, State

POSITION = {"passes": "pass", "rows": "rows", "seconds": "seconds"}
"""Names in `metrics.json` and, for the same numbers, in a state's position."""


def save(learner: Learner, path: Path | str) -> None:
    """Writes the model that `learner` has trained to the folder `path`; an older model there is
    replaced in one step.

    Raises:
        ValueError: nothing is trained yet.
        RunFolderError: the folder has files of the same names that are not a model.
    """
    state, model = learner.state(), learner.model
    config = model.model_dump(mode="json")
    model_folder.save(
        Path(path),
        kind=config["kind"],
        config=config,
        tensors={name: state.tensors[name] for name in model.parameters},
        names=learner.names,
        fingerprint=learner.train.fingerprint if learner.train else "",
        metrics={
            **{name: state.position[there] for name, there in POSITION.items()},
            **learner.progress.scores,
        },
        targets=learner.targets or 0,
        target_names=learner.target_names,
    )


def load(path: Path | str) -> Learner:
    """The model in the folder `path`, ready to predict and evaluate.

    Raises:
        ModelMissingError: there is none.
        ModelFolderError: it is damaged, newer than this package, or of an unknown kind.
    """
    saved = model_folder.load(Path(path))
    if saved.kind not in MODELS:
        raise ModelFolderError(
            f"{path}: a model of kind {saved.kind!r}; this blocklearn knows {', '.join(MODELS)}"
        )
    learner = Learner(MODELS[saved.kind].model_validate(saved.config))
    learner.names = saved.names
    learner.targets, learner.target_names = saved.targets, saved.target_names
    position = {there: saved.metrics[name] for name, there in POSITION.items()}
    learner.restore(State(tensors=saved.tensors, position=position))
    learner.progress.scores = {k: v for k, v in saved.metrics.items() if k not in POSITION}

    # Methods of the model that only read parameters (`topic_words`) work at once.
    cache = MatCache(threads=1)
    learner.model.attach(cache)
    for name, array in saved.tensors.items():
        learner.model.parameters[name] = from_array(cache, array, name)
    return learner
