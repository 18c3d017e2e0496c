"""Sources that one process takes apart are the same in another, which reads no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from blocklearn.datasources import HashedWords, Ids, MatrixSource
from blocklearn.datasources.memory.handed import handed, received


def apart(source: MatrixSource) -> MatrixSource:
    """The source as another process makes it, with arrays that have other memory."""
    given = handed({"train": source})
    arrays = {name: array.copy() for name, array in given.arrays.items()}
    return received(given.facts, arrays)["train"]


def of(X: Any, **labels: Any) -> MatrixSource:
    return MatrixSource(X, block_rows=2, shuffle="blocks", seed=3, **labels)


@pytest.mark.parametrize("values", [np.float32, np.float64, np.int8, bool])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_sources_are_the_same_elsewhere(form: Any, values: Any) -> None:
    X = form(np.arange(15).reshape(5, 3) % 4 == 1).astype(values)
    labels = [
        {},
        {"targets": np.arange(10.0).reshape(5, 2), "target_names": ["a", "b"]},
        {"targets": sparse.csr_array(np.eye(5)), "weights": np.arange(5)},
    ]
    for given in labels:
        source = of(X, **given)
        found = apart(source)
        assert repr(found) == repr(source) and found.shape == source.shape
        assert found.fingerprint == source.fingerprint == of(X, **given).fingerprint
        assert found.value_sums() == source.value_sums()
        assert found.label_sums() == source.label_sums()
        assert found.target_names == source.target_names
        assert found.without_targets().label_sums() == source.without_targets().label_sums()
        assert np.array_equal(found.entries(np.arange(5)).todense(), X.todense()
                              if sparse.issparse(X) else X)  # fmt: skip


def test_others_read_no_rows() -> None:
    """Not to verify them, nor for fingerprints and sums, nor to transpose them."""
    X = sparse.csr_array(np.eye(4, 3, dtype=np.float32))
    source = of(X, targets=np.ones(4), names=["a", "b", "c"])
    given = handed({"train": source, "eval": source}, turned=["eval"])
    assert not any(name.startswith("train, turned") for name in given.arrays)
    for array in given.arrays.values():
        if array.dtype.kind == "f":
            array[:] = np.nan  # a reader would find it
    found = received(given.facts, given.arrays)["eval"]
    assert found.fingerprint == source.fingerprint
    assert found.value_sums() == (3.0, 3) and found.label_sums() == (4.0, [4.0])
    across = found.transposed()
    assert np.isnan(across.verified.arrays["X.values"]).all()
    assert across.row_names == ["a", "b", "c"] and across.shape.total_rows == 3
    assert across is not found.transposed()  # each keeps blocks of its own


@pytest.mark.parametrize(
    "names",
    [
        ["b", "", "Zoë"],
        ["b", "bad\udcff", "a"],
        Ids(["x", "a", "b", "c", "y"]).take(np.array([1, 2, 3])),
        Ids(Ids(["x", "a", "b", "c", "y"]).arrow.slice(1, 3)),
        HashedWords(1, ["price"], {1: "city=Rome"}),
    ],
    ids=["list", "no text", "ids", "part of ids", "hashed"],
)
def test_names_are_the_same_elsewhere(names: Any) -> None:
    source = of(np.eye(3), names=names, row_names=names)
    found = apart(source)
    assert found.names is not None and list(found.names) == list(names)
    assert found.names == names or isinstance(names, list)
    assert found.row_names is found.names
    if isinstance(names, HashedWords):
        assert isinstance(found.names, HashedWords) and found.names.seen == names.seen
