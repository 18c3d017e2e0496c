"""How fast are vectors of words learned: ours and gensim's, to the same scores?

    scripts/bench words
    scripts/bench words --packages numpy,scipy,pandas --passes 1,2,3,5

Texts are docstrings: of Python's standard library, or of installed packages. Both systems get the
same lists of words, and count them. A twentieth of the texts is held out for `neighbours`: the
share of pairs of words up to five apart whose v . u is above that of the same word and a random
word of these texts. `first` and `among_five`: share of questions "user is to users as server is
to what?" whose right answer is the nearest word, or among the five nearest; of the commonest 60
words whose plurals have a vector. These also score the training texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from sysconfig import get_path
from typing import Any, NamedTuple

import numpy as np

import blocklearn as bl
from blocklearn.datasources import all_words
from blocklearn.datasources.examples.docstrings import all_docstrings

from .glm_systems import Timer
from .machine import describe
from .report import Ratio, Report, Row, reached, table
from .system import Peer

SCORES = ("neighbours", "first", "among_five")
RATES = {"blocklearn": (0.025, 0.05, 0.1), "gensim": (0.0125, 0.025, 0.05)}
PAIRS = 60  # of words and their plurals

Texts = list[list[str]]


class Learned(NamedTuple):
    """Words by row, their vectors and their vectors as neighbours."""

    words: list[str]
    v: Any
    u: Any


class System(NamedTuple):
    """train: (texts, dimensions, threads, rate, passes) -> what was learned."""

    name: str
    version: str
    train: Callable[[Texts, int, int, float, int], Learned]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--packages", help="a,b: with docstrings [Python's standard library]")
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--passes", default="1,2,3,5", help="a training for each [1,2,3,5]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1, help="trainings; the median time counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system with each rate and number of passes, in turns."""
    if args.quick:
        args.dimensions, args.passes = 8, "1"
    texts = read(args.packages)
    texts = texts[:300] if args.quick else texts
    is_held = np.random.default_rng(0).random(len(texts)) < 0.05
    train, held = ([texts[n] for n in np.flatnonzero(p)] for p in (~is_held, is_held))
    systems = [System("blocklearn", bl.__version__, ours)]
    systems += [system for peer in peers for system in PEERS[peer].run()]
    for system in systems:  # compiles
        system.train(train[:200], args.dimensions, args.threads, 0.025, 1)
    tokens = sum(map(len, train))
    about = {"name": args.packages or "python-docs", "documents": len(train), "nnz": tokens}
    report = Report("words", "processor time of training", about | {"tokens": tokens}, describe())
    passes = [int(number) for number in args.passes.split(",")]
    for system, count in product(systems, passes):
        for rate in RATES[system.name][:: 3 if args.quick else 1]:
            times = []
            for _ in range(args.rounds):
                timer = Timer()
                with timer:
                    learned = system.train(train, args.dimensions, args.threads, rate, count)
                times.append((timer.cpu, timer.wall))
            seconds, wall = np.median(times, axis=0).tolist()
            about["words"] = len(learned.words)
            quality = {"wall_seconds": wall, **scores(learned, held)}
            settings = {"rate": rate, "passes": count}
            report.rows.append(Row(system.name, system.version, settings, seconds, quality))
    report.data = about | {"tokens": tokens}
    report.ratios = list(ratios(report.rows))
    return report


def read(packages: str | None) -> Texts:
    """Return the words of all docstrings, each text once."""
    roots = [Path(get_path("stdlib"))]
    if packages is not None:
        found = {name: find_spec(name) for name in packages.split(",")}
        for name, spec in found.items():
            if spec is None or spec.origin is None:
                raise ValueError(f"--packages: {name} is not installed; leave it out.")
        roots = [Path(str(spec.origin)).parent for spec in found.values() if spec]
    texts = dict.fromkeys(text for root in roots for _, _, text in all_docstrings(root))
    return [all_words(text) for text in texts]


def ours(texts: Texts, dimensions: int, threads: int, rate: float, passes: int) -> Learned:
    """Train ours, with its defaults."""
    model = bl.WordVectors(
        dimensions, learning_rate=rate, max_iter=passes, n_jobs=threads, random_state=0
    ).fit(texts)
    return Learned(list(model.vocabulary_), model.vectors_, model.contexts_)


