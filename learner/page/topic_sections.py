"""Sections on topics: a map, a card of words and documents for each, topics over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import LDA
from blocklearn.models.relevance import words_by_relevance

from ..drawing.charts import Bar, Curve, bars, line_chart
from ..drawing.maps import Disc, disc_map
from ..drawing.markup import Markup, tag
from ..evidence.documents import COHERENCE, Document, Periods, TopicEvidence, dated
from ..learner import Learner
from ..reports.lines import learned_priors, topic_names
from ..terminal import printable
from .frame import data_for_script, figure, figures, folded, section
from .topic_map import topic_plane

WORDS = 10
TOLD = 5  # words of a topic under a mouse
RELEVANCES = [step / 10 for step in range(11)]  # places of the slider
FIRST = RELEVANCES.index(1.0)  # the place that is shown first, and without a script
MAPPED = 100  # topics, the largest, that are on the map
SLIDING = 500  # topics, the largest, whose words the slider orders
EXTREMES = 12  # topics in a chart of the most or the least coherent
CHANGING = 12  # topics over time, those that change most

Ints = NDArray[np.integer]


class Topics:
    """The topics of a model as the page shows them, the largest first.

    what: topic, or part.
    called: a heading for each topic.
    table: [words x topics], the model's.
    mass: float64 [topics], the sums of its columns.
    priors: what was learned: alpha of each topic, and eta.
    order: numbers of the topics in the order of the page.
    """

    def __init__(self, learner: Learner) -> None:
        """List the words of all topics."""
        model = learner.model
        is_lda = isinstance(model, LDA)
        self.what = "topic" if is_lda else "part"
        self.called = [
            f"{self.what} {topic}" if name == str(topic) else name
            for topic, name in enumerate(topic_names(learner))
        ]
        self.table: NDArray[Any] = model.parameters["lambda" if is_lda else "H"].shown()
        self.mass = self.table.sum(axis=0, dtype=np.float64)
        self.priors = learned_priors(learner)
        self.order = np.argsort(-self.mass, kind="stable") if is_lda else np.arange(self.mass.size)
        self._lists = words_by_relevance(self.table, WORDS, RELEVANCES)
        self._sums = np.where(self.mass > 0, self.mass, 1.0)
        self._names = learner.names

    def card(self, topic: int) -> str:
        """Return the name of a topic's element."""
        return f"{self.what}-{topic}"

    def words(self, topic: int, which: Ints | Sequence[int]) -> list[tuple[str, float]]:
        """Return names and shares of words, given by their numbers."""
        names = self._names
        return [
            (str(w) if names is None else names[w], float(self.table[w, topic] / self._sums[topic]))
            for w in map(int, which)
        ]

    def first(self, topic: int) -> list[tuple[str, float]]:
        """Return the most probable words of a topic, with their shares."""
        return self.words(topic, self._lists[FIRST, topic])

    def lists(self, topic: int) -> dict[str, Any]:
        """Return the words of a topic by relevance, as the script reads them."""
        own = self._lists[:, topic]
        words, places = np.unique(own, return_inverse=True)
        return {
            "card": self.card(topic),
            "words": [(printable(name), round(s, 6)) for name, s in self.words(topic, words)],
            "orders": places.reshape(own.shape).tolist(),
        }


def topic_sections(learner: Learner, found: TopicEvidence | None) -> Iterator[Markup]:
    """Yield a map of the topics, and their cards, largest first.

    found: what documents say about them; None: nothing.
    """
    topics = Topics(learner)
    mapped = topics.order[:MAPPED]
    if len(mapped) > 2 and (topics.mass[mapped] > 0).all():
        yield map_section(topics, mapped)
    yield card_section(topics, found, shares=isinstance(learner.model, LDA))
    if found is not None and found.coherence is not None:
        yield coherence_section(topics, found, found.coherence)
    if found is not None and found.periods is not None and len(found.periods.names) > 1:
        yield time_section(topics, found.periods)


def map_section(topics: Topics, mapped: Ints) -> Markup:
    """Return a map of the topics with the numbers `mapped`."""
    places = topic_plane(topics.table[:, mapped])
    discs = []
    for topic, (x, y) in zip(mapped.tolist(), places, strict=True):
        told = " ".join(word for word, _ in topics.first(topic)[:TOLD])
        told = f"{topics.called[topic]}: {told}"
        discs.append(Disc(x, y, topics.mass[topic], str(topic), told, topics.card(topic)))
    what = topics.what
    drawn = disc_map(discs, about=f"map of {len(discs)} {what}s")
    note = (
        f"{what}s with like words lie close together, moved apart where they would overlap; a disc "
        f"is as large as the {what}. A click goes to its words."
    )
    return section(f"Map of {what}s", tag("div", drawn, class_="card"), note=note)


