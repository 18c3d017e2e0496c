"""Allocate the memory of a planned replica: in one slab, in lent arrays, or apart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat

from ...files.placed_tables import PlacedTables
from ...files.spread_tables import SpreadTables
from ...files.table_files import TableFiles
from .paged_tables import check_initial, in_order, is_new, tables_of
from .program import Program

Made = dict[int, Callable[[], NDArray[Any]]]  # what makes an array, by the GUID of its container


def commit_plan(program: Program) -> None:
    """Allocate the planned memory, and give parameters their initial values."""
    files = program.files
    elsewhere = _apart(program) if files is None else _placed(program, files)
    program.cache.commit(elsewhere=elsewhere)
    with files.read_whole() if isinstance(files, TableFiles) else nullcontext():
        program.allocate()
        for name, mat in in_lent(program).items():
            mat.lie_in(program.lent.arrays[name])
        if files is not None and not files.in_order:
            rules = program.model.rules
            drawn = {name: own.drawn.rows for name, own in rules.items() if own.drawn is not None}
            files.begins_with({name: drawn[name] for name in files.tables.keys() & drawn})
        check_initial(program)
        if files is not None:
            files.renew(name for name, mat in tables_of(program).items() if not is_new(mat.slot))
    if program.complete:
        program.cache.freeze()


def _placed(program: Program, files: PlacedTables) -> Made:
    """Return what makes the arrays of tables that lie apart."""
    files.in_order = in_order(program)
    if isinstance(files, SpreadTables) and (spread := program.cache.backend.spread()) is not None:
        files.lie_on(spread, tables_of(program))
    return {
        mat.guid: partial(files.new, name, mat.shape, mat.dtype)
        for name, mat in tables_of(program).items()
    }


def _apart(program: Program) -> Made:
    """Return what makes the first arrays of parameters that take no memory.

    They will lie in lent arrays, or only training needs them. The first are zeros, which take no
    memory until they are written to.
    """
    model, found = program.model, list(in_lent(program).values())
    if program.device == "cpu" and not program.trains:
        found += [model.parameters[name] for name in model.unsaved]
    return {mat.guid: partial(np.zeros, mat.shape, mat.dtype) for mat in found}


def in_lent(program: Program) -> dict[str, Mat]:
    """Return the parameters that lie in lent arrays, by name."""
    lent = {name: (array.shape, array.dtype) for name, array in program.lent.arrays.items()}
    found = program.model.parameters.items()
    return {name: mat for name, mat in found if lent.get(name) == (mat.shape, mat.dtype)}
