"""Save and load models: `bl.save(learner, "m")`, `bl.load("runs/lda")`."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from blocklearn.answers import answered
from blocklearn.datasources.remote import (
    PATIENCE,
    Place,
    StoredPath,
    get_folder,
    place_of,
    put_folder,
)
from blocklearn.durable import current
from blocklearn.matcache import MatCache
from blocklearn.matcache.containers.arrays import on_arrays
from blocklearn.matcache.errors import BlocklearnError
from blocklearn.models import MODELS, Model, Randomness, Shapes

from ..engines.row_pieces import RowPieces
from ..errors import ModelFolderError, ModelMissingError
from ..hooks import Progress
from ..learner import Learner, State
from ..storage import model_folder
from ..storage.model_folder import Saved
from ..storage.schemas import REMEDY, first_field
from .outputs import outputs_of

POSITION = {"passes": "pass", "rows": "rows", "seconds": "seconds"}
"""Names of numbers in `metrics.json`, and in the position of a state."""

STEPS = ("steps", "phase")
"""Names of the position of an optimizer, in `metrics.json` and in that of a state."""

WHICH = "model"
"""The key in `metrics.json` whose value is `last` or `best METRIC`, the model that was saved."""


@answered
def save(learner: Learner, path: Path | str) -> None:
    """Write the model that `learner` has trained to the folder `path`, or to the URL of a store.

    An older model there is replaced in one step; in a store, it is removed before. Of several
    workers, all call this; worker 0 writes, and the others give it the states of their rows.

    Raises:
        TypeError: `learner` is an estimator.
        ValueError: nothing is trained yet.
        RunFolderError: the folder is no model folder, but has files of the same names.
    """
    if not isinstance(learner, Learner):
        hint = "; pass its to_learner()" if hasattr(learner, "to_learner") else ""
        raise TypeError(f"save: {type(learner).__name__} is not a Learner{hint}.")
    if not learner.crew.leads:
        for tensor in _tensors(learner).values():
            for _ in tensor.pieces() if isinstance(tensor, RowPieces) else ():
                pass
        return
    place = place_of(path, PATIENCE)
    if isinstance(place, StoredPath):
        with TemporaryDirectory(prefix="blocklearn-") as folder:
            save(learner, folder)
            known = [name for name in model_folder.FILES if name != model_folder.MANIFEST]
            put_folder(Path(folder), place, model_folder.MANIFEST, known=known)
        return
    position, model = learner.state(copy=False).position, learner.model
    config = model.model_dump(mode="json")
    if ":" in config.get("kind", ""):  # a file or a package, which a model folder never names
        del config["kind"]
    saved = Saved(
        kind=kind_of(type(model)),
        config=config,
        tensors=_tensors(learner),
        names=learner.names,
        fingerprint=learner.train.fingerprint if learner.train else "",
        metrics={
            **{name: position[there] for name, there in POSITION.items()},
            **_steps(position),
            WHICH: _which(learner.progress),
            **({} if learner.progress.lost is None else {model_folder.LOST: learner.progress.lost}),
            **learner.progress.scores,
        },
        targets=learner.data.targets or 0,
        columns=learner.data.columns,
        target_names=learner.target_names,
        row_names=learner.row_names if 0 in model.row_states.values() else None,
        outputs=outputs_of(learner),
    )
    model_folder.save(Path(path), saved)


def _tensors(learner: Learner) -> Mapping[str, NDArray[Any] | RowPieces]:
    """Return the exact parameters, and the states of rows."""
    model, rows = learner.model, learner.state(copy=False).tensors
    found = {n: learner.parameter(n) for n in model.parameters if n not in model.unsaved}
    for name in model.row_states:
        shared = isinstance(rows.get(name), RowPieces)
        found[name] = rows[name] if shared else learner.row_state(name)
    return found


def _steps(position: Mapping[str, Any]) -> dict[str, int]:
    """Return the position of the optimizer of the first replica, 0 without an optimizer.

    Empty if it is unknown: the model came from a folder that does not have it.
    """
    if not {"optimizers", *STEPS} & position.keys():
        return {}
    paused = (position.get("optimizers") or [position])[0]
    return {name: paused.get(name, 0) for name in STEPS}


def _which(progress: Progress) -> str:
    best = progress.best
    return f"best {best.metric}" if best and best.position == progress.position else "last"


def kind_of(model: type[Model]) -> str:
    """Return the name of a model in files: its `kind`, or else the name of its class.

    The kind of a class that a configuration names, `kmeans.py:KMeans`, is that of the class.
    """
    field = model.model_fields.get("kind")
    return model.__name__ if field is None else str(field.default).rpartition(":")[2]


@answered
def load(
    path: Path | str,
    model: type[Model] | None = None,
    *,
    threads: int | None = None,
    device: str | Sequence[str] = "cpu",
    replicas: int | Literal["auto"] = 1,
) -> Learner:
    """Load the model in the folder `path`, ready to predict and evaluate.

    Its arrays are mapped, so the model may be larger than memory, and processes that load it share
    the memory of its file. Training, and a device, copy what they need. Nothing is ever written to
    the file.

    Args:
        path: a model folder, or the folder of a finished run; or the URL of a model in a store,
            which is copied to the folder of temporary files.
        model: the class, for a model that does not come with this package.
        threads: see `Learner`.
        device: see `Learner`.
        replicas: see `Learner`; replicas share the blocks of predictions and evaluations.

    Raises:
        ModelMissingError: the folder has no model.
        ModelFolderError: it is damaged, newer than this package, or of an unknown kind.
        DeviceError: the device is not available.
    """
    if not (model is None or isinstance(model, type)):
        raise TypeError(f"load: model={model!r}: must be the class of the model: model=YourClass.")
    place = place_of(path, PATIENCE)
    with _on_disk(place) as folder:
        saved = model_folder.load(folder, mapped="private")  # mapped files outlive their names
    known = MODELS if model is None else {kind_of(model): model, model.__name__: model}
    if saved.kind not in known:
        raise ModelFolderError(
            f"{path}: model.json: kind={saved.kind!r}: must be one of {', '.join(known)}. Load a "
            "model of your own with load(path, model=YourClass), or with the option "
            "--model-class FILE.py:CLASS."
        )
    file = (current(place) if isinstance(place, Path) else place) / model_folder.MANIFEST
    found = model_of(known[saved.kind], saved.config, file)
    if model is None:  # a user's own class may need more than this to plan
        check_tensors(saved, found, file)
    learner = Learner(
        found,
        threads=threads,
        device=device,
        replicas=replicas,
    )
    data = learner.data
    data.names, data.row_names, data.columns = saved.names, saved.row_names, saved.columns
    data.targets, data.target_names = saved.targets, saved.target_names
    position = {there: saved.metrics.get(name, 0) for name, there in POSITION.items()}
    position |= {name: saved.metrics[name] for name in STEPS if name in saved.metrics}
    learner.restore(State(tensors=dict(saved.tensors), position=position))
    about = {*POSITION, *STEPS, WHICH, model_folder.LOST}
    learner.progress.scores = {  # a score that is not a number is null in JSON
        k: math.nan if v is None else v for k, v in saved.metrics.items() if k not in about
    }
    show_parameters(learner, saved.tensors)
    return learner


@contextmanager
def _on_disk(place: Place) -> Iterator[Path]:
    """Yield the model folder, or a copy of that of a store.

    Raises ModelMissingError if the store has no complete model there.
    """
    if isinstance(place, Path):
        yield place
        return
    with TemporaryDirectory(prefix="blocklearn-") as folder:
        try:
            get_folder(place, model_folder.MANIFEST, Path(folder))
        except FileNotFoundError as error:
            raise ModelMissingError(f"{place}: has no {model_folder.MANIFEST}.") from error
        yield Path(folder)


def model_of(kind: type[Model], config: Mapping[str, Any], file: Place) -> Model:
    """Return a model of class `kind` with the fields `config`, read from `file`.

    Raises:
        ModelFolderError: the class refuses a field.
    """
    try:
        return kind.model_validate_json(json.dumps(config), strict=True)
    except ValidationError as error:
        found = first_field(error, config)
        raise ModelFolderError(f"{file}: config.{found} {REMEDY}") from None


def check_tensors(saved: Saved, model: Model, file: Place) -> None:
    """Raise `ModelFolderError` unless `saved` has the arrays that `model` needs.

    The model plans its parameters for the saved numbers of columns, targets and rows. No memory is
    allocated. file: `model.json`, for messages.
    """
    tensors = saved.tensors
    rows = {side: tensors[name].shape[0] for name, side in model.row_states.items()
            if name in tensors and tensors[name].ndim}  # fmt: skip
    lengths = [
        array.shape[0]
        for name, array in tensors.items()
        if array.ndim and name not in model.row_states
    ]
    columns = rows.get(1, max(lengths, default=1)) if saved.columns is None else saved.columns
    columns = columns if saved.names is None else len(saved.names)
    shapes = Shapes(
        rows=1,
        columns=columns,
        total_rows=rows.get(0, 1),
        targets=saved.targets,
        names=saved.names,
        target_names=saved.target_names,
        restored=tensors.keys(),
    )
    planned = model.model_copy()
    cache = MatCache(threads=1, reserving=True)
    planned.attach(cache)
    try:
        planned.allocate(shapes, Randomness(cache, 0))
    except (ValueError, BlocklearnError) as error:
        raise ModelFolderError(f"{file}: config, targets or names: {error} {REMEDY}") from error
    wanted = {n: mat.shape for n, mat in planned.parameters.items() if n not in planned.unsaved}
    wanted |= {name: state.shape for name, state in planned.states.items()}
    for name in {**wanted, **tensors}:
        field = f"{file}: tensors.{name}"
        if name not in tensors:
            raise ModelFolderError(f"{field}: is missing. {REMEDY}")
        if name not in wanted:
            raise ModelFolderError(f"{field}: must be one of {', '.join(wanted)}. {REMEDY}")
        if tensors[name].shape != wanted[name]:
            raise ModelFolderError(
                f"{field}.shape={list(tensors[name].shape)}: must be {list(wanted[name])}, as "
                f"config, targets and names say. {REMEDY}"
            )


def show_parameters(learner: Learner, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Let methods that only read parameters, such as `topic_words`, work at once."""
    cache = MatCache(threads=1, reserving=True)
    learner.model.attach(cache)
    learner.model.show_shapes({name: tensor.shape for name, tensor in tensors.items()})
    shown = {
        name: np.atleast_2d(tensor)
        for name, tensor in tensors.items()
        if name not in learner.model.row_states
    }
    learner.model.parameters |= on_arrays(cache, shown)
