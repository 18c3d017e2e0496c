"""Seed words: a prior of words by topic, which anchors topics that have names.

Jagarlamudi, Daumé, Udupa, EACL 2012, with the prior alone: a seed word has `weight` more tokens in
its topic before any data are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HashedWords

from ..errors import ModelConfigError

Seeds = Mapping[str, Sequence[str]]
"""Words by the name of their topic."""

NO_TEXT = ("Cc", "Cs")  # control characters, and halves of characters


def problem(seeds: Seeds, topics: int) -> str | None:
    """Return what is wrong with seeds of a model of so many topics; None: nothing."""
    if len(seeds) > topics:
        return f"seeds has {len(seeds)} topics, but there are {topics}; raise topics"
    for name, words in seeds.items():
        if not name.strip() or any(category(letter) in NO_TEXT for letter in name):
            return f"seeds.{name!r}: must be a name. Write the topic's name before its words"
        if not words:
            return f"seeds.{name}: must be words. List one or more, or leave the topic out"
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
        if str(number) == name and len(seeds) <= number < topics:
            return f"seeds.{name}: must be a name: another topic has this number. Choose a word"
    return None


def seed_table(
    seeds: Seeds, names: Sequence[str] | None, words: int, topics: int, weight: float
) -> NDArray[np.float32]:
    """Return the prior tokens of seeds, float32 [words x topics]; the first topics are the seeds'.

    names: of the words; None: a seed is the number of its column, as text. Words that are hashed
        all have a column.

    Raises:
        ModelConfigError: the data do not have a word, or several columns do.
    """
    table = np.zeros((words, topics), np.float32)
    wanted = {word for each in seeds.values() for word in each}
    every = map(str, range(words)) if names is None else names
    places = [(name, column) for column, name in enumerate(every) if name in wanted]
    columns = dict(places)
    if len(columns) < len(places):
        twice = next(name for name, column in places if columns[name] != column)
        raise ModelConfigError(
            f"LDA: seeds: {twice!r}: must name one column, and several have this name. Rename them."
        )
    if isinstance(names, HashedWords) and not (names.first or names.seen):
        columns = {word: names.column(word) for word in wanted} | columns
    for topic, (name, each) in enumerate(seeds.items()):
        for word in each:
            if word not in columns:
                rule = "a word of the data. Write it as the data do, or leave it out"
                if names is None:
                    rule = f"a column's number below {words:,}, since words have no names here"
                raise ModelConfigError(f"LDA: seeds.{name}={word!r}: must be {rule}.")
            table[columns[word], topic] = weight
    return table
