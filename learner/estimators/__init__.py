"""The models as scikit-learn estimators: `blocklearn.GLMClassifier` and its siblings.

They need scikit-learn 1.6 or newer, as nothing else does: `pip install 'blocklearn[sklearn]'`. Data
are NumPy arrays, SciPy sparse matrices, pandas or polars frames. `fit` makes `max_iter` passes and
finds the same bits as a `Learner` of these settings whose seed is `random_state`; `partial_fit`
makes one more pass, over the rows that it is given. With `set_callbacks` of scikit-learn 1.9
callbacks hear of every pass, and one that answers True to the end of a pass makes it the last.
All have a `device`; what they learn is in NumPy arrays wherever that was, so an estimator that was
fitted on a GPU is used without one after `set_params(device="cpu")`.
"""

from .als import ALS as ALS
from .classifier import GLMClassifier as GLMClassifier
from .lda import LatentDirichletAllocation as LatentDirichletAllocation
from .nmf import NMF as NMF
from .regressor import GLMRegressor as GLMRegressor
