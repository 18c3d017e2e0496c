"""Make columns of frames with categories: a column for each value of a column of texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError
from .frames import arrow_table, column_of_numbers, names_of, numbers_of, wanted

FEW = 20  # values that any column of texts may have
MOST_WORDS = 5  # mean number of words in a value; texts have more


def features_of(frame: Any, known: Sequence[str] | None = None) -> tuple[Any, list[str]]:
    """Return the values of a frame with categories, and the names of the columns made of it.

    A column of texts becomes a column for each of its values, `country=de`, with 1 where the row
    has it. Missing texts, and values that `known` does not have, are 0 everywhere.

    known: the columns to make, in this order; None: all. The values are as those of `numbers_of`;
    with categories they are SciPy CSR float32.

    Raises:
        DataError: a column is missing, has an entry that is no number, or texts that are no
            categories.

    >>> import pandas as pd
    >>> X, names = features_of(pd.DataFrame({"size": [1.5, 2], "kind": ["b", "a"]}))
    >>> names, X.toarray().tolist()
    (['size', 'kind=a', 'kind=b'], [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0]])
    """
    names = names_of(frame)
    wanted(names, None)
    if not names:
        return numbers_of(frame, known)
    table = arrow_table(frame)
    texts = [name for name in names if is_text(table.column(name).type)]
    if known is not None:
        texts = [name for name in texts if name not in set(known)]
    if not texts:
        return numbers_of(frame, known)
    values = {name: table.column(name).cast("large_string") for name in texts}
    if known is None:
        every = [one for name in names for one in made_of(name, values.get(name))]
        made = wanted(every, None)
    else:
        can = [*names, *(one for one in known if _column(one, values) is not None)]
        made = wanted(list(dict.fromkeys(can)), known)
    return _filled(table, made, values), made


def is_text(kind: Any) -> bool:
    """Return whether an Arrow column of this type holds texts, or categories of any type."""
    from pyarrow import types

    return bool(types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind))


def made_of(name: str, texts: Any) -> list[str]:
    """Return the names of the columns that are made of the column `name`.

    texts: its values; None: it has numbers, and stays one column.
    """
    if texts is None:
        return [name]
    found = sorted(text for text in texts.unique().to_pylist() if text is not None)
    words = sum(text.count(" ") + 1 for text in found) / max(1, len(found))
    if len(found) > max(FEW, len(texts) / 2) or words > MOST_WORDS:
        raise DataError(
            f"X has {len(found):,} different texts in the {len(texts):,} rows of the column "
            f"{name!r}: must be numbers, or categories, which repeat. Leave the column out: "
            f"X.drop(columns=[{name!r}]); or learn from its words alone: train=(list(X[{name!r}]), "
            "Y)."
        )
    return [f"{name}={text}" for text in found]


def _column(made: str, values: dict[str, Any]) -> str | None:
    """Return the column of texts that `country=de` was made of; None: of none."""
    return next((name for name in values if made.startswith(f"{name}=")), None)


def _filled(table: Any, made: Sequence[str], values: dict[str, Any]) -> Any:
    """Return the columns `made` as SciPy CSR float32 [rows x columns]."""
    from pyarrow import compute

    columns = []
    for one in made:
        name = _column(one, values) if one not in table.column_names else None
        if name is None:
            found = column_of_numbers(table.column(one), one).astype(np.float32)
        else:
            same = compute.equal(values[name], one.removeprefix(f"{name}=")).fill_null(False)
            found = same.to_numpy().astype(np.float32)
        columns.append(sparse.csc_array(found[:, None]))
    return sparse.hstack(columns, format="csr")
