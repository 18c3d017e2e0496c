"""What can go wrong between the command line and the disk; `exit_codes.py` numbers it."""

from collections.abc import Sequence

from blocklearn.matcache.errors import BlocklearnError


class ConfigError(BlocklearnError, ValueError):
    """A configuration with mistakes: all of them, one line each, in `problems`."""

    def __init__(self, problems: Sequence[str]) -> None:
        """`problems`: each names its place, its key and the remedy where there is one."""
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class RunFolderError(BlocklearnError):
    """A run folder that must not be written: it holds a run already, or is not one of ours."""


class ModelFolderError(BlocklearnError, ValueError):
    """A model or checkpoint folder with a missing, damaged or newer file, named in the message."""


class ModelMissingError(BlocklearnError, FileNotFoundError):
    """A path where a model was expected and none is."""


class RunInterrupted(BlocklearnError):
    """The run was asked to stop by a signal and did."""


class DivergedError(BlocklearnError, ArithmeticError):
    """Training produced a number that is not finite; what was learnt since is worthless."""
