"""Plan the memory and the kernels of a program: run it on shapes, before any data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from blocklearn.datasources import MatrixSource
from blocklearn.matcache import ReadDuringPlanError, ShapeError
from blocklearn.matcache.containers.recording import Recording
from blocklearn.models import Block, Model

from ...files.spread_tables import SpreadTables
from ..settings.checks import check_repeats, computed
from ..settings.devices import Kept, fixed_bytes
from ..settings.optimizer_checks import check_step, check_updates, versions
from .block_input import Use
from .noted import Rehearsal
from .paged_tables import of_rows, tables_of
from .program import Program

Planned = TypeVar("Planned", bound=Program)

log = logging.getLogger("blocklearn.learner")

Scored = Literal["soon", "later", "never"]
"""When blocks are scored: the first one of training, or data after a pass; later; or never. If
never, nothing is predicted either."""


def plan_program(program: Program, *, scores: Scored) -> None:
    """Run the whole program on shapes: the cache notes the arrays and kernels it needs.

    Kernels that the first block does not need are compiled when they are first called. If the plan
    is not `complete`, the first block allocates the rest.
    """
    program.allocate()
    parts: list[Callable[[Program], None]] = []
    if scores != "never":
        parts = [partial(_plan_scores, soon=scores == "soon"), _plan_predictions]
    if program.trains:
        parts = [_plan_pass, *parts, _plan_phases]
    for part in parts:
        try:
            part(program)
        except ReadDuringPlanError as error:
            if program.complete:
                text = "the memory plan is incomplete, the first block allocates the rest: %s"
                log.warning(text, error)
            program.complete = False
            for intake in program.intakes:
                intake.note_all()
    by_size = not program.model.recorded or program.reads.keys() & {"rows", "weight"}
    if program.complete and by_size:  # else blocks that are not full launch the same
        with program.cache.seal(), program.cache.backend.later():
            _try_partial(program, scores=scores)


def noting(program: Program, block: Block) -> Block:
    """Return the same block, which notes what is read of its numbers."""
    return Rehearsal.of(block, program.cache, program.reads) if program.model.recorded else block


def _plan_pass(program: Program) -> None:
    for intake in program.trained:
        runs, before = (Recording(), Recording()), versions(program.optimizer)
        for run in runs:
            _plan_update(program, intake.blank(program.key), run)
        check_repeats(program.model, *runs)
        check_step(program.model, program.optimizer, before)
    program.end_pass()
    _note_tables(program)
    _note(program, "train")


def _plan_update(program: Program, block: Block, record: Recording | None = None) -> None:
    program.rehearse(block, record)
    updates = program.model.updates.items()
    program.whole |= {name for name, update in updates if not of_rows(update)}


@contextmanager
def _leaving_parameters(model: Model, method: str) -> Iterator[None]:
    """Raise ShapeError if a parameter is assigned to within this `with` block."""
    before = {name: mat.slot.version for name, mat in model.parameters.items()}
    yield
    changed = [name for name, was in before.items() if model.parameters[name].slot.version != was]
    if changed:
        raise ShapeError(
            f"{type(model).__name__}.{method}: assigns to the parameter {changed[0]!r}, so an "
            "evaluation would change the training. Only `update` may: here write to a scratch "
            "matrix, or use the expression."
        )


def _plan_scores(program: Program, *, soon: bool) -> None:
    program.scores_of_mixins()
    blank = program.intakes[0].blank(program.key)
    later = nullcontext() if soon else program.cache.backend.later()
    with later, _leaving_parameters(program.model, "score"):
        computed(program.score(noting(program, blank)))
        if program.model.has_resting_rows:
            computed(program.score(noting(program, replace(blank, resting=True))))
    _note_tables(program)
    _note(program, "score")


def _note_tables(program: Program) -> None:
    """Note the states of rows that were read as tables so far."""
    states = program.model.states
    program.row_tables = {name for name, state in states.items() if state.is_table}


def _plan_predictions(program: Program) -> None:
    with program.cache.backend.later() if program.trains else nullcontext():
        for intake in program.intakes:
            with _leaving_parameters(program.model, "predict"):
                blank = noting(program, intake.blank(program.key))
                program.predict(blank).mat()  # it will be read
    _note(program, "predict")


def _plan_phases(program: Program) -> None:
    """Plan the updates of each phase again: the end of a pass may leave work for the next."""
    for phase, start in enumerate(program.model.phases()):
        if not phase and program.complete and not program.ends_change:
            continue
        with program.cache.backend.later() if phase else nullcontext():
            for intake in program.trained:
                _plan_update(program, intake.blank(program.key, start, phase))
        _note(program, "train", phase)
    check_updates(program.model, program.optimizer, program.filled)


def _try_partial(program: Program, *, scores: Scored) -> None:
    """Run the program with blocks that are not full: it must need no more memory."""
    for phase, start in enumerate(program.model.phases()):
        for intake in program.trained:
            program.rehearse(intake.blank(program.key, start, phase, full=False))
    if scores == "never":
        return
    computed(program.score(program.intakes[0].blank(program.key, full=False)))
    for intake in program.intakes:
        program.predict(intake.blank(program.key, full=False)).mat()


def plan_extras(program: Planned, extras: Sequence[Callable[[Planned], None]]) -> set[str]:
    """Plan computations beside training; return the labels of their arrays."""
    if not extras:
        return set()
    before = _labels(program)
    for plan in extras:
        plan(program)
    return _labels(program) - before


def plan_kept(program: Program, kept: Kept, *, alone: bool) -> set[str]:
    """Plan what stays on a device: states of rows, then data; return the labels of its arrays.

    alone: whether no other replica changes the states.
    """
    cache, backend = program.cache, program.cache.backend
    if backend.free_bytes is None:
        return set()
    before = _labels(program)
    planned = sum(array.nbytes for array in cache.plan())
    if isinstance(program.files, SpreadTables):
        planned -= program.files.far_bytes(tables_of(program))
    left = kept.limit(backend.free_bytes - planned)
    for state in program.model.states.values():
        if alone and state.held_bytes <= left:
            left -= state.held_bytes
            state.hold()
    first = program.intakes[0]
    indexed = "score" in first.indexed_for
    blocks = fixed_bytes(kept.eval, indexed=indexed, nnz=first.shape.nnz)
    for intake, source in zip(program.trained, kept.training, strict=False):
        indexed = "train" in intake.indexed_for
        fixed = fixed_bytes(source, indexed=indexed, nnz=intake.shape.nnz)
        blocks += fixed
        if kept.rows:
            left -= intake.hold(source, left, features=not fixed)
    if room := min(blocks, left):
        backend.keep_blocks(cache, room)
    return _labels(program) - before


def plan_host(program: Program, kept: Kept) -> None:
    """Note what readers and scores call on the host, to be compiled with the kernels of the plan.

    kept: has the data of training and of scores.
    """
    calls: list[tuple[Any, ...]] = []
    read = [
        (source, intake, "train")
        for source, intake in zip(kept.training, program.trained, strict=False)
    ]
    if kept.eval is not None:
        read.append((kept.eval, program.intakes[0], "score"))
        calls += [call for score in program.model.data_scores() for call in score.calls()]
    for source, intake, use in read:
        if isinstance(source, MatrixSource):
            calls += source.reading_calls(indexed=use in intake.indexed_for)
    program.cache.backend.prepare(calls)


def _labels(program: Program) -> set[str]:
    return {array.label for array in program.cache.plan()}


def _note(program: Program, use: Use, phase: int = 0) -> None:
    for intake in program.intakes:
        intake.note(use, phase)
