"""Errors of configurations, runs and their folders; `exit_codes.py` numbers them."""

from collections.abc import Sequence

from blocklearn.matcache.errors import BlocklearnError

# After a `DivergedError`. A model without an optimizer, such as a PCA, has the first remedy alone.
REMEDIES = "Scale the data, lower the optimizer's rate or raise the regularisation."


class ConfigError(BlocklearnError, ValueError):
    """A configuration with mistakes, all listed in `problems`, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """`problems`: each names its place, its key and the remedy where there is one."""
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class RunFolderError(BlocklearnError):
    """A run folder that must not be written: it holds a run already, or other files."""


class ModelFolderError(BlocklearnError, ValueError):
    """A model or checkpoint folder with a missing, damaged or newer file."""


class PageError(BlocklearnError, OSError):
    """A page of a live table that can no longer be read, or has changed outside of training."""


class ModelMissingError(BlocklearnError, FileNotFoundError):
    """A path without the model that was expected there."""


class RunInterrupted(BlocklearnError):
    """A run that a signal has stopped."""


class DivergedError(BlocklearnError, ArithmeticError):
    """Training produced a number that is not finite: the model is worthless."""


class WorkerError(BlocklearnError):
    """Another worker has failed.

    rank: the number of that worker.
    code: the exit code of its error.
    """

    def __init__(self, rank: int, code: int, text: str) -> None:
        self.rank, self.code = rank, code
        super().__init__(f"worker {rank}: {text}")


class WorkerLostError(BlocklearnError):
    """Another worker did not answer in time: it hangs, or no longer exists."""
