"""Read Vowpal Wabbit text: `label importance base 'tag|namespace:2 feature:0.5`.

https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Input-format
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import DataError
from ..parsing.layout import FIRST, UNKNOWN, Known, Layout, Place, Rows
from ..parsing.lines import Lines, line_chunks, text_lines
from ..parsing.numbers import NUMBER, TOO_LARGE, parse_float32
from ..parsing.scratch import Scratch
from .bags import Bags
from .vocabulary import Limits, Vocabulary, choose_words

BASED = "bases (predictions to start from) are left out"


class VowpalWabbitRows:
    """Reads examples as sparse rows, weighted by importance, named by tag or line.

    A feature is named `namespace^feature`, or `feature` in the namespace without a name. Values of
    the same feature are added. Features without a name are named `:0`, `:1`, ... in each namespace,
    as Vowpal Wabbit counts them. A base (the prediction to start from) is left out, with a remark.
    The target is the label; all examples must have one, or none. Hashes differ from Vowpal
    Wabbit's. min_df, max_df, hash_bits: see `Limits`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        known: Known | None = None,
        *,
        min_df: int = 1,
        max_df: float = 1.0,
        hash_bits: int | None = None,
    ) -> None:
        """Find the features."""
        self._paths, self._scratch = paths, scratch
        first = next((x for chunk in line_chunks(paths, scratch) for _, x in examples(chunk)), None)
        if first is None:
            raise DataError(f"{paths[0]}: has no examples.")
        found = choose_words(
            paths[0],
            (
                (1, set(example.features))
                for chunk in line_chunks(paths, scratch)
                for _, example in examples(chunk)
            ),
            scratch,
            known,
            Limits(min_df, max_df, hash_bits),
        )
        self._vocabulary = Vocabulary(found)
        targets = 0 if first.label is None else 1
        self.layout = Layout(len(found), names=found, targets=targets, weighted=True, named=True)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        bags = Bags(self._vocabulary)
        for chunk in line_chunks(self._paths, self._scratch, start):
            labels: list[float] = []
            weights, names, based = [], [], 0
            for line, example in examples(chunk):
                if (example.label is not None) != bool(self.layout.targets):
                    here, first = ("a", "no") if self.layout.targets == 0 else ("no", "a")
                    raise DataError(
                        f"{chunk.path}:{line}: {here} label, but the first example has {first} "
                        "label; either all must have one or none."
                    )
                labels += [] if example.label is None else [example.label]
                based += example.base != 0.0
                weights.append(example.importance)
                names.append(example.tag or f"{chunk.path.name}:{line}")
                bags.add(example.features, example.values)
            targets = np.array(labels, np.float32).reshape(-1, 1) if self.layout.targets else None
            X, unknown = bags.take()
            remarks = {UNKNOWN: unknown.size} if unknown.size else {}
            if based:
                remarks[BASED] = based
            yield Rows(X, chunk.next, targets, np.array(weights, np.float32), names, remarks)


class Example(NamedTuple):
    """One line.

    label: None if it has none.
    importance: weight of the row.
    base: the prediction to start from.
    """

    label: float | None
    importance: float
    tag: str
    features: list[str]
    values: list[float]
    base: float = 0.0


def examples(chunk: Lines) -> Iterator[tuple[int, Example]]:
    """Yield line number and contents of every example.

    Raises `DataError` naming the line.
    """
    for number, line in text_lines(chunk):
        try:
            if line.strip():
                yield number, parse_example(line)
        except ValueError as error:
            raise DataError(f"{chunk.path}:{number}: {error}.") from None


def parse_example(line: str) -> Example:
    """Parse a line. Raises `ValueError` for an invalid one.

    >>> parse_example("1 2.0 'first|f:2 a b:0.5 | c :3 :4")[3:5]
    (['f^a', 'f^b', 'c', ':0', ':1'], [2.0, 1.0, 1.0, 3.0, 4.0])
    """
    head, *parts = line.split("|")
    if not parts:
        raise ValueError("a line must have a |, followed by features")
    label, importance, base, tag = parse_head(head)
    features: list[str] = []
    values: list[float] = []
    for part in parts:
        names = part.split()
        space, factor = "", 1.0
        if names and not part[0].isspace():
            space, factor = divide(names.pop(0))
            if "^" in space:
                raise ValueError(f"the namespace {space!r} has a ^, which ends its name")
        nameless = 0
        for text in names:
            if text.startswith(":"):
                text, nameless = f"{nameless}{text}", nameless + 1
                name, value = divide(text)
                name = f":{name}"
            else:
                name, value = divide(text)
            if not abs(value * factor) < TOO_LARGE:
                raise ValueError(f"{text!r} times {factor:g} is not a finite float32")
            features.append(f"{space}^{name}" if space or "^" in name else name)
            values.append(value * factor)
    return Example(label, importance, tag, features, values, base)


def parse_head(head: str) -> tuple[float | None, float, float, str]:
    """Parse label, importance, base and tag, which come before the first `|`."""
    found, tag = head.split(), ""
    if found and (found[-1].startswith("'") or not head[-1].isspace()):
        tag = found.pop()
        if not found and NUMBER.fullmatch(tag.encode()):
            raise ValueError(
                f"{tag!r} before | is a tag, not a label; a label must be followed by a space"
            )
    if len(found) > 3:
        text = " ".join(found)
        raise ValueError(f"{text!r}: must be a label, an importance and a base")
    if found and not NUMBER.fullmatch(found[0].encode()):
        raise ValueError(
            f"the label {found[0]!r} is not a number; costs, actions and several labels are not "
            "supported"
        )
    numbers = [parse_float32(text.encode()) for text in found]
    label = numbers[0] if numbers else None
    _, importance, base = [*numbers, *(0.0, 1.0, 0.0)[len(numbers) :]]
    if importance < 0:
        raise ValueError(f"the importance is {importance:g}, but a weight must be 0 or more")
    return label, importance, base, tag.removeprefix("'")


def divide(text: str) -> tuple[str, float]:
    """Split `name:value`; `name` alone has the value 1."""
    name, colon, value = text.partition(":")
    if not name:
        raise ValueError(f"{text!r} has no name")
    return name, parse_float32(value.encode()) if colon else 1.0
