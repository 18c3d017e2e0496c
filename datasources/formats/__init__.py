"""Read files of other systems row by row, for converters."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from ..parsing.layout import FIRST as FIRST
    from ..parsing.layout import Known as Known
    from ..parsing.layout import Layout as Layout
    from ..parsing.layout import Place as Place
    from ..parsing.layout import RowFile as RowFile
    from ..parsing.layout import Rows as Rows
    from ..parsing.layout import Sparse as Sparse
    from ..parsing.scratch import Scratch as Scratch
    from .adapters import SparseRows as SparseRows
    from .adapters import TargetJoin as TargetJoin
    from .adapters import Unlabelled as Unlabelled
    from .detect import FORMATS as FORMATS
    from .detect import find_files as find_files
    from .detect import open_rows as open_rows
    from .one_hot import OneHot as OneHot
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
