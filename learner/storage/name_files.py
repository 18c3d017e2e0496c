"""Files of names in a model folder, in Arrow's IPC format."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from blocklearn.datasources import Ids
from blocklearn.datasources.arrays.arrow import number_array, text_array

from ..errors import ModelFolderError


def write_names(path: Path, names: Sequence[str]) -> None:
    """Write names, one for each row or column."""
    import pyarrow as pa

    table = pa.table({"name": Ids(names).arrow})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def read_names(data: bytes) -> Ids:
    """Return the names in the contents of a file of `write_names`."""
    import pyarrow as pa

    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        return Ids(reader.read_all()["name"].combine_chunks())


def write_hashed(path: Path, names: Mapping[int, str]) -> None:
    """Write names of hashed columns by their number."""
    import pyarrow as pa

    columns = sorted(names)
    listed = text_array([names[column] for column in columns]).cast(pa.string())
    table = pa.table({"column": number_array(np.array(columns, np.int64)), "name": listed})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def read_hashed(path: Path, data: bytes) -> dict[int, str]:
    """Return names by column, from the contents of the file `path` of `write_hashed`.

    Raises `ModelFolderError` if they are damaged.
    """
    import pyarrow as pa

    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        columns, names = table["column"].cast(pa.int64()), table["name"].cast(pa.string())
    except (pa.ArrowException, KeyError) as error:
        raise ModelFolderError(f"{path}: damaged: {error}") from None
    return dict(zip(columns.to_pylist(), names.to_pylist(), strict=True))
