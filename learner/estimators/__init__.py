"""The models as scikit-learn estimators: `blocklearn.GLMClassifier` and its siblings.

They need scikit-learn 1.6 or newer: `pip install 'blocklearn[sklearn]'`. No other part of the
package does. Data are NumPy arrays, SciPy sparse matrices, pandas or polars frames.

`fit` makes `max_iter` passes. It finds the same bits as a `Learner` with these settings and
`seed=random_state`. `partial_fit` makes one more pass, over the rows that it is given.

With scikit-learn 1.9 or newer, `set_callbacks` registers callbacks that are called at every pass. A
callback that returns True at the end of a pass makes that pass the last.

Every estimator has a `device`. Learned attributes are NumPy arrays on every device. An estimator
fitted on a GPU therefore predicts without one after `set_params(device="cpu")`.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .graphs.components import ConnectedComponents as ConnectedComponents
    from .graphs.pagerank import PageRank as PageRank
    from .graphs.triangles import TriangleCount as TriangleCount
    from .linear.classifier import GLMClassifier as GLMClassifier
    from .linear.machines import FMClassifier as FMClassifier
    from .linear.machines import FMRegressor as FMRegressor
    from .linear.regressor import GLMRegressor as GLMRegressor
    from .recommenders.als import ALS as ALS
    from .recommenders.ranking import Ranking as Ranking
    from .unsupervised.kmeans import KMeans as KMeans
    from .unsupervised.lda import LatentDirichletAllocation as LatentDirichletAllocation
    from .unsupervised.mixture import GaussianMixture as GaussianMixture
    from .unsupervised.nmf import NMF as NMF
    from .unsupervised.svd import PCA as PCA
    from .unsupervised.svd import TruncatedSVD as TruncatedSVD
    from .unsupervised.word_vectors import WordVectors as WordVectors
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
