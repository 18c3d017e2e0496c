"""What a check of a model raises."""

from blocklearn.matcache.errors import BlocklearnError


class ContractError(BlocklearnError):
    """A model that breaks a promise: the message names the check, the place and the remedy.

    `check`: the name of the check.
    """

    def __init__(self, model: str, check: str, problem: str) -> None:
        """model: name of its class. problem: the place, the rule and the remedy."""
        self.check = check
        super().__init__(f"{model}: check {check!r}: {problem}")
