"""Sections on topics: a map, and a card of words for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import LDA

from ..drawing.charts import Bar, bars
from ..drawing.maps import Disc, disc_map
from ..drawing.markup import Markup, tag
from ..learner import Learner
from ..reports.lines import topic_names, topic_words
from .frame import folded, section
from .topic_map import topic_plane

WORDS = 10
TOLD = 5  # words of a topic under a mouse
RELEVANCES = (1.0, 0.6, 0.3, 0.0)  # the first one is shown first
CHOSEN = 100  # topics, the largest, that are on the map and have words by relevance


def topic_sections(learner: Learner) -> Iterator[Markup]:
    """Yield a map of the topics, and their cards, largest first."""
    model = learner.model
    lists = {relevance: topic_words(learner, WORDS, relevance) for relevance in RELEVANCES}
    words = lists[RELEVANCES[0]]
    what = "topic" if isinstance(model, LDA) else "part"
    called = [
        f"{what} {topic}" if name == str(topic) else name
        for topic, name in enumerate(topic_names(learner))
    ]
    table = model.parameters["lambda" if isinstance(model, LDA) else "H"].numpy()
    mass = table.sum(axis=0, dtype=np.float64)
    order = np.argsort(-mass, kind="stable") if isinstance(model, LDA) else np.arange(len(words))
    chosen = order[:CHOSEN]
    if len(chosen) > 2 and (mass[chosen] > 0).all():
        yield map_section(table[:, chosen], chosen, words, called, what)
    cards = []
    for topic in order:
        share = f"{mass[topic] / mass.sum():.1%} of words" if isinstance(model, LDA) else ""
        head = tag("h3", called[topic], tag("small", share))
        if topic in chosen:
            shown = [ranked(words[topic], r) for r, words in lists.items()]
        else:
            shown = [bars(list(rows(words[topic])))]
        cards.append(tag("div", head, *shown, class_="topic", id=f"{what}-{topic}"))
    note = f"{WORDS} words of each, with their shares"
    yield section(f"{what.title()}s", chooser(), *folded(cards, f"{what}s"), note=note)


def map_section(
    table: NDArray[np.floating],
    chosen: Sequence[int] | NDArray[np.integer],
    words: Sequence[Sequence[tuple[str, float]]],
    called: Sequence[str],
    what: str,
) -> Markup:
    """Return a map of the chosen topics.

    table: [words x chosen].
    words, called: words and headings of all topics.
    """
    mass = table.sum(axis=0, dtype=np.float64)
    discs = []
    for topic, (x, y), size in zip(chosen, topic_plane(table), mass, strict=True):
        told = " ".join(word for word, _ in words[topic][:TOLD])
        disc = Disc(x, y, size, str(topic), f"{called[topic]}: {told}", f"{what}-{topic}")
        discs.append(disc)
    drawn = disc_map(discs, about=f"map of {len(discs)} {what}s")
    note = (
        f"{what}s with like words lie close together; a disc is as large as the {what}. "
        "A click goes to its words."
    )
    return section(f"Map of {what}s", tag("div", drawn, class_="card"), note=note)


def chooser() -> Markup:
    """Return the buttons that choose by which relevance words are ordered.

    They work without a script: the style of the page shows the lists of the one that is checked.
    """
    texts = {1.0: "1: most frequent first", 0.0: "0: most particular first"}
    parts = []
    for relevance in RELEVANCES:
        checked = "checked" if relevance == RELEVANCES[0] else None
        name = f"by-{relevance:g}".replace(".", "")
        button = tag("input", type="radio", name_="relevance", id=name, checked=checked)
        parts.append(tag("label", button, texts.get(relevance, f"{relevance:g}")))
    return tag("fieldset", tag("legend", "relevance"), *parts, class_="chooser")


def ranked(words: Sequence[tuple[str, float]], relevance: float) -> Markup:
    """Return bars of words in the order of a relevance."""
    name = f"by-{relevance:g}".replace(".", "")
    return tag("div", bars(list(rows(words))), class_=f"ranked {name}")


def rows(words: Sequence[tuple[str, float]]) -> Iterator[Bar]:
    """Yield a bar for each word; its length is the word's share of the topic."""
    return (Bar(word, share, f"{share:.1%}") for word, share in words)
