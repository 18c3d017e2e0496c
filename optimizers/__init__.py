"""Optimizers, which apply a model's updates.

Configuration files name them by `kind`.

- Gradients, block by block: sgd, sgld, adagrad, rmsprop, adam, ftrl.
- Gradients, pass by pass: conjugate-gradient, lbfgs.
- Losses of rows, whose dual problem it solves: dual-ascent.
- Estimates: streaming-average, inc-norm, telescoping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from blocklearn.exports import Kinds, on_demand

OPTIMIZERS: Mapping[str, type[Optimizer]] = Kinds(
    __name__,
    {
        "streaming-average": "StreamingAverage",
        "inc-norm": "IncNorm",
        "telescoping": "Telescoping",
        "sgd": "SGD",
        "sgld": "SGLD",
        "adagrad": "AdaGrad",
        "rmsprop": "RMSProp",
        "adam": "Adam",
        "ftrl": "FTRL",
        "conjugate-gradient": "ConjugateGradient",
        "lbfgs": "LBFGS",
        "dual-ascent": "DualAscent",
    },
)

if TYPE_CHECKING:
    from .adagrad import AdaGrad as AdaGrad
    from .adam import Adam as Adam
    from .base import AtRest as AtRest
    from .base import Optimizer as Optimizer
    from .conjugate_gradient import ConjugateGradient as ConjugateGradient
    from .dual_ascent import DualAscent as DualAscent
    from .errors import CombinationError as CombinationError
    from .estimates import StatisticsOptimizer as StatisticsOptimizer
    from .ftrl import FTRL as FTRL
    from .gradient import GradientOptimizer as GradientOptimizer
    from .inc_norm import IncNorm as IncNorm
    from .lbfgs import LBFGS as LBFGS
    from .linear_loss import LinearLoss as LinearLoss
    from .managed import Slot as Slot
    from .rmsprop import RMSProp as RMSProp
    from .sgd import SGD as SGD
    from .sgld import SGLD as SGLD
    from .streaming_average import StreamingAverage as StreamingAverage
    from .telescoping import Telescoping as Telescoping
    from .terms import Penalty as Penalty
    from .terms import Term as Term
    from .updates import Gradient as Gradient
    from .updates import Groups as Groups
    from .updates import Meaning as Meaning
    from .updates import Objective as Objective
    from .updates import SparseEstimate as SparseEstimate
    from .updates import Update as Update
else:
    __getattr__, __dir__, __all__ = on_demand(__name__, "OPTIMIZERS")
