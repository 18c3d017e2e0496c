"""Files of other systems, row by row: what converters read."""

from .adapters import SparseRows as SparseRows
from .adapters import TargetJoin as TargetJoin
from .adapters import Unlabelled as Unlabelled
from .detect import FORMATS as FORMATS
from .detect import find_files as find_files
from .detect import open_rows as open_rows
from .layout import FIRST as FIRST
from .layout import Known as Known
from .layout import Layout as Layout
from .layout import Place as Place
from .layout import RowFile as RowFile
from .layout import Rows as Rows
from .layout import Sparse as Sparse
from .one_hot import OneHot as OneHot
from .scratch import Scratch as Scratch
