"""The promises of a model, one check each. `CHECKS` has their order: what finds most comes first.

A check returns True, or what is wrong; False where it says nothing of the model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DivergedError
from ..results.persistence import load, save
from .gradients import wrong_gradient
from .runs import Case, first_difference, results
from .sample import SampleSource, in_blocks, sizes_of

Check = Callable[[Case], str | bool]

NEAR = 1e-3
"""Of the largest number of an array: how far rounding may move its numbers where sums are made in
another order."""

NOT_ZERO = "Divide by what cannot be 0, such as maximum(count, 1.0)."


def check_training(case: Case) -> str | bool:
    """Check that the model trains."""
    return bool(case.whole.digests)


def check_python(case: Case) -> str | bool:
    """`update` keeps nothing in Python."""
    for name, (pass_, block) in case.whole.changed.items():
        return (
            f"attribute self.{name} changed in block {block - 1} of pass {pass_}: must stay what "
            "allocate() made it. No checkpoint holds it, and replicas do not merge it. Keep it in "
            "a parameter (self.steps <<= self.steps + 1.0)."
        )
    return True


def check_repeats(case: Case) -> str | bool:
    """Two runs give the same bits."""
    if case.together is None:
        return True
    found = first_difference(case.whole, case.traced())
    if found is not None:
        return (
            f"{found}: must have the same bits in every run. Draw random numbers with rng in "
            "allocate(), and with random(self.cache, shape, block.key) in update(), not with "
            "NumPy."
        )
    return True


def check_recorded(case: Case) -> str | bool:
    """Blocks that repeat the launches of earlier ones have the bits of calling `update`."""
    if case.together is None:
        return True
    found = first_difference(case.whole, case.called.traced())
    if found is not None:
        return (
            f"{found}: must have the same bits if `update` is called for every block, and if its "
            "launches are repeated. Let update() depend on the block and on matrices only, or set "
            "`recorded = False` in the class."
        )
    return True


def check_threads(case: Case) -> str | bool:
    """1, 2 and 8 threads give the same bits."""
    if case.together is None:
        return True
    for threads in (2, 8):
        found = first_difference(case.whole, case.traced(threads=threads))
        if found is not None:
            return (
                f"{found}: must have the same bits with {threads} threads and with one. Compute "
                "with functions of blocklearn.matcache, and read no number of threads."
            )
    return True


def check_allocation(case: Case) -> str | bool:
    """Training allocates nothing once it is warm."""
    count = case.whole.allocations
    if count:
        return (
            f"allocations={count} after the first block of pass 0: must "
            "be 0. Make matrices in allocate(), and set numbers that change with "
            "self.number(name).set(value)."
        )
    return True


def check_resume(case: Case) -> str | bool:
    """Check that a run that stops within a pass and resumes ends with the same bits."""
    if case.together is None:
        return True
    for (pass_, block), state in case.whole.states.items():
        found = first_difference(case.whole, case.traced(state=state))
        if found is not None:
            return (
                f"{found}, resumed after block {block - 1} of pass {pass_}: must have the same "
                "bits as without the stop. What lasts from block to block is a parameter "
                "(self.parameter(..., saved=False) if only training needs it), not scratch and no "
                "attribute."
            )
    return (
        f"{case.together}, resumed with 8 threads, or with 2 threads where `update` is called for "
        "every block: must have the same bits as in a whole run with one thread."
    )


def check_folder(case: Case) -> str | bool:
    """Check that a loaded model has the parameters, predictions and scores of the saved one."""
    learner = case.learner(mixins=()).fit()  # a folder holds none
    with tempfile.TemporaryDirectory() as folder:
        save(learner, Path(folder) / "model")
        loaded = load(Path(folder) / "model", type(case.model), threads=1)
        if loaded.model != learner.model:
            return (
                f"fields {loaded.model!r}: must be those that were saved, {learner.model!r}. Let "
                "validators leave alone what model_dump(mode='json') gives."
            )
        expected, again = (dict(results(one, case.source)) for one in (learner, loaded))
        unsaved = {f"parameter {name!r}" for name in learner.model.unsaved}
        for name in sorted(expected.keys() - unsaved):
            if name not in again or again[name].tobytes() != expected[name].tobytes():
                return (
                    f"{name} of the model that was saved and loaded: must have the same bits as "
                    "before. What score() and predict() read is a saved parameter, a field, or "
                    "follows from these in allocate()."
                )
        loaded.close()
    learner.close()
    return True


def check_replicas(case: Case) -> str | bool:
    """Two replicas give the same bits in every run, resumed or not."""
    if case.optimizer is not None and case.optimizer.keeps_rows:
        return False  # it takes one replica
    options: dict[str, Any] = {"replicas": 2, "threads": 2, "sync_every": 1, "sync_weight": 0.7}
    whole = case.traced([(0, 2)], **options)
    state = next(iter(whole.states.values()), None)
    resumed = first_difference(whole, case.traced(state=state, **options))
    if resumed is None:
        return True
    found = first_difference(whole, case.traced(**options))
    return (
        f"{found or f'{resumed}, resumed in the middle of a pass'}: must have the same bits in "
        "every run with two replicas. Replicas are copies of the model: let them share no mutable "
        "field or class attribute."
    )


def check_padding(case: Case) -> str | bool:
    """Rows that fill up a block change nothing: blocks of more padding have the same results."""
    rows = case.block_rows
    sizes = sizes_of(case.sample.rows, rows)
    wide = in_blocks(case.sample, sizes, 2 * rows + 3)
    one, other = (_results(case, source, passes=1) for source in (case.source, wide))
    for name, numbers in one.items():
        if numbers.shape == other[name].shape and not _close(numbers, other[name]):
            place = np.unravel_index(np.argmax(np.abs(numbers - other[name])), numbers.shape)
            where = ", ".join(map(str, map(int, place)))
            return (
                f"{name}[{where}]={other[name][place]:g} after pass 0 in blocks with "
                f"{wide.shape.rows - rows} padding rows: must be {numbers[place]:g}, as in blocks "
                f"without padding (but for the last block, {len(sizes) - 1}). Multiply what is "
                "summed over rows by block.weights, and divide by block.weight, not by the rows "
                "of a block."
            )
    return True


def check_empty_block(case: Case) -> str | bool:
    """Check that a block whose rows have no entries leaves all numbers finite."""
    rows = case.block_rows
    emptied = case.sample.emptied(rows, 2 * rows)
    source = in_blocks(emptied, sizes_of(emptied.rows, rows), rows)
    return _finite(case, source, "block 1 has no entries in any row")


def check_single_row(case: Case) -> str | bool:
    """Check that a last block of one row leaves all numbers finite."""
    rows = case.block_rows
    sample = case.sample.first(2 * rows + 1)
    source = in_blocks(sample, sizes_of(sample.rows, rows), rows)
    return _finite(case, source, "the last block has one row")


def check_gradients(case: Case) -> str | bool:
    """Gradients are those of the loss; see `check_model` for which that is."""
    found = wrong_gradient(case)
    if isinstance(found, bool):
        return found
    if found is not None:
        return (
            f"updates of parameter {found.parameter!r} in block 0: slope={found.given:.6g}: must "
            f"be {found.found:.6g}, the slope of the block's mean loss in the same direction. "
            "Hand over the derivative of the weighted mean, sum(w_i loss_i) / block.weight."
        )
    return True


CHECKS: dict[str, Check] = {
    "training": check_training,
    "python": check_python,
    "repeats": check_repeats,
    "recorded": check_recorded,
    "threads": check_threads,
    "allocation": check_allocation,
    "resume": check_resume,
    "folder": check_folder,
    "replicas": check_replicas,
    "padding": check_padding,
    "empty block": check_empty_block,
    "single row": check_single_row,
    "gradients": check_gradients,
}
"""By the names that messages give them."""


def _results(case: Case, source: SampleSource, **options: Any) -> dict[str, Any]:
    learner = case.learner(source, **options).fit()
    found = {name: np.array(numbers) for name, numbers in results(learner, source)}
    learner.close()
    return found


def _close(one: Any, other: Any) -> bool:
    largest = float(np.max(np.abs(one), initial=0.0))
    return bool(np.allclose(one, other, rtol=NEAR, atol=NEAR * largest, equal_nan=True))


def _finite(case: Case, source: SampleSource, where: str) -> str | bool:
    """Check that two passes over `source` leave all numbers finite."""
    try:
        found = _results(case, source, passes=2)
    except DivergedError as error:
        return f"{where}: must leave all numbers finite. {NOT_ZERO} ({error})"
    for name, numbers in found.items():
        bad = np.argwhere(~np.isfinite(numbers))
        if len(bad):
            value, index = numbers[tuple(bad[0])], ", ".join(map(str, bad[0]))
            return f"{name}[{index}]={value} where {where}: must be finite. {NOT_ZERO}"
    return True
