"""The matrix layer: a cache of containers, lazy expressions, row-wise programs.

Model code uses `MatCache`, the functions of `notation/functions.py`, and `rowwise` with `repeat`
and `until`. See docs/design.md, section 3.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

from . import devices, operations  # noqa: F401 (they enter what caches and matrices call)

if TYPE_CHECKING:
    from .containers.arrays import from_array as from_array
    from .containers.arrays import from_sparse as from_sparse
    from .containers.arrays import named as named
    from .containers.arrays import scalar as scalar
    from .containers.cache import CacheStats as CacheStats
    from .containers.cache import MatCache as MatCache
    from .containers.inputs import DenseInput as DenseInput
    from .containers.inputs import SparseInput as SparseInput
    from .containers.lazy import Triangle as Triangle
    from .containers.matrices import Mat as Mat
    from .containers.matrices import Scalar as Scalar
    from .containers.matrices import SparseMat as SparseMat
    from .containers.matrices import Tables as Tables
    from .containers.memory_plan import PlannedArray as PlannedArray
    from .containers.merge_rule import Merge as Merge
    from .cpu.processors import available_threads as available_threads
    from .devices import IndexedBy as IndexedBy
    from .devices import make_backend as make_backend
    from .devices import resolve as resolve
    from .errors import AllocationAfterWarmupError as AllocationAfterWarmupError
    from .errors import BlocklearnError as BlocklearnError
    from .errors import DeviceError as DeviceError
    from .errors import DeviceLostError as DeviceLostError
    from .errors import MemoryPlanError as MemoryPlanError
    from .errors import MissingKernelError as MissingKernelError
    from .errors import ReadDuringPlanError as ReadDuringPlanError
    from .errors import ShapeError as ShapeError
    from .errors import StaleValueError as StaleValueError
    from .errors import ThreadStartError as ThreadStartError
    from .merge import Merger as Merger
    from .merge import make_merger as make_merger
    from .merge import plan_merge as plan_merge
    from .notation.annotations import Column as Column
    from .notation.annotations import Matrix as Matrix
    from .notation.annotations import Number as Number
    from .notation.annotations import Row as Row
    from .notation.annotations import Rows as Rows
    from .notation.annotations import Sparse as Sparse
    from .notation.annotations import Table as Table
    from .notation.functions import argmax as argmax
    from .notation.functions import argmin as argmin
    from .notation.functions import argsort as argsort
    from .notation.functions import clip as clip
    from .notation.functions import colmax as colmax
    from .notation.functions import colmin as colmin
    from .notation.functions import colsum as colsum
    from .notation.functions import concatenate as concatenate
    from .notation.functions import copy as copy
    from .notation.functions import cos as cos
    from .notation.functions import digamma as digamma
    from .notation.functions import equal as equal
    from .notation.functions import exp as exp
    from .notation.functions import exppsi as exppsi
    from .notation.functions import floor as floor
    from .notation.functions import full as full
    from .notation.functions import gram as gram
    from .notation.functions import lgamma as lgamma
    from .notation.functions import log as log
    from .notation.functions import maximum as maximum
    from .notation.functions import mean as mean
    from .notation.functions import minimum as minimum
    from .notation.functions import ones_like as ones_like
    from .notation.functions import rowdot as rowdot
    from .notation.functions import rowmax as rowmax
    from .notation.functions import rowmin as rowmin
    from .notation.functions import rownnz as rownnz
    from .notation.functions import rowsum as rowsum
    from .notation.functions import sddmm as sddmm
    from .notation.functions import sigmoid as sigmoid
    from .notation.functions import sign as sign
    from .notation.functions import sin as sin
    from .notation.functions import softplus as softplus
    from .notation.functions import sort as sort
    from .notation.functions import sqrt as sqrt
    from .notation.functions import tanh as tanh
    from .notation.functions import total as total
    from .notation.functions import where as where
    from .operations.algebra import QR as QR
    from .operations.algebra import Eigen as Eigen
    from .operations.algebra import cholesky as cholesky
    from .operations.algebra import diagonal as diagonal
    from .operations.algebra import eigh as eigh
    from .operations.algebra import inverse as inverse
    from .operations.algebra import logdet as logdet
    from .operations.algebra import lower as lower
    from .operations.algebra import qr as qr
    from .operations.algebra import solve as solve
    from .operations.algebra import upper as upper
    from .operations.alias import AliasTable as AliasTable
    from .operations.alias import alias_table as alias_table
    from .operations.dense import random as random
    from .operations.draws import Draws as Draws
    from .operations.exact import ExactSum as ExactSum
    from .operations.exact import fits as fits
    from .operations.exact import grid_for as grid_for
    from .operations.gradients import Gradients as Gradients
    from .operations.gradients import grad as grad
    from .operations.kernel_text import kernel_text as kernel_text
    from .operations.local import local as local
    from .operations.local import local_table as local_table
    from .operations.masked import masked_product as masked_product
    from .operations.nonnegative import nonnegative_steps as nonnegative_steps
    from .operations.normal_equations import add_outer as add_outer
    from .operations.normal_equations import packed_columns as packed_columns
    from .operations.normal_equations import solve_rows as solve_rows
    from .operations.normal_equations import solve_sums as solve_sums
    from .operations.products import TurnedProduct as TurnedProduct
    from .operations.products import add_wide_product as add_wide_product
    from .operations.row_steps import Entries as Entries
    from .operations.row_steps import Moment as Moment
    from .operations.row_steps import Move as Move
    from .operations.row_steps import row_steps as row_steps
    from .operations.rowwise import Rowwise as Rowwise
    from .operations.rowwise import rowwise as rowwise
    from .operations.selection import take as take
    from .operations.together import together as together
    from .operations.tokens import split_tokens as split_tokens
    from .operations.top import Top as Top
    from .operations.top import top_products as top_products
    from .program.loops import repeat as repeat
    from .program.loops import until as until
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
