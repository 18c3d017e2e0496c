"""Files of other systems, row by row: what converters read."""

from .detect import FORMATS as FORMATS
from .detect import find_files as find_files
from .detect import open_rows as open_rows
from .one_hot import OneHot as OneHot
from .rows import FIRST as FIRST
from .rows import Known as Known
from .rows import Layout as Layout
from .rows import Place as Place
from .rows import RowFile as RowFile
from .rows import Rows as Rows
from .rows import Sparse as Sparse
from .scratch import Scratch as Scratch
from .sparse_rows import SparseRows as SparseRows
from .target_join import TargetJoin as TargetJoin
from .unlabelled import Unlabelled as Unlabelled
