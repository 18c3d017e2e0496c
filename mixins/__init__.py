"""Terms added to an objective, and reports.

Configuration files name mixins by `kind`. `learner/training/replicas/terms.py` hands terms to the
optimizer, or to a model that multiplies tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from blocklearn.exports import Kinds, on_demand

MIXINS: Mapping[str, type[Mixin]] = Kinds(
    __name__,
    {
        "l1": "L1",
        "l2": "L2",
        "elastic-net": "ElasticNet",
        "group-lasso": "GroupLasso",
        "non-negative": "NonNegative",
        "cosine-similarity": "CosineSimilarity",
        "topic-entropy": "TopicEntropy",
        "top-weights": "TopWeights",
    },
)

if TYPE_CHECKING:
    from .base import Mixin as Mixin
    from .cosine_similarity import CosineSimilarity as CosineSimilarity
    from .elastic_net import ElasticNet as ElasticNet
    from .group_lasso import GroupLasso as GroupLasso
    from .l1 import L1 as L1
    from .l2 import L2 as L2
    from .non_negative import NonNegative as NonNegative
    from .top_weights import TopWeights as TopWeights
    from .topic_entropy import TopicEntropy as TopicEntropy
else:
    __getattr__, __dir__, __all__ = on_demand(__name__, "MIXINS")
