"""Generalised linear models."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import GLM as GLM
    from .scoring.ranking import BlockRanking as BlockRanking
    from .scoring.ranking import ranking_of as ranking_of
    from .scoring.scores import Measured as Measured
    from .scoring.scores import TargetTotals as TargetTotals
    from .solvers.dual import DualSolver as DualSolver
    from .targets import Target as Target
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