def card_section(topics: Topics, found: TopicEvidence | None, *, shares: bool) -> Markup:
    """Return a card for each topic, and the slider of relevance.

    shares: whether cards have the topic's share of all words.
    """
    what, cards = topics.what, []
    for topic in topics.order.tolist():
        share = f"{topics.mass[topic] / topics.mass.sum():.1%} of words" if shares else ""
        if "alpha" in topics.priors:
            share += f", alpha {topics.priors['alpha'][topic]:.2g}"
        rows = [Bar(word, share, f"{share:.1%}") for word, share in topics.first(topic)]
        head = tag("h3", topics.called[topic], tag("small", share))
        documents = [] if found is None else list(document_list(found.typical[topic]))
        cards.append(
            tag("div", head, bars(rows), *documents, class_="topic", id=topics.card(topic))
        )
    sliding = [topics.lists(topic) for topic in topics.order[:SLIDING].tolist()]
    note = f"{WORDS} words of each, with their shares"
    if found is not None:
        note += f"; below them the documents with most of the {what}, among {read(found)}"
    if "eta" in topics.priors:
        note += f"; eta {topics.priors['eta'][0]:.2g} was learned"
    return section(
        f"{what.title()}s",
        slider(),
        *folded(cards, f"{what}s"),
        data_for_script("words-by-relevance", sliding),
        note=note,
    )


def read(found: TopicEvidence) -> str:
    """Return how many documents were read: `6,411 documents of the training data`."""
    rows = f"{found.rows:,}"
    if found.rows < found.of:
        rows = f"the first {rows} of {found.of:,}"
    return f"{rows} documents of the training data"


def document_list(documents: Sequence[Document]) -> Iterator[Markup]:
    """Yield the typical documents of a topic: shares, names and beginnings of texts."""
    rows = [
        tag(
            "li",
            tag("b", f"{each.share:.0%}"),
            tag("span", tag("i", each.name), *([" ", each.text] if each.text else [])),
        )
        for each in documents
    ]
    if rows:
        yield tag("ul", *rows, class_="documents")


def coherence_section(topics: Topics, found: TopicEvidence, values: NDArray[Any]) -> Markup:
    """Return charts of the most and the least coherent topics."""
    order = np.argsort(-values, kind="stable").tolist()
    rows = [
        Bar(
            f"{topics.called[k]}: {' '.join(word for word, _ in topics.first(k)[:TOLD])}",
            float(values[k]),
            f"{values[k]:.2f}",
        )
        for k in order
    ]
    mean = f"mean {values.mean():.3g}"
    charts = [figure(f"all {topics.what}s", mean, bars(rows), class_="double")]
    if len(rows) > 2 * EXTREMES:
        first, last = rows[:EXTREMES], rows[-EXTREMES:]
        charts = [
            figure("most coherent", mean, bars(first), class_="double"),
            figure("least coherent", "", bars(last), class_="double"),
        ]
    note = f"{COHERENCE}: how often first words occur together, -1 to 1, in {read(found)}"
    return section(f"Coherence of {topics.what}s", figures(charts), note=note)


def time_section(topics: Topics, periods: Periods) -> Markup:
    """Return curves of the topics that change most over time."""
    charts = []
    places = range(len(periods.names))
    for topic, shares in list(dated(periods))[:CHANGING]:
        title = f"{topics.called[topic]}: {' '.join(w for w, _ in topics.first(topic)[:3])}"
        curve = Curve(topics.called[topic], places, [100 * float(share) for share in shares])
        chart = line_chart([curve], x_label="", zero=True, x_names=periods.names)
        charts.append(figure(title, f"{shares[0]:.1%} to {shares[-1]:.1%}", chart))
    counts = [float(count) for count in periods.documents]
    chart = line_chart([Curve("documents", places, counts, 5)], x_label="", zero=True,
                       x_names=periods.names)  # fmt: skip
    charts.append(figure("documents", f"{periods.documents.sum():,}", chart))
    lost = f"; {periods.undated:,} documents have no date" if periods.undated else ""
    what = f"{topics.what}s"
    note = f"mean share in percent, of the {what} that change most{lost}"
    return section(f"{what.title()} over time", figures(charts), note=note)


def slider() -> Markup:
    """Return the slider of relevance, which the script shows and hears."""
    place = {"min": 0, "max": len(RELEVANCES) - 1, "step": 1, "value": FIRST}
    return tag(
        "form",
        tag("label", "relevance ", tag("output", "1.0", id="relevance-shown"), for_="relevance"),
        tag("span", "particular words first"),
        tag("input", type="range", id="relevance", **place),
        tag("span", "frequent words first"),
        class_="slider",
        hidden="",
    )
