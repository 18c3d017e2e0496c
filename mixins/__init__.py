"""Terms added to an objective, and reports.

Configuration files name mixins by `kind`.
"""

from blocklearn.exports import exported as _exported

from .base import Mixin as Mixin
from .cosine_similarity import CosineSimilarity as CosineSimilarity
from .elastic_net import ElasticNet as ElasticNet
from .group_lasso import GroupLasso as GroupLasso
from .l1 import L1 as L1
from .l2 import L2 as L2
from .non_negative import NonNegative as NonNegative
from .top_weights import TopWeights as TopWeights
from .topic_entropy import TopicEntropy as TopicEntropy

MIXINS: dict[str, type[Mixin]] = {
    "l1": L1,
    "l2": L2,
    "elastic-net": ElasticNet,
    "group-lasso": GroupLasso,
    "non-negative": NonNegative,
    "cosine-similarity": CosineSimilarity,
    "topic-entropy": TopicEntropy,
    "top-weights": TopWeights,
}

__all__ = _exported(globals())
