"""CPU launches of row-wise programs and row steps."""

from __future__ import annotations

from typing import Any

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.matrices import Mat, SparseMat
from ...containers.patterns import values_container
from ...containers.slots import PatternSlot, Slot
from ...emit.numba_wide_row_steps import row_steps_source
from ...operations.arguments import is_static, patterns_of
from ...operations.compiled import Compiled
from ...operations.row_steps import StepsCompiled, number_of
from ...program.instructions import Kind
from ..compiling.compiled import kernel_of
from ..kernels.bounds import Work, column_bounds, row_bounds


@launches("row_steps", "cpu", only_calls=True)
def _row_steps(
    cache: MatCache,
    found: StepsCompiled,
    X: SparseMat,
    fixed: list[Mat],
    given: list[Any],
    tables: list[Mat],
) -> None:
    call: list[Any] = [X.shape[0], *X.pattern.offsets(), X.slot.data()[0]]
    call += [mat.slot.data() for mat in fixed]
    call.append(found.scores.data())
    call += [a.slot.data() if isinstance(a, Mat) else number_of(a) for a in given]
    call += [found.residuals.data(), found.scratch.data()]
    call += [mat.slot.data() for mat in tables]
    call.append(found.strips.data())
    cache.backend.call(kernel_of(found, row_steps_source), *call)


@launches("rowwise", "cpu", only_calls=True)
def _rowwise(
    cache: MatCache,
    found: Compiled,
    args: tuple[Any, ...],
    slots: list[Slot],
    rows: int,
    pattern: PatternSlot | None,
) -> None:
    plan, backend = found.plan, cache.backend
    dtype = plan.program.dtype
    vectors, width = max(1, len(plan.vectors)), -(-max(1, plan.scratch_length) // 16) * 16
    scratch = cache.result(
        ("scratch", vectors, width, dtype),
        (backend.threads * vectors, width),
        dtype,
        "scratch rows of threads",
    )
    work = None if found.loops else Work(entry=found.width, row=found.width)
    if pattern is not None and plan.program.transposed:
        bounds = column_bounds(cache, pattern, work)
        active, starts, t_rows, positions = pattern.transposed()
        call: list[Any] = [starts, t_rows, active, positions]
    else:
        bounds = row_bounds(cache, rows, pattern, work)
        call = [] if pattern is None else pattern.offsets()
        call += [other.offsets()[1] for other in patterns_of(args)[1:]]
    for arg in args:
        if isinstance(arg, SparseMat):
            call.append(arg.slot.data()[0])
        elif isinstance(arg, Mat):
            call.append(arg.slot.data())
        else:
            call.append(0.0 if is_static(arg) else float(arg))
    fresh = [v for v in plan.program.returns if v.arg < 0]
    for slot, value in zip(slots, fresh, strict=True):
        call.append(slot.data()[0] if value.kind is Kind.NNZ else slot.data())
    for n, _ in enumerate(plan.hidden):
        assert pattern is not None
        key = ("hidden", pattern.guid, dtype, n)
        call.append(values_container(cache, key, pattern, dtype, "non-zeros").data()[0])
    array = scratch.data()
    call.append(array.reshape(-1 if array.size else 0, vectors, width))
    backend.run(kernel_of(found), bounds, *call)
