"""States of rows of the data, and of tokens: their stores, and how models see them."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .token_state import TokenState as TokenState
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
