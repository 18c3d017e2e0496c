"""Read documents with their topics: typical ones, coherence by topic, topics over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataKind, DataSource, HostBlock, row_names
from blocklearn.models import LDA, NMF
from blocklearn.models.coherence import Measure
from blocklearn.models.topic_quality import TopicQuality

from ..learner import Learner
from .opened import RunData, predicted_blocks

LISTED = 3  # typical documents of a topic
SHOWN = 160  # characters of a text
FEW = 5  # typical documents have so many different words, or as many as half of all have
COHERENCE: Measure = "c_npmi"

Floats = NDArray[np.floating]


class Document(NamedTuple):
    """A document: its name, its share of a topic, and how its text begins, or nothing."""

    name: str
    share: float
    text: str


class Periods(NamedTuple):
    """The mean shares of topics by time.

    names: such as 2024-05, in order. documents: int64 [periods]. shares: [periods x topics].
    undated: documents without a date.
    """

    names: list[str]
    documents: NDArray[np.int64]
    shares: Floats
    undated: int


@dataclass(frozen=True)
class TopicEvidence:
    """What documents say about topics.

    rows, of: documents that were read, and those of the data.
    typical: lists by topic. coherence: [topics], of `COHERENCE`; None: no value.
    periods: None: documents have no dates.
    """

    rows: int
    of: int
    typical: list[list[Document]]
    coherence: Floats | None
    periods: Periods | None


def topic_evidence(learner: Learner, data: RunData) -> TopicEvidence | None:
    """Read documents of the training data once; None if there are none to read."""
    model, source = learner.model, data.train
    if source is None or not isinstance(model, LDA | NMF):
        return None
    topics = model.parameters["lambda" if isinstance(model, LDA) else "H"]
    best = Best(topics.shape[1])
    quality = None if source.shape.dense else TopicQuality(topics)
    calendar = Calendar.of(data.kind, topics.shape[1])
    names = row_names(source)
    if quality is not None:
        quality.clear()
    rows = 0
    for block, values in predicted_blocks(learner, source, data.rows):
        shares = model.shares(values) if isinstance(model, NMF) else values
        ids = block.row_ids[: block.rows]
        best.add(ids, shares, words_of(block))
        if quality is not None:
            quality.add(block)
        if calendar is not None and names is not None:
            calendar.add([names[int(i)] for i in ids], shares)
        rows += block.rows
    return TopicEvidence(
        rows,
        source.shape.total_rows,
        named(best, source, data.kind),
        None if quality is None else quality.by_topic(COHERENCE),
        None if calendar is None else calendar.periods(),
    )


def words_of(block: HostBlock) -> NDArray[np.int64]:
    """Return the number of different words, or of columns that are not 0, of each row."""
    if block.shape.dense:
        return np.asarray(np.count_nonzero(block.dense[: block.rows], axis=1))
    return np.diff(block.indptr[: block.rows + 1])


class Best:
    """Keeps the rows with the largest share of each topic.

    rows, shares: [topics x LISTED], largest first; rows of -1 are none.
    """

    def __init__(self, topics: int) -> None:
        """Keep none yet."""
        self.rows = np.full((topics, LISTED), -1, np.int64)
        self.shares = np.zeros((topics, LISTED))
        self._least: float | None = None

    def add(self, ids: NDArray[np.int64], shares: Floats, words: NDArray[np.int64]) -> None:
        """Look at the rows `ids`, with shares [rows x topics] and numbers of words [rows].

        Short rows are left out: a single word is all of a topic, and says little.
        """
        if self._least is None:
            self._least = min(FEW, float(np.median(words)))
        long = words >= self._least
        own = np.concatenate([self.shares, shares[long].T], axis=1)
        rows = np.concatenate(
            [self.rows, np.broadcast_to(ids[long], own[:, LISTED:].shape)], axis=1
        )
        order = np.argsort(-own, axis=1, kind="stable")[:, :LISTED]
        self.shares = np.take_along_axis(own, order, axis=1)
        self.rows = np.take_along_axis(rows, order, axis=1)


def named(best: Best, source: DataSource, kind: DataKind | None) -> list[list[Document]]:
    """Return the best rows of each topic with names and beginnings of their texts."""
    known = row_names(source)
    called = {
        row: f"row {row}" if known is None else known[row]
        for row in map(int, np.unique(best.rows[best.rows >= 0]))
    }
    texts = beginnings(kind, set(called.values()))
    return [
        [
            Document(called[int(row)], float(share), texts.get(called[int(row)], ""))
            for row, share in zip(rows, shares, strict=True)
            if row >= 0 and share > 0
        ]
        for rows, shares in zip(best.rows, best.shares, strict=True)
    ]


def beginnings(kind: DataKind | None, names: set[str]) -> dict[str, str]:
    """Return how the texts of the documents `names` begin; names that occur twice have none."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, text in kind.texts() if kind is not None else ():
        if name in found:
            twice.add(name)
        elif name in names:
            found[name] = beginning(text)
    return {name: text for name, text in found.items() if name not in twice}


