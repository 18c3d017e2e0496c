"""Refuse texts and dates where a matrix is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blocklearn.datasources import DataError

DATES = ("date", "time", "duration", "period")  # how names of types of dates begin, in any case
FILE_OF_TEXTS = "give them to a learner: blocklearn.Learner('lda', texts)"


def refuse_texts(X: Any) -> None:
    """Raise DataError if X holds texts, split into words or not, or dates.

    They may be in a list, an array, a series, a column of a frame or an iterator.
    """
    refuse_dates(X)
    what, vectorizer, texts = "texts", "CountVectorizer()", "texts"
    other = FILE_OF_TEXTS
    if isinstance(X, Iterator):
        raise DataError(
            f"X is a {type(X).__name__}, and must be a matrix, rows x columns. Batches from an "
            "iterator are data of blocklearn.datasources.IterableSource."
        )
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        found = text_column(X)
        if found is None:
            return
        name, text = found
        what, texts = f"texts in column {name!r}", f"X[{name!r}]"
        other = "make columns of categories with OneHotEncoder"
    else:
        text = first_text(X)
        if isinstance(text, list | tuple) and text and isinstance(text[0], str):
            what, vectorizer = "texts, split into words", "CountVectorizer(analyzer=list)"
            text = " ".join(map(str, text[:10]))
    if isinstance(text, str | bytes):
        raise DataError(
            f"X has {what} ({text[:40]!r} ...), and must be a matrix, rows x columns. Count their "
            f"words: X = sklearn.feature_extraction.text.{vectorizer}.fit_transform({texts}), or "
            f"{other}"
        )


def refuse_dates(X: Any) -> None:
    """Raise DataError if X, or a column of a frame, has dates or times."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        columns = [(f" in column {name!r}", t) for name, t in zip(X.columns, X.dtypes, strict=True)]
    else:
        columns = [("", X.dtype)] if hasattr(X, "dtype") else []
    for place, dtype in columns:
        if str(dtype).lower().startswith(DATES):
            raise DataError(
                f"X has dates or times{place} ({dtype}): must be numbers. Make numbers of them, "
                "such as the month, or leave them out."
            )


def first_text(values: Any) -> Any:
    """Return the first text or list in a list, a series or an array [n], or None.

    A text is its own first text.
    """
    if isinstance(values, str | bytes):
        return values
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, list | tuple | np.ndarray) or np.ndim(values[:0]) > 1:
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OSU":
        return None
    return next((value for value in values if isinstance(value, str | bytes | list | tuple)), None)


def text_column(frame: Any) -> tuple[Any, str] | None:
    """Return the first column of a frame that holds no numbers, and its first value."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if str(dtype).lower().startswith(("object", "str", "categor", "enum")):
            first = first_text(frame[name])
            try:
                float(first)
            except ValueError:
                return name, first
            except TypeError:
                continue
    return None
