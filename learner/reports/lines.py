"""Text that the commands print: topics, predictions, scores."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from blocklearn.models import GLM, LDA, NMF, FactorModel, GaussianMixture, KMeans

from ..figures import number, overall
from ..learner import Learner
from ..results.predictions import Predicted
from ..results.topic_shares import largest_topics, topic_model, topic_shares
from ..storage.manifest import finite
from . import factors as factor_reports
from . import targets as target_reports
from .clusters import cluster_lines

SUMMARY_WORDS = 8
MENTIONED_TOPICS = 3
MENTIONED_SHARE = 0.05


def topic_words(
    learner: Learner, top: int, relevance: float = 1.0
) -> list[list[tuple[str, float]]]:
    """Return the first `top` words of each topic, with probabilities, best first.

    Parts of NMF count as topics; a word's share of a part stands for its probability.

    relevance: 1: most probable words first; see `relevant_words`.

    Raises:
        ConfigError: the model has no topics.
    """
    topic_model(learner)
    return learner.topics(top, relevance)


def topic_names(learner: Learner) -> list[str]:
    """Return the name of each topic: that of its seed words, else its number.

    Raises:
        ConfigError: the model has no topics.
    """
    model = topic_model(learner)
    if isinstance(model, LDA):
        return model.topic_names
    return [str(number) for number in range(model.parameters["H"].shape[1])]


def topic_lines(learner: Learner, top: int, relevance: float = 1.0) -> Iterator[str]:
    """Yield `  3  socket connection address ...`, one line per topic.

    Where priors were learned, `alpha=0.12` of the topic comes before its words, and eta at the end.
    """
    names, priors = topic_names(learner), learned_priors(learner)
    width = max(4, *map(len, names))
    for k, words in enumerate(topic_words(learner, top, relevance)):
        alpha = f"alpha={priors['alpha'][k]:<7.3g} " if "alpha" in priors else ""
        yield f"{names[k]:>{width}}  {alpha}{' '.join(word for word, _ in words)}"
    if "eta" in priors:
        yield f"eta={priors['eta'][0]:.3g}"


def learned_priors(learner: Learner) -> dict[str, list[float]]:
    """Return the priors of LDA that were learned, by name: alpha of each topic, and eta."""
    model = learner.model
    return {
        name: model.parameters[name].numpy()[0].tolist()
        for name in ("alpha", "eta")
        if isinstance(model, LDA) and getattr(model, name) == "auto"
    }


def topics_list(learner: Learner, top: int, relevance: float = 1.0) -> list[dict[str, Any]]:
    """Return the number, the name and the first words of each topic, and its alpha if learned."""
    priors = learned_priors(learner)
    return [
        {
            "topic": index,
            "name": name,
            **({"alpha": priors["alpha"][index]} if "alpha" in priors else {}),
            "words": [{"word": w, "probability": float(p)} for w, p in words],
        }
        for index, (name, words) in enumerate(
            zip(topic_names(learner), topic_words(learner, top, relevance), strict=True)
        )
    ]


def topics_json(learner: Learner, top: int, relevance: float = 1.0) -> str:
    """Return all topics as one JSON list."""
    return json.dumps(topics_list(learner, top, relevance), ensure_ascii=False, indent=2)


def summary_lines(learner: Learner, evaluations: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """Yield the summary of a model that is printed after training.

    evaluations: events of `metrics.jsonl` with held-out scores.
    """
    if isinstance(learner.model, LDA | NMF):
        yield from topic_lines(learner, SUMMARY_WORDS)
    elif isinstance(learner.model, FactorModel):
        yield from factor_reports.score_lines(evaluations)
        yield from factor_reports.list_lines(learner)
    elif isinstance(learner.model, GLM):
        yield from target_reports.target_lines(learner)
    elif isinstance(learner.model, KMeans | GaussianMixture):
        yield from cluster_lines(learner, SUMMARY_WORDS)


def prediction_lines(learner: Learner, blocks: Iterable[Predicted]) -> Iterator[str]:
    """Yield one line per row: its name and its prediction.

    For topic models, see `topic_share_lines`.
    """
    model = learner.model
    if isinstance(model, GLM):
        yield from target_reports.prediction_lines(learner, blocks)
        return
    if isinstance(model, LDA | NMF):
        yield from topic_share_lines(learner, blocks)
        return
    for block in blocks:
        for name, row in zip(block.names, np.atleast_2d(block.values.T).T, strict=True):
            yield f"{name}: {' '.join(number(float(value)) for value in row)}"


def topic_share_lines(
    learner: Learner, blocks: Iterable[Predicted], least: float | None = None
) -> Iterator[str]:
    """Yield one line per row: its name and its largest topics, by their names or first words.

    least: all topics with this share or more; None: up to three topics, the largest in any case.

    Raises:
        ConfigError: the model has no topics.
    """
    labels = [
        " ".join(word for word, _ in words) if name == str(number) else name
        for number, (name, words) in enumerate(
            zip(topic_names(learner), topic_words(learner, 3), strict=True)
        )
    ]
    for block in blocks:
        rows = topic_shares(learner, block.values)
        if least is None:
            chosen = largest_topics(rows, MENTIONED_SHARE, MENTIONED_TOPICS)
        else:
            chosen = largest_topics(rows, least)
        for name, row, topics in zip(block.names, rows, chosen, strict=True):
            if float(np.ptp(row)) == 0.0 and len(row) > 1:
                yield f"{name}: no words that the model knows"
            elif least is not None and not topics.size:
                yield f"{name}: no topic has a share of {number(least)}"
            else:
                shown = topics if topics.size else [int(np.argmax(row))]
                yield f"{name}: " + ", ".join(f"{row[k]:.0%} {labels[k]} ({k})" for k in shown)


def score_lines(scores: Mapping[str, float], as_json: bool) -> Iterator[str]:
    """Yield `perplexity 1,290.1`, one line per score, then a table of single targets.

    as_json: yield one JSON object instead.
    """
    if as_json:
        yield json.dumps({name: finite(float(value)) for name, value in scores.items()})
        return
    for name, value in overall(scores).items():
        yield f"{name} {number(value)}"
    yield from target_reports.score_table(scores)
