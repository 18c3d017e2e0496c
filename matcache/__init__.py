"""The matrix layer: containers found again by GUID, lazy expressions, row-wise programs, kernels.

What model code uses: `MatCache`, the functions of `functions.py`, `rowwise` with `repeat` and
`until`. See docs/design.md, section 3.
"""

from .cache import CacheStats as CacheStats
from .cache import MatCache as MatCache
from .cache import PlannedArray as PlannedArray
from .create import DenseInput as DenseInput
from .create import SparseInput as SparseInput
from .create import from_array as from_array
from .create import from_sparse as from_sparse
from .create import named as named
from .create import random as random
from .create import scalar as scalar
from .errors import AllocationAfterWarmupError as AllocationAfterWarmupError
from .errors import BlocklearnError as BlocklearnError
from .errors import MemoryPlanError as MemoryPlanError
from .errors import ReadDuringPlanError as ReadDuringPlanError
from .errors import ShapeError as ShapeError
from .errors import StaleValueError as StaleValueError
from .functions import clip as clip
from .functions import colsum as colsum
from .functions import copy as copy
from .functions import digamma as digamma
from .functions import equal as equal
from .functions import exp as exp
from .functions import exppsi as exppsi
from .functions import gram as gram
from .functions import lgamma as lgamma
from .functions import log as log
from .functions import maximum as maximum
from .functions import minimum as minimum
from .functions import rowdot as rowdot
from .functions import rowmax as rowmax
from .functions import rowmin as rowmin
from .functions import rownnz as rownnz
from .functions import rowsum as rowsum
from .functions import sddmm as sddmm
from .functions import sigmoid as sigmoid
from .functions import sign as sign
from .functions import softplus as softplus
from .functions import sort as sort
from .functions import sqrt as sqrt
from .functions import total as total
from .functions import where as where
from .lazy import Mat as Mat
from .lazy import Scalar as Scalar
from .lazy import SparseMat as SparseMat
from .merge import Merge as Merge
from .merge import Merger as Merger
from .normal_equations import add_outer as add_outer
from .normal_equations import packed_columns as packed_columns
from .normal_equations import solve_rows as solve_rows
from .normal_equations import solve_sums as solve_sums
from .processors import available_threads as available_threads
from .row_steps import Entries as Entries
from .row_steps import Moment as Moment
from .row_steps import Move as Move
from .row_steps import row_steps as row_steps
from .rowwise import Rowwise as Rowwise
from .rowwise import rowwise as rowwise
from .tokens import split_tokens as split_tokens
from .top import Top as Top
from .top import top_products as top_products
from .trace import repeat as repeat
from .trace import until as until
