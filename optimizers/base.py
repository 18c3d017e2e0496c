"""What an optimizer is: how a model's updates change its parameters, block after block."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..matcache import Mat, MatCache


class Optimizer(BaseModel):
    """Base of all optimizers. Fields are the configuration; state is `steps` and Mats in `state`.

    updates: by name of parameter, an expression whose meaning the optimizer's docstring states.
    """

    model_config = ConfigDict(extra="forbid")

    def __setattr__(self, name: str, value: Any) -> None:
        """Fields stay validated; every other attribute is state of the replica."""
        if name in type(self).model_fields:
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    def attach(self, cache: MatCache, parameters: dict[str, Mat]) -> None:
        """Make the state for these parameters. Called once, after the model's `allocate`."""
        self.cache = cache
        self.steps = 0
        self.state: dict[str, Mat] = {}

    @abstractmethod
    def step(self, parameters: dict[str, Mat], updates: dict[str, Any]) -> None:
        """Apply one block's updates to the parameters, in place, and count the step."""