def beginning(text: str) -> str:
    """Return the first words of a text on one line.

    >>> beginning("two\\n lines"), len(beginning("word " * 100))
    ('two lines', 158)
    """
    line = " ".join(text[: 8 * SHOWN].split())
    return line if len(line) <= SHOWN else line[: SHOWN - 2].rsplit(" ", 1)[0] + " ..."


# ---- time ----------------------------------------------------------------------------------------

UNITS = {"day": 10, "month": 7, "year": 4, "decade": 3}
"""Periods, and how many characters of an ISO date name one."""
MOST = 60  # periods


class Calendar:
    """Adds up the shares of topics by period.

    The period is the shortest of `UNITS` of which the dates have at most `MOST`.
    """

    def __init__(self, dates: dict[str, date], topics: int) -> None:
        """dates: of documents by name, one or more."""
        self._dates, self._undated = dates, 0
        first, last = min(dates.values()), max(dates.values())
        months = 12 * (last.year - first.year) + last.month - first.month
        spans = {"day": (last - first).days, "month": months, "year": months // 12}
        self._cut = UNITS[next((unit for unit, n in spans.items() if n < MOST), "decade")]
        self._sums: dict[str, Floats] = {}
        self._counts: dict[str, int] = {}
        self._topics = topics

    @classmethod
    def of(cls, kind: DataKind | None, topics: int) -> Calendar | None:
        """Return a calendar for the documents of `kind`; None if they have no dates."""
        dates = dict(kind.dates()) if kind is not None else {}
        return cls(dates, topics) if dates else None

    def add(self, names: Sequence[str], shares: Floats) -> None:
        """Add the documents `names`, with shares [documents x topics]."""
        for name, share in zip(names, shares, strict=True):
            if (day := self._dates.get(name)) is None:
                self._undated += 1
                continue
            period = day.isoformat()[: self._cut]
            if period not in self._sums:
                self._sums[period] = np.zeros(self._topics)
            self._sums[period] += share
            self._counts[period] = self._counts.get(period, 0) + 1

    def periods(self) -> Periods | None:
        """Return the periods in order; None if no document has a date."""
        if not self._sums:
            return None
        names = sorted(self._sums)
        counts = np.array([self._counts[name] for name in names])
        shares = np.stack([self._sums[name] for name in names]) / counts[:, None]
        shown = [f"{name}0s" if self._cut == UNITS["decade"] else name for name in names]
        return Periods(shown, counts, shares, self._undated)


def dated(periods: Periods) -> Iterator[tuple[int, Any]]:
    """Yield (topic, shares by period), those that change most first."""
    spread = periods.shares.max(axis=0) - periods.shares.min(axis=0)
    for topic in np.argsort(-spread, kind="stable"):
        yield int(topic), periods.shares[:, topic]
