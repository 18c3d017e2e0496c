"""A learner's model to and from a model folder: `bl.save(learner, "m")`, `bl.load("runs/lda")`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from blocklearn.matcache import MatCache, from_array
from blocklearn.models import MODELS, Model

from ..errors import ModelFolderError
from ..hooks import Progress
from ..learner import Learner, State
from . import model_folder
from .outputs import outputs_of

POSITION = {"passes": "pass", "rows": "rows", "seconds": "seconds"}
"""Names in `metrics.json` and, for the same numbers, in a state's position."""

WHICH = "model"
"""Its name in `metrics.json`: the model is the `last` one of training, or the `best METRIC`."""


def save(learner: Learner, path: Path | str) -> None:
    """Writes the model that `learner` has trained to the folder `path`; an older model there is
    replaced in one step.

    Raises:
        TypeError: `learner` is an estimator.
        ValueError: nothing is trained yet.
        RunFolderError: the folder has files of the same names that are not a model.
    """
    if not isinstance(learner, Learner):
        hint = "; pass its to_learner()" if hasattr(learner, "to_learner") else ""
        raise TypeError(f"save: {type(learner).__name__} is no Learner{hint}.")
    position, model = learner.state(copy=False).position, learner.model
    config = model.model_dump(mode="json")
    names = [name for name in model.parameters if name not in model.unsaved]
    model_folder.save(
        Path(path),
        kind=kind_of(type(model)),
        config=config,
        tensors={
            **{name: learner.parameter(name) for name in names},
            **{name: learner.row_state(name) for name in model.row_states},
        },
        names=learner.names,
        fingerprint=learner.train.fingerprint if learner.train else "",
        metrics={
            **{name: position[there] for name, there in POSITION.items()},
            WHICH: _which(learner.progress),
            **({} if learner.progress.lost is None else {model_folder.LOST: learner.progress.lost}),
            **learner.progress.scores,
        },
        targets=learner.targets or 0,
        target_names=learner.target_names,
        row_names=learner.row_names if 0 in model.row_states.values() else None,
        outputs=outputs_of(learner),
    )


def _which(progress: Progress) -> str:
    best = progress.best
    return f"best {best.metric}" if best and best.position == progress.position else "last"


def kind_of(model: type[Model]) -> str:
    """The name of a model in files: its `kind`, or that of a class which has none."""
    field = model.model_fields.get("kind")
    return str(field.default) if field is not None else model.__name__


def load(
    path: Path | str,
    model: type[Model] | None = None,
    *,
    threads: int | None = None,
    device: str | Sequence[str] = "cpu",
    replicas: int | Literal["auto"] = 1,
) -> Learner:
    """The model in the folder `path`, ready to predict and evaluate.

    model: the class of a model that does not come with this package. threads, device, replicas: see
    `Learner`; replicas share the blocks of what is predicted and scored.

    Raises:
        ModelMissingError: there is none.
        ModelFolderError: it is damaged, newer than this package, or of an unknown kind.
        DeviceError: the device is not there.
    """
    if not (model is None or isinstance(model, type)):
        raise TypeError(
            f"load: model={model!r}, but it is the class of the model: model=YourClass."
        )
    saved = model_folder.load(Path(path))
    known = MODELS if model is None else {kind_of(model): model}
    if saved.kind not in known:
        raise ModelFolderError(
            f"{path}: a model of kind {saved.kind!r}, but known here: {', '.join(known)}. A model "
            "of your own is loaded with load(path, model=YourClass)."
        )
    learner = Learner(
        known[saved.kind].model_validate(saved.config),
        threads=threads,
        device=device,
        replicas=replicas,
    )
    learner.names, learner.row_names = saved.names, saved.row_names
    learner.targets, learner.target_names = saved.targets, saved.target_names
    position = {there: saved.metrics[name] for name, there in POSITION.items()}
    learner.restore(State(tensors=saved.tensors, position=position))
    about = {*POSITION, WHICH, model_folder.LOST}
    learner.progress.scores = {k: v for k, v in saved.metrics.items() if k not in about}
    show_parameters(learner, saved.tensors)
    return learner


def show_parameters(learner: Learner, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Let methods of the model that only read parameters, such as `topic_words`, work at once."""
    cache = MatCache(threads=1)
    learner.model.attach(cache)
    for name in tensors.keys() - learner.model.row_states.keys():
        learner.model.parameters[name] = from_array(cache, tensors[name], name)
