"""The keys of results in a cache, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from .slots import Slot

Key = tuple[Hashable, ...]
"""The operation, and the GUIDs and numbers that it is applied to."""


def number_key(value: float) -> tuple[str, str]:
    """Return a number as part of a key. Differs from any GUID; -0.0 differs from 0.0.

    NaN equals NaN.
    """
    return ("number", repr(float(value)))


def what_changed(key: Key, known: Mapping[Key, Slot]) -> str:
    """Say which part of a key differs from the most similar key that is known."""
    same = [k for k in known if k[0] == key[0] and len(k) == len(key)]
    if not same:
        return "This expression was not part of the warm-up: run every branch of it there."
    nearest = max(same, key=lambda k: sum(a == b for a, b in zip(k, key, strict=True)))
    part = next(n for n, (a, b) in enumerate(zip(nearest, key, strict=True)) if a != b)
    old, new = nearest[part], key[part]
    match old, new:
        case ("number", str(before)), ("number", str(after)):
            return (
                f"Operand {part} was {before} during warm-up and is {after} now: a number that "
                "changes belongs in a Scalar, whose contents are set in place. For a block's "
                "`weight` write total(block.weights)."
            )
        case int(), int():
            names = {s.guid: f" '{s.label}'" for s in known.values()}
            return (
                f"Operand {part} was the container{names.get(old, f' {old}')} during warm-up "
                f"and is{names.get(new, f' {new}')} now: assign with <<= into the old one."
            )
        case _:
            return f"Operand {part} was {old!r} during warm-up and is {new!r} now."
