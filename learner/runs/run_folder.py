"""The folder of one run.

It is created once, written by one process, and never overwritten by accident.

`run.json` marks a folder as a run folder. Only files that a run writes are ever deleted, and only
in a folder with this mark.
"""

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from blocklearn.datasources.secrets import hidden
from blocklearn.durable import NEXT, left_of, make_folder, settle, write_file

from ..configuration.yaml_tree import parse_file
from ..errors import RunFolderError
from ..exit_codes import ExitCode, exit_code
from ..files.lock import HeldError, Lock, this_process
from ..storage import model_folder
from ..storage.schemas import RunMark, read_json
from .old_run import ASIDE, OldRun

MARK = model_folder.RUN
LOCK = ".lock"
HANDED = ".handed"  # the folder for rows that worker 0 hands to the others
ROWS = ".rows"  # the folder for the state of rows that memory has no room for


class RunFolder:
    """The folder `path` of a run, and the paths of its files.

    config: the resolved configuration. plan: the memory plan of training by array.
    tried: the settings that were tried before training. report: the page of the run.
    metrics: the events of the run, one JSON object per line.
    checkpoints: the folder of checkpoints, each a folder of its own.
    tensorboard: the default folder of TensorBoard event files.
    mlflow, wandb: the identifier of the run in MLflow, in Weights & Biases.
    """

    def __init__(self, path: Path) -> None:
        """Name the files, without touching the disk."""
        self.path = path
        self.config, self.metrics = path / "config.yaml", path / "metrics.jsonl"
        self.plan, self.tried = path / "plan.json", path / "tried.json"
        self.report, self.checkpoints = path / "report.html", path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.mlflow, self.wandb = path / "mlflow.txt", path / "wandb.txt"

    @property
    def _ours(self) -> list[Path]:
        """The files that overwriting replaces, but for the mark."""
        return [
            *(self.config, self.plan, self.tried, self.report, self.metrics, self.checkpoints),
            *(self.tensorboard, self.mlflow, self.wandb),
            *(self.path / name for name in (NEXT, *model_folder.FILES)),
        ]

    @property
    def exists(self) -> bool:
        """Whether a run was started in this folder."""
        return (self.path / MARK).is_file()

    def mark(self) -> dict[str, Any]:
        """Read the mark: the command that started the run, with time, host and version.

        Raises:
            ModelFolderError: the mark is damaged.
        """
        return read_json(RunMark, self.path / MARK)

    def begun(self) -> dict[str, Any] | None:
        """Return the resolved configuration of the run that is here; None: there is none."""
        if not (self.exists and self.config.is_file()):
            return None
        settings: dict[str, Any] = parse_file(self.config).plain()
        return settings

    def check(self, *, overwrite: bool, resume: bool) -> None:
        """Raise `RunFolderError` if a run may not be written here."""
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path}: a file, but a run needs a folder. Use --out DIR.")
        if self.exists:
            if not (overwrite or resume):
                raise RunFolderError(
                    f"{self.path}: a run exists already. --resume auto resumes it, "
                    "--overwrite starts it afresh, --out DIR writes elsewhere."
                )
        elif self.path.is_dir() and self._foreign():
            raise RunFolderError(
                f"{self.path}: not empty and not a run folder (it has no {MARK}), so nothing in "
                "it is touched. Use --out DIR."
            )

    @contextmanager
    def opened(self, *, overwrite: bool, resume: bool) -> Iterator[OldRun]:
        """Lock the folder for this process, and prepare it; yield a hook for the new run.

        A new or overwritten run has nothing but its mark. If data or settings turn out to be wrong
        before it records anything, the folder is removed. An overwritten run is put back if they
        are wrong before the first pass ends, when the hook deletes it.

        Raises:
            RunFolderError: another process holds the folder, or `check` refuses it.
        """
        self.check(overwrite=overwrite, resume=resume)
        make_folder(self.path)
        old = OldRun(self.path, [*(file.name for file in self._ours), MARK])
        with self._locked():
            if not (self.exists and old.whole):  # a process was killed between two of them
                old.put_back()
            self.check(overwrite=overwrite, resume=resume)  # it may exist by now
            for path in (self.path / MARK, *self._ours):
                for file in left_of(path):
                    file.unlink(missing_ok=True)
            if resume and self.exists:
                old.forget()
                settle(self.path)  # takes over a complete model of a killed process
                yield old
                return
            if old.whole and not self._recorded:
                self._clear()
            elif self.exists:
                old.forget()
                old.set_aside()
            self._mark()
            try:
                yield old
            except Exception as error:
                wrong = exit_code(error) in (ExitCode.DATA, ExitCode.CONFIG)
                if wrong and (old.whole or not self._recorded):
                    self._withdraw(old)
                raise
            finally:
                old.forget()

    def _foreign(self) -> bool:
        """Return whether an unmarked folder has files that a starting run does not write."""
        begun = {*(self.path / name for name in (LOCK, ASIDE, HANDED)), *left_of(self.path / MARK)}
        return any(
            path not in begun and not path.name.startswith(ROWS) for path in self.path.iterdir()
        )

    @property
    def _recorded(self) -> bool:
        """Whether the run has a checkpoint, or an event after its start."""
        lines = self.metrics.read_bytes().count(b"\n") if self.metrics.exists() else 0
        return lines > 1 or self.checkpoints.exists()

    def _withdraw(self, old: OldRun) -> None:
        """Put the old run back, or remove the folder; files that are not ours stay."""
        self._clear()
        if old.whole:
            old.put_back()
            return
        for name in (MARK, LOCK):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.path.rmdir()

    def _clear(self) -> None:
        for path in self._ours:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _mark(self) -> None:
        mark = {
            "format": "blocklearn run",
            "version": 1,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": [hidden(argument) for argument in sys.argv],
            "folder": os.getcwd(),
            "host": socket.gethostname(),
            "blocklearn": version("blocklearn"),
        }
        text = json.dumps(mark, indent=2, ensure_ascii=False) + "\n"
        write_file(self.path / MARK, text.encode("utf-8", "surrogateescape"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock that the operating system drops however the process ends."""
        try:
            lock = Lock(self.path / LOCK)
        except HeldError as error:
            raise RunFolderError(
                f"{self.path}: {error.owner} is writing there. Wait for it, or use --out DIR."
            ) from None
        with closing(lock):
            lock.write(this_process())
            yield
