"""blocklearn: mini-batch learning at the speed of the hardware.

>>> import blocklearn as bl
>>> bl.models.LDA(topics=5).topics
5

Names are imported when they are first used, so that `import blocklearn` costs nothing.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 (what pip would have said)
    raise ImportError(
        f"blocklearn needs Python 3.11 or newer, but {sys.executable} is Python "
        f"{sys.version_info[0]}.{sys.version_info[1]}."
    )

from .exports import imported as _imported
from .exports import on_demand as _on_demand

if TYPE_CHECKING:
    import scipy.sparse

    from . import datasources as datasources
    from . import matcache as matcache
    from . import mixins as mixins
    from . import models as models
    from . import optimizers as optimizers
    from .learner.checking.check_model import check_model as check_model
    from .learner.checkpoints.hook import Checkpoints as Checkpoints
    from .learner.choosing.choose import choose as choose
    from .learner.estimators import ALS as ALS
    from .learner.estimators import NMF as NMF
    from .learner.estimators import PCA as PCA
    from .learner.estimators import ConnectedComponents as ConnectedComponents
    from .learner.estimators import FMClassifier as FMClassifier
    from .learner.estimators import FMRegressor as FMRegressor
    from .learner.estimators import GaussianMixture as GaussianMixture
    from .learner.estimators import GLMClassifier as GLMClassifier
    from .learner.estimators import GLMRegressor as GLMRegressor
    from .learner.estimators import KMeans as KMeans
    from .learner.estimators import LatentDirichletAllocation as LatentDirichletAllocation
    from .learner.estimators import PageRank as PageRank
    from .learner.estimators import Ranking as Ranking
    from .learner.estimators import TriangleCount as TriangleCount
    from .learner.estimators import TruncatedSVD as TruncatedSVD
    from .learner.estimators import WordVectors as WordVectors
    from .learner.hooks import Hook as Hook
    from .learner.learner import Learner as Learner
    from .learner.page.report import write_report as write_report
    from .learner.recommendation.lists import write_lists as write_lists
    from .learner.recommendation.pairs import predict_pairs as predict_pairs
    from .learner.recommendation.ranking_evaluation import RankingEvaluation as RankingEvaluation
    from .learner.recommendation.recommend import fold_in as fold_in
    from .learner.recommendation.recommend import recommend as recommend
    from .learner.recommendation.recommend import similar_items as similar_items
    from .learner.recommendation.recommend import similar_users as similar_users
    from .learner.results.persistence import load as load
    from .learner.results.persistence import save as save
    from .learner.training.settings.evaluation import Evaluation as Evaluation
    from .learner.training.settings.progress import Progress as Progress
    from .matcache.errors import BlocklearnError as BlocklearnError
    from .models.base import Model as Model
    from .models.inputs import Block as Block
    from .models.loss_model import LossModel as LossModel
    from .models.score import Sum as Sum

__version__ = "0.1.0"

_MODULES = ("datasources", "learner", "matcache", "mixins", "models", "optimizers")
_find, __dir__, __all__ = _on_demand(__name__, *_MODULES, "sparse")

_LONGER = {
    "LDA": "LatentDirichletAllocation",
    "GLM": "GLMClassifier, GLMRegressor",
    "FM": "FMClassifier, FMRegressor",
    "SVD": "TruncatedSVD, PCA",
}
"""Models whose estimators have longer names."""

_ELSEWHERE = {
    "LatentDirichletAllocation": "LdaModel LdaMulticore OnlineLDA LDAModel",
    "GLMClassifier": "LogisticRegression SGDClassifier LinearSVC Classifier",
    "GLMRegressor": "LinearRegression SGDRegressor Ridge Lasso Regressor",
    "FMClassifier": "FactorizationMachine FFM FieldAwareFactorizationMachine",
    "ALS": "AlternatingLeastSquares MatrixFactorization",
    "KMeans": "MiniBatchKMeans",
    "GaussianMixture": "GMM BayesianGaussianMixture",
    "Ranking": "BPR BayesianPersonalizedRanking",
    "WordVectors": "Word2Vec FastText SkipGram",
    "Learner": "Trainer Model fit train",
    "sparse": "csr csr_matrix csr_array matrix",
}
"""What other libraries call the names here."""


def sparse(array: Any) -> "scipy.sparse.csr_array":
    """Return a dense or sparse matrix as a SciPy CSR array, without stored zeros.

    array: [samples x features], anything that `scipy.sparse.csr_array` accepts. Its dtype stays;
        learners compute with float32.

    Raises:
        DataError: rows have different lengths, or are texts.
    """
    from .datasources.given import SparseMatrix

    try:
        return SparseMatrix(array)
    except ValueError:
        from .datasources.given.samples import matrix_of
        from .learner.training.inputs.texts import refuse_texts

        refuse_texts(array)
        matrix_of(array)  # names the row that is longer or shorter than the first
        raise


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(f".{name}", __name__)
    if name in __all__:
        return _find(name)
    message = f"module {__name__!r} has no attribute {name!r}"
    if name in _LONGER:
        message += f"; the model is {__name__}.models.{name}, estimators: {_LONGER[name]}"
    elif not name.startswith("_"):
        message += _hint(name)
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def _hint(name: str) -> str:
    """Return where a name may be found: in a package below, or under another name."""
    from .synonyms import nearest

    for package in ("models", "optimizers", "mixins", "datasources"):
        if hasattr(import_module(f".{package}", __name__), name):
            return f"; did you mean {__name__}.{package}.{name}?"
    found = next((here for here, names in _ELSEWHERE.items() if name in names.split()), None)
    found = found or nearest(name, __all__)
    return f"; did you mean {__name__}.{found}?" if found else ""
