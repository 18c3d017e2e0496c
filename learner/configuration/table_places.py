"""Where tables lie: the mapping that `learner.tables` takes."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import ByteSize, Discriminator, Field, Tag, model_validator

from blocklearn.matcache import Tables

from .section import Section


class TablePlaces(Section):
    """Where tables with a row for each column of the data lie, and how updates read them."""

    read: Tables = Field("float32", description="how updates read tables, see `tables`")
    device: ByteSize | None = Field(
        None,
        description="tables that need no more than this, such as `60GiB`, lie on the GPU; of "
        "larger ones, as many rows as fit, and the others in the host's memory. null: all rows lie "
        "on the GPU. The CPU ignores it",
    )
    memory: ByteSize | None = Field(
        None,
        description="tables that need no more than this, such as `100GiB`, stay in memory; of "
        "larger ones, it must hold the rows of two blocks. null: no table stays there, if there "
        "is a folder. With `device`: the most that rows on the host may take",
    )
    folder: Path | list[Path] | None = Field(
        None, description="folders of larger ones, see `table_folder`"
    )

    @model_validator(mode="after")
    def _memory_has_a_folder(self) -> Self:
        if self.memory is not None and self.folder is None and self.device is None:
            raise ValueError(
                f"memory={self.memory}: needs a folder for rows that do not fit. Set "
                "tables.folder, or memory_limit.host to limit the whole process"
            )
        if self.device is not None and self.folder is not None:
            raise ValueError(
                f"device={self.device}: must be left out beside folder: tables are either on a GPU "
                "and in memory, or in files. Leave out one of them"
            )
        return self


TablesOrPlaces = Annotated[
    Annotated[Tables, Tag("(how)")] | Annotated[TablePlaces, Tag("(where)")],
    Discriminator(lambda given: "(where)" if isinstance(given, dict | TablePlaces) else "(how)"),
]
