"""Send events to MLflow and to Weights & Biases.

Both are optional packages, imported when training starts. Variables of the environment say where
they store runs: MLFLOW_TRACKING_URI; WANDB_MODE, WANDB_DIR, WANDB_API_KEY.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from blocklearn.durable import write_file

from ..configuration.leaves import flat
from ..errors import ConfigError
from .scalars import scalars_of

MOST_METRICS, MOST_PARAMETERS = 1000, 100  # of a call of MLflow


class MLflow:
    """A sink that logs to a run of an MLflow experiment. Steps are rows."""

    def __init__(self, experiment: str, note: Path, settings: Mapping[str, Any]) -> None:
        """Import MLflow; the first event opens the run.

        note: file that keeps the identifier of the MLflow run, which a resumed run continues.
        settings: the configuration without secrets, logged as parameters.

        Raises:
            ImportError: MLflow is not installed.
        """
        try:
            from mlflow import MlflowClient, MlflowException, entities
        except ImportError as error:
            raise missing("MLflow", "mlflow") from error
        self._experiment, self._note, self._settings = experiment, note, settings
        self._entities, self._failure = entities, MlflowException
        with self._refused():
            self._client = MlflowClient()
        self._run = ""

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Log the numbers of an event; open the run first, close it at the end."""
        if event["event"] == "start":
            with self._refused():
                self._open(event)
        now, step = int(time.time() * 1000), int(event["rows"])
        numbers = [
            self._entities.Metric(as_key(tag), float(value), now, step)
            for tag, value in scalars_of(event).items()
        ]
        for part in parts(numbers, MOST_METRICS):
            self._client.log_batch(self._run, metrics=part)
        if event["event"] == "end":
            self._client.set_terminated(self._run)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn errors of MLflow into one that names the setting."""
        try:
            yield
        except self._failure as error:
            raise ConfigError([f"learner.mlflow={self._experiment!r}: {error}"]) from error

    def _open(self, event: Mapping[str, Any]) -> None:
        if event.get("checkpoint") is not None and self._note.is_file():
            self._run = self._note.read_text().strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(self._experiment)
        if found is None:
            number = self._client.create_experiment(self._experiment)
        else:
            number = found.experiment_id
        self._run = self._client.create_run(number, run_name=event["run"]).info.run_id
        write_file(self._note, f"{self._run}\n".encode())
        parameters = [
            self._entities.Param(as_key(key), v if isinstance(v, str) else json.dumps(v))
            for key, v in flat(self._settings)
        ]
        for part in parts(parameters, MOST_PARAMETERS):
            self._client.log_batch(self._run, params=part)


class WeightsAndBiases:
    """A sink that logs to a run of a project of Weights & Biases. Steps are rows."""

    def __init__(self, project: str, note: Path, settings: Mapping[str, Any]) -> None:
        """Import wandb; the first event opens the run. See `MLflow`.

        Raises:
            ImportError: wandb is not installed.
        """
        try:
            import wandb
        except ImportError as error:
            raise missing("Weights & Biases", "wandb") from error
        self._wandb, self._project = wandb, project
        self._note, self._settings = note, settings
        self._run: Any = None

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Log the numbers of an event; open the run first, close it at the end."""
        if event["event"] == "start":
            self._open(event)
        numbers = scalars_of(event)
        if numbers:
            self._run.log(numbers | {"rows": int(event["rows"])})
        if event["event"] == "end":
            self._run.finish()

    def _open(self, event: Mapping[str, Any]) -> None:
        resumed = event.get("checkpoint") is not None and self._note.is_file()
        number = self._note.read_text().strip() if resumed else uuid4().hex[:12]
        try:
            self._run = self._wandb.init(
                project=self._project,
                name=event["run"],
                id=number,
                resume="allow" if resumed else None,
                config=dict(self._settings),
                settings=self._wandb.Settings(silent=True),
            )
        except self._wandb.Error as error:
            raise ConfigError([f"learner.wandb={self._project!r}: {error}"]) from error
        self._run.define_metric("*", step_metric="rows")
        write_file(self._note, f"{number}\n".encode())


def missing(name: str, extra: str) -> ImportError:
    """Return the error for a package that is not installed."""
    return ImportError(
        f"learner.{extra} needs {name}, which is not installed: pip install 'blocklearn[{extra}]'"
    )


def as_key(tag: str) -> str:
    """Replace characters that MLflow refuses in names.

    >>> as_key("held_out/auc/section=<python>")
    'held_out/auc/section__python_'
    """
    return re.sub(r"[^\w. /:-]", "_", tag, flags=re.ASCII)[:250]


def parts(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    """Yield lists of at most `most` items."""
    for start in range(0, len(items), most):
        yield items[start : start + most]
