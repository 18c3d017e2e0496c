"""Hand rows in memory to other processes: as arrays, and as facts in JSON.

One process has read and verified the rows. The others make the same sources of them, and read
none: not to verify them, nor for sums and fingerprints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy.typing as npt

from ..arrays.accept import CSR
from .labels import Labels
from .matrix import MatrixSource
from .order import RowOrder
from .packed_names import Names, names_of, packed
from .verified import Verified, matrix_of

Arrays = Mapping[str, npt.NDArray[Any]]


class Handed(NamedTuple):
    """Sources, taken apart by `handed`.

    - facts: values for JSON.
    - arrays: by name.
    - names: of columns and rows, as the sources have them, by number. Sources share them.
    """

    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    names: list[Names]


def handed(sources: Mapping[str, MatrixSource], *, turned: Collection[str] = ()) -> Handed:
    """Take sources apart, for `received`.

    turned: names of those to take with X.T, if they are sparse; `transposed` then need not make it.

    >>> import numpy as np
    >>> source = MatrixSource(np.eye(3), targets=[0, 1, 1], names=["a", "b", "c"])
    >>> given = handed({"train": source})
    >>> sorted(given.arrays)
    ['names 0.ends', 'names 0.text', 'train.X', 'train.targets']
    >>> received(given.facts, given.arrays)["train"]
    MatrixSource(3 rows, 3 columns, dense, 1 targets, block_rows=1024, shuffle=False, seed=0)
    """
    given = Handed({"sources": {}, "names": []}, {}, [])
    for name, source in sources.items():
        found = replace(
            source.verified, fingerprint=source.fingerprint, value_sums=source.value_sums()
        )
        facts = _put(given, name, found)
        if name in turned and isinstance(found.matrix, CSR):
            facts["turned"] = _put(given, f"{name}, turned", source.transposed().verified)
        given.facts["sources"][name] = facts
    for number, names in enumerate(given.names):
        facts, arrays = packed(names)
        given.facts["names"].append(facts)
        given.arrays.update({f"names {number}.{key}": array for key, array in arrays.items()})
    return given


def received(
    facts: Mapping[str, Any], arrays: Arrays, names: Sequence[Names] | None = None
) -> dict[str, MatrixSource]:
    """Make the sources again that `handed` has taken apart. The arrays are kept, not copied.

    names: of `Handed`; None: those that the arrays have.
    """
    if names is None:
        packs = enumerate(facts["names"])
        names = [names_of(each, _below(f"names {number}", arrays)) for number, each in packs]
    sources = facts["sources"].items()
    return {
        name: MatrixSource.of_verified(_get(name, each, arrays, names)) for name, each in sources
    }


def nbytes_of(source: MatrixSource) -> int:
    """Return the bytes of a source's matrix and labels."""
    return sum(array.nbytes for array in source.verified.arrays.values())


def _put(given: Handed, name: str, rows: Verified) -> dict[str, Any]:
    """Add the arrays of rows, and return their facts."""
    given.arrays.update({f"{name}.{key}": array for key, array in rows.arrays.items()})
    labels, order = rows.labels, rows.order
    return {
        "columns": rows.columns,
        "targets": labels.columns,
        "target_names": None if labels.names is None else list(labels.names),
        "sums": labels.sums(),
        "order": [order.rows, order.block_rows, order.shuffle, order.seed],
        "keep_bytes": rows.keep_bytes,
        "fingerprint": rows.fingerprint,
        "value_sums": rows.value_sums,
        "names": _number(given.names, rows.names),
        "row_names": _number(given.names, rows.row_names),
    }


def _get(name: str, facts: Mapping[str, Any], all_: Arrays, names: Sequence[Names]) -> Verified:
    """Return the rows that `_put` has added."""
    arrays = _below(name, all_)
    matrix, targets = (matrix_of(key, arrays, facts[n]) for key, n in MATRICES.items())
    assert matrix is not None
    order, turned = RowOrder(*facts["order"]), facts.get("turned")
    weights, target_names = arrays.get("weights"), facts["target_names"]
    return Verified(
        matrix,
        Labels.verified(order.rows, targets, weights, target_names, _pair(facts["sums"])),
        order,
        names=None if facts["names"] is None else names[facts["names"]],
        row_names=None if facts["row_names"] is None else names[facts["row_names"]],
        keep_bytes=facts["keep_bytes"],
        fingerprint=facts["fingerprint"],
        value_sums=None if facts["value_sums"] is None else _pair(facts["value_sums"]),
        turned=None if turned is None else _get(f"{name}, turned", turned, all_, names),
    )


MATRICES = {"X": "columns", "targets": "targets"}
"""The facts that have the columns of each matrix."""


def _below(name: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin with `name` and a point, without these."""
    start = f"{name}."
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


def _number(known: list[Names], names: Names | None) -> int | None:
    """Return the number of `names` among those known, to which they are added."""
    if names is None:
        return None
    for number, each in enumerate(known):
        if each is names:
            return number
    known.append(names)
    return len(known) - 1


def _pair(found: Sequence[Any]) -> tuple[Any, Any]:
    """Return a pair, which is a list in JSON."""
    first, second = found
    return first, second
