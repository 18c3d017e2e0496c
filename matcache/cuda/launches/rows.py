"""CUDA launches of row-wise programs and row steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.lazy import Lazy
from ...containers.matrices import Mat, SparseMat
from ...containers.patterns import values_container
from ...containers.slots import PatternSlot, Slot
from ...emit.cuda_row_steps import row_steps_source
from ...emit.cuda_rows import rowwise_source
from ...operations.arguments import is_static, patterns_of
from ...operations.compiled import Compiled
from ...operations.row_steps import StepsCompiled, number_of
from ..order import active_count, apart, has_teams, length_order, team_blocks
from .common import WARPS, c_type

WIDE = 8  # least vector length at which sorting rows by length pays


@launches("rowwise", "cuda")
def _rowwise(
    cache: MatCache,
    found: Compiled,
    args: tuple[Any, ...],
    slots: list[Slot],
    rows: int,
    pattern: PatternSlot | None,
) -> None:
    plan, backend = found.plan, cache.backend
    dtype = np.dtype(plan.program.dtype)
    types = tuple(c_type(a.dtype if isinstance(a, Lazy) else dtype) for a in args)
    transposed = pattern is not None and bool(plan.program.transposed)
    order: list[Any] = []
    blocks = 0  # of threads, for long rows
    by_length = pattern is not None and (found.entry_loops or found.width >= WIDE)
    if pattern is not None and by_length:
        blocks = apart(pattern, backend.processors)
        order = [*length_order(cache, pattern, by_column=transposed), blocks]

    def text_of(*, teams: bool) -> Any:
        def source() -> str:
            return rowwise_source(plan, types, ordered=by_length, teams=teams)

        return backend.text(("rowwise", found, types, teams), source)

    text, shared = text_of(teams=False), None
    if pattern is not None and by_length and has_teams(pattern, by_column=transposed):
        shared = text_of(teams=True)
    hidden: list[Slot] = []
    for n, _ in enumerate(plan.hidden):
        assert pattern is not None
        key = ("hidden", pattern.guid, plan.program.dtype, n)
        hidden.append(values_container(cache, key, pattern, dtype, "non-zeros"))
    if cache.reserving:
        return
    call: list[Any]
    if pattern is not None and transposed:
        active, starts, t_rows, positions = turned(cache, pattern)
        call = [active_count(pattern), *order, starts, t_rows, active, positions]
        rows = pattern.columns
    else:
        call = [rows, *order, *(() if pattern is None else pattern.offsets())]
        call += [other.offsets()[1] for other in patterns_of(args)[1:]]
    for arg in args:
        if isinstance(arg, Mat):
            call.append(arg.slot.array)
        else:
            call.append(dtype.type(0.0 if is_static(arg) else float(arg)))
    call += [slot.array for slot in (*slots, *hidden)]
    if shared is not None:
        backend.launch_blocks(shared, team_blocks(backend.processors), *call)
    backend.launch(text, rows + WARPS * blocks, WARPS, *call)


@launches("row_steps", "cuda")
def _row_steps(
    cache: MatCache,
    found: StepsCompiled,
    X: SparseMat,
    fixed: list[Mat],
    given: list[Any],
    tables: list[Mat],
) -> None:
    plan, own = found.plan, np.dtype(found.plan.dtype).type
    names = ["weights", "rate_", "pace", "clock_", *(["seen"] if plan.seen else [])]
    arrays = [*plan.step.arrays(), *([] if plan.bias is None else plan.bias.arrays())]
    named = {"values": X, **dict(zip(names, fixed, strict=True))}
    named |= {f"a{n}": arg for n, arg in enumerate(given, 1) if isinstance(arg, Mat)}
    named |= dict(zip(arrays, tables, strict=True))
    types = {name: c_type(mat.dtype) for name, mat in named.items()}
    facts = (found, *sorted(types.items()))
    text = cache.backend.text(("row_steps", *facts), lambda: row_steps_source(plan, types))
    if cache.reserving:
        return
    call: list[Any] = [X.shape[0], *X.pattern.offsets(), X.slot.array]
    call += [mat.slot.array for mat in fixed]
    call.append(found.scores.array)
    call += [a.slot.array if isinstance(a, Mat) else own(number_of(a)) for a in given]
    call += [found.residuals.array, *(mat.slot.array for mat in tables)]
    cache.backend.launch_blocks(text, 1, *call, found.strips.shape[1], found.strips.array)
