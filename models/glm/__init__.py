"""Generalised linear models."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .dual import DualSolver as DualSolver
    from .model import GLM as GLM
    from .ranking import BlockRanking as BlockRanking
    from .ranking import ranking_of as ranking_of
    from .scores import Measured as Measured
    from .scores import TargetTotals as TargetTotals
    from .targets import Target as Target
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
