"""The largest topics of each row, as JSON lines or as a long table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.arrow import number_array, text_array
from blocklearn.durable import new_file
from blocklearn.models import LDA, NMF

from ..errors import ConfigError
from ..learner import Learner
from ..storage.manifest import finite
from .predictions import Predicted, collecting

Array = NDArray[Any]


def topic_model(learner: Learner) -> LDA | NMF:
    """Return the learner's model.

    Raises:
        ConfigError: it has no topics.
    """
    model = learner.model
    if not isinstance(model, LDA | NMF):
        raise ConfigError(
            [f"a model of kind {type(model).__name__} has no topics; LDA and NMF have"]
        )
    return model


def topic_shares(learner: Learner, values: Array) -> Array:
    """Return the share [rows x K] of each topic, or part of NMF, in predictions of rows.

    Raises:
        ConfigError: the model has no topics.
    """
    model = topic_model(learner)
    return model.shares(values) if isinstance(model, NMF) else values


def largest_topics(shares: Array, least: float, top: int | None = None) -> Iterator[Array]:
    """Yield the numbers of the topics of each row, largest first.

    shares: [rows x K].
    least: topics with a smaller share are left out.
    top: the most topics of a row; None: all.
    """
    order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
    for row, largest in zip(shares, order, strict=True):
        yield largest[row[largest] >= least]


def topic_records(row: Array, topics: Array, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the number, name and share of some topics of a row [K], for JSON.

    names: of all topics.
    """
    return [{"topic": int(k), "name": names[k], "share": finite(float(row[k]))} for k in topics]


def topic_json_lines(
    learner: Learner, blocks: Iterable[Predicted], least: float, names: Sequence[str]
) -> Iterator[str]:
    """Yield one JSON object per row, with a list `topics`.

    least: topics with a smaller share are left out.
    names: of all topics.
    """
    for block in blocks:
        shares = topic_shares(learner, block.values)
        rows = zip(
            block.numbers.tolist(), block.names, shares, largest_topics(shares, least), strict=True
        )
        for number, name, row, topics in rows:
            item = {"row": number, "document": name, "topics": topic_records(row, topics, names)}
            yield json.dumps(item, ensure_ascii=False)


def write_topics(
    path: Path, learner: Learner, blocks: Iterable[Predicted], least: float, names: Sequence[str]
) -> int:
    """Write a table with a row for each topic of a document; return the number of its rows.

    Its columns are `row`, `document`, `topic` (a number), `name` (of the topic) and `share`.
    Documents are in their order, their topics largest first. A document without a topic of `least`
    or more has no row. The file is complete or absent.

    Args:
        path: the file; its ending is one of `TABLES`.
        learner: the model.
        blocks: its predictions.
        least: topics with a smaller share are left out.
        names: of all topics.
    """
    import pyarrow as pa

    written = 0
    with new_file(path) as temporary, collecting(temporary, path.suffix) as write:
        for block in blocks:
            shares = topic_shares(learner, block.values)
            chosen = list(largest_topics(shares, least))
            places = np.repeat(np.arange(len(chosen)), [topics.size for topics in chosen])
            topics = np.concatenate(chosen) if chosen else np.empty(0, np.int64)
            columns = {
                "row": number_array(block.numbers[places]),
                "document": text_array([block.names[i] for i in places.tolist()]).cast(pa.string()),
                "topic": number_array(topics),
                "name": text_array([names[k] for k in topics.tolist()]).cast(pa.string()),
                "share": number_array(shares[places, topics]),
            }
            write(pa.table(columns))
            written += topics.size
    return written
