"""The mathematics of each model. Configuration files name them by `kind`.

A model is a file, or a folder whose class is in `model.py`. `base.py` has what an author writes,
`score.py` has scores that add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from blocklearn.exports import Kinds, on_demand

MODELS: Mapping[str, type[Model]] = Kinds(
    __name__,
    {
        "lda": "LDA",
        "glm": "GLM",
        "fm": "FM",
        "nmf": "NMF",
        "als": "ALS",
        "ranking": "Ranking",
        "kmeans": "KMeans",
        "svd": "SVD",
        "gaussian-mixture": "GaussianMixture",
        "pagerank": "PageRank",
        "components": "Components",
        "triangles": "Triangles",
        "word-vectors": "WordVectors",
    },
)

if TYPE_CHECKING:
    from .als import ALS as ALS
    from .base import Merge as Merge
    from .base import Model as Model
    from .block_size import BlockSize as BlockSize
    from .components import Components as Components
    from .factor_model import FactorModel as FactorModel
    from .fm import FM as FM
    from .glm import GLM as GLM
    from .glm import Target as Target
    from .inputs import Block as Block
    from .inputs import LabelCounts as LabelCounts
    from .inputs import Needs as Needs
    from .inputs import Randomness as Randomness
    from .inputs import Sample as Sample
    from .inputs import Shapes as Shapes
    from .inputs import ValueMoments as ValueMoments
    from .inputs import ValueSums as ValueSums
    from .kmeans import KMeans as KMeans
    from .lda import LDA as LDA
    from .loss_model import LossModel as LossModel
    from .mixture import GaussianMixture as GaussianMixture
    from .nmf import NMF as NMF
    from .pagerank import PageRank as PageRank
    from .ranking import Ranking as Ranking
    from .score import Score as Score
    from .score import Sum as Sum
    from .states.row_state import RowState as RowState
    from .states.row_state import TrainingState as TrainingState
    from .states.row_store import RowStore as RowStore
    from .states.token_state import TokenState as TokenState
    from .svd import SVD as SVD
    from .triangles import Triangles as Triangles
    from .undecided import Undecided as Undecided
    from .word_vectors import WordVectors as WordVectors
else:
    __getattr__, __dir__, __all__ = on_demand(__name__, "MODELS")
