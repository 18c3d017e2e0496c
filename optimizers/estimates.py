"""Base class of optimizers whose updates are estimates, not gradients."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Optimizer
from .errors import CombinationError
from .updates import Meaning


class StatisticsOptimizer(Optimizer):
    """Base of optimizers that take estimates of a parameter, one from each block."""

    meaning: ClassVar[Meaning] = "estimates"

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make the state.

        Raises CombinationError for terms: no gradient exists to add them to.
        """
        super().attach(*args, **kwargs)
        kind = str(getattr(self, "kind", type(self).__name__))
        for name, terms in self.terms.items():
            raise CombinationError(
                f"{terms[0].kind} on {name!r}: {kind} takes updates as estimates of a parameter, "
                "and a term can only be added to gradients. Leave the mixin out, or set its weight "
                "to 0 to report it only."
            )