def gensim() -> Iterator[System]:
    """Yield gensim's, with the same window, negatives and sample, which are our defaults."""
    from gensim.models import Word2Vec

    def train(texts: Texts, dimensions: int, threads: int, rate: float, passes: int) -> Learned:
        model = Word2Vec(
            texts, vector_size=dimensions, window=5, negative=5, sg=1, sample=1e-3, min_count=5,
            alpha=rate, epochs=passes, workers=threads, seed=0,
        )  # fmt: skip
        return Learned(model.wv.index_to_key, model.wv.vectors, model.syn1neg)

    yield System("gensim", PEERS["gensim"].version, train)


def scores(learned: Learned, held: Texts) -> dict[str, float]:
    """Return all scores."""
    first, among_five = analogies(learned, PAIRS)
    return dict(zip(SCORES, (neighbours(learned, held), first, among_five), strict=True))


def neighbours(learned: Learned, held: Texts) -> float:
    """Return the share of pairs at most 5 words apart that score above pairs with a random word."""
    row = {word: n for n, word in enumerate(learned.words)}
    rows = [np.array([row[word] for word in text if word in row], int) for text in held]
    pairs = [(x[:-d], x[d:]) for x in rows for d in range(1, 6)]
    c, o = (np.concatenate(side) for side in zip(*pairs, strict=True))
    random = np.random.default_rng(0).permutation(o)
    near, far = ((learned.v[c] * learned.u[other]).sum(axis=1) for other in (o, random))
    return float((near > far).mean())


def analogies(learned: Learned, count: int) -> tuple[float, float]:
    """Return the share of right answers, and of right ones among five."""
    row = {word: n for n, word in enumerate(learned.words)}
    singular = (word for word in learned.words if len(word) > 3 and word[-1] != "s")
    known = ((row[word], row[f"{word}s"]) for word in singular if f"{word}s" in row)
    pairs = np.array(sorted(known, key=max)[:count])  # rare words have large numbers
    unit = learned.v / np.linalg.norm(learned.v, axis=1, keepdims=True)
    one, other = np.nonzero(~np.eye(len(pairs), dtype=bool))
    (a, b), (c, d) = pairs[one].T, pairs[other].T
    cosines = (unit[b] - unit[a] + unit[c]) @ unit.T
    questions = np.arange(len(a))
    for given in (a, b, c):
        cosines[questions, given] = -np.inf
    above = (cosines > cosines[questions, d][:, None]).sum(axis=1)
    return float((above < 1).mean()), float((above < 5).mean())


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Yield, for each score, gensim's seconds to its best over ours to the same."""
    own = sorted((row for row in rows if row.system == "blocklearn"), key=lambda row: row.seconds)
    curve = [{**row.quality, "seconds": row.seconds} for row in own]
    theirs = [row for row in rows if row.system == "gensim"]
    for score in SCORES if theirs else ():
        for count in sorted({row.settings["passes"] for row in theirs}):
            there = [row for row in theirs if row.settings["passes"] == count]
            best = max(there, key=lambda row: row.quality[score])
            goal = best.quality[score]
            value, where = reached(curve, score, goal, best.seconds, lower=False)
            note = f"{goal:.4f} after {best.seconds:.1f} s; ours: {where}"
            yield Ratio(f"seconds to its {score} of {count} passes", "gensim", "ours", value, note)


def show(report: Report) -> str:
    """Return a table of all trainings, and the ratios."""
    lines = [
        [
            row.system,
            row.settings["passes"],
            str(row.settings["rate"]),
            *(f"{row.quality[score]:.4f}" for score in SCORES),
            row.seconds,
            row.quality["wall_seconds"],
        ]
        for row in report.rows
    ]
    head = ["", "passes", "rate", *SCORES, "processor s", "wall s"]
    found = [table(head, lines)]
    found += [f"{r.name}: {r.value and round(r.value, 2)} ({r.note})" for r in report.ratios]
    return "\n".join(found)


PEERS = {"gensim": Peer("gensim", "gensim", gensim, (1,))}
PEER_NAMES = tuple(PEERS)
