"""How fast does LDA get to the perplexity of other packages, and how far beyond?

    scripts/bench lda --data docword.npz --topics 100

AMD EPYC 2.6 GHz (AVX-512), 2 threads, 2026-11-21, others 0 to 2 % of the machine. 36,824 abstracts,
K=100, 98,866 tokens scored, one topic alone: 2294. Peers had priors of 1/K (`--alpha 0.01 --eta
0.01`); by default all systems have 0.05 now.

                         passes   seconds   perplexity   gibbs gets there in   times faster
    blocklearn vb             5      0.86         1464   (1448 at best)
    blocklearn cvb0           5      0.91         1324
    blocklearn gibbs         30     16.4          1208
    scikit-learn              3     19.6          1540                0.11 s            171
    gensim                    2     23.4          1511                0.11 s            204
    Vowpal Wabbit             3     27.8          1537                0.11 s            243
    tomotopy                200     31.9          1278                0.75 s             42

vb alone is 84 to 118 times faster than the variational peers. docs/performance/topics.md has a
second data set, where tomotopy is passed 11 times faster, and the effect of the priors.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from blocklearn.models.coherence import MEASURES, coherence_of
from blocklearn.models.topic_quality import (
    COMPARED,
    LISTED,
    QUALITY,
    distinct_words,
    topic_closeness,
)

from .corpora import commonest, in_use, merged
from .data import facts, load, split
from .lda_systems import PEERS, Job, checkpoints, default_recipes, passes_of, read_recipe
from .machine import describe, limits
from .perplexity import Tokens, completion, halves, unigram
from .report import Ratio, Report, Row, mib, others, reached, table
from .system import WARM, reported, run_jobs, save

PEER_NAMES = tuple(PEERS)
TO_FINAL = "seconds to the peer's final perplexity"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "the docstrings of Python's standard library")  # fmt: skip
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alpha", type=float, default=0.05, help="of all, and of the evaluator")
    parser.add_argument("--eta", type=float, default=0.05, help="of all")
    parser.add_argument(
        "--batch", type=int, default=1024, help="documents of a mini-batch of peers"
    )
    parser.add_argument("--max-docs", type=int, default=0, help="use only the first N documents")
    parser.add_argument("--words", type=int, default=0, help="use only the N commonest words")
    parser.add_argument("--merge", type=int, default=1, help="make N documents one")
    parser.add_argument("--scored", type=int, default=5000, help="score at most N documents")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each system, which differ in "
                        "their random numbers; figures are means")  # fmt: skip
    parser.add_argument("--most", type=int, default=1000, help="leave out checkpoints of peers "
                        "after more than N passes or sweeps")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep systems that are in the file of "
                        "--json, of an earlier run on the same data")  # fmt: skip
    parser.add_argument("--ours", default="all", metavar="a,b", help="inferences of ours to run, "
                        "each with the package's defaults (all, none, or names)")  # fmt: skip
    parser.add_argument("--recipe", action="append", default=[], metavar="YAML", help="one of ours "
                        "more: a configuration file, or its text; may be repeated")  # fmt: skip


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Run every system in turn, and score its topics; the JSON file grows with each."""
    if args.quick:
        args.topics, args.max_docs, args.batch = 5, 400, 64
    X, name = load(args.data, args.max_docs)
    if args.merge > 1:
        X, name = merged(X, args.merge), f"{name}, {args.merge} documents as one"
    if args.words:
        X, name = commonest(X, args.words), f"{name}, {args.words} commonest words"
    train, held = in_use(*split(X))
    if held.shape[0] == 0:
        raise ValueError(f"{name}: too few documents to hold some out; take at least 10.")
    held = held[: args.scored]
    parts = halves(held)
    report = Report(
        "lda",
        "training alone, from data in memory to topics; ours from after the kernels are compiled",
        facts(X, name)
        | {
            "words": train.shape[1],
            "train_documents": train.shape[0],
            "scored_documents": held.shape[0],
        },
        describe() | limits(quick=args.quick),
    )
    baseline, tokens = completion(unigram(train, args.eta), parts, args.alpha)
    report.data |= {"scored_tokens": tokens, "unigram_perplexity": round(baseline, 1)}
    report.data |= {n: getattr(args, n) for n in ("topics", "alpha", "eta", "threads", "seeds")}
    if args.keep and args.json is not None and args.json.exists():
        report.rows = kept_rows(args.json, report)
    for label, recipe, marks in jobs(args, peers):
        if label in {row.system for row in report.rows}:
            continue
        with reported(report, label):
            flat = getattr(PEERS.get(label), "flat", False)
            alpha, eta = [1 / args.topics] * 2 if flat else (args.alpha, args.eta)
            runs = []
            for seed in range(args.seeds):
                with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                    job = Job(
                        system=label, folder=folder, data=save(folder, train=train),
                        threads=args.threads, checkpoints=marks, recipe=recipe, topics=args.topics,
                        batch=args.batch, alpha=alpha, eta=eta, seed=seed,
                    )  # fmt: skip
                    row = measure(job, cold=not args.quick and seed == 0)
                    score(row, job, parts, args.alpha)
                    row.curve[-1] |= quality(job.kept(len(row.curve) - 1)["phi"], train)
                row.settings = {"alpha": alpha, "eta": eta} | row.settings
                runs.append(row)
            report.rows.append(finish(mean_of(runs), train.shape[0]))
        if args.json is not None:
            report.write(args.json)
    report.ratios = ratios(report.rows)
    return report


def kept_rows(path: Path, report: Report) -> list[Row]:
    """Return the systems of an earlier report on the same data."""
    found = Report.read(path)
    if differ := [name for name in report.data if found.data.get(name) != report.data[name]]:
        raise ValueError(f"--keep: {path} is of other data or settings: {', '.join(differ)} differ")
    return found.rows


def score(row: Row, job: Job, parts: tuple[Tokens, Tokens], alpha: float) -> None:
    """Add to each point its perplexity by `alpha`, and by the alpha that the system trained with.

    parts: the observed and the scored halves.
    """
    for number, point in enumerate(row.curve):
        kept = job.kept(number)
        own = kept.get("alpha", row.settings.get("alpha", job.alpha))
        own = job.alpha if isinstance(own, str) else np.asarray(own, np.float64)
        given = completion(kept["phi"], parts, alpha)[0]
        by_own = given if np.all(own == alpha) else completion(kept["phi"], parts, own)[0]
        point |= {"perplexity": round(given, 2), "by_own_alpha": round(by_own, 2)}


def mean_of(runs: list[Row]) -> Row:
    """Return one row: figures are means of the runs, and `spread` is largest minus smallest."""
    last = [run.curve[-1]["perplexity"] for run in runs]
    row = runs[0]
    curves = zip(*(run.curve for run in runs), strict=True)
    row.curve = [{n: round(float(np.mean([p[n] for p in at])), 4) for n in at[0]} for at in curves]
    if None not in (memory := [run.memory for run in runs]):
        row.memory = max(m for m in memory if m is not None)
    row.curve[-1]["spread"] = round(max(last) - min(last), 2)
    return row


def jobs(
    args: argparse.Namespace, peers: list[str]
) -> list[tuple[str, dict[str, Any], list[float]]]:
    """Return name, recipe (none for peers) and checkpoints of every system."""
    recipes = default_recipes()
    if args.ours != "all":
        names = [] if args.ours == "none" else args.ours.split(",")
        if unknown := set(names) - set(recipes):
            raise ValueError(f"--ours {args.ours}: no {unknown}; there are {', '.join(recipes)}.")
        recipes = {name: recipes[name] for name in names}
    recipes |= dict(map(read_recipe, args.recipe))
    found = []
    for name, recipe in recipes.items():
        passes = 2 if args.quick else passes_of(recipe)
        found.append((f"blocklearn {name}", recipe, checkpoints(passes)))
    for name in peers:
        marks = [float(m) for m in PEERS[name].checkpoints if m <= args.most]
        found.append((name, {}, [2.0] if args.quick else marks))
    return found


def measure(job: Job, *, cold: bool) -> Row:
    """Run one system.

    cold: compile kernels anew, to measure the time that this takes.
    """
    peer = PEERS.get(job.system)
    blas = 1 if getattr(peer, "by_processes", False) else job.threads
    more = {"BLOCKLEARN_CACHE": str(job.path("kernels"))} if cold else {}
    memory, [done] = run_jobs(job.folder, [job], blas, more)
    if not cold and "compile_seconds" in done.settings:
        done.settings["load_seconds"] = done.settings.pop("compile_seconds")
    settings = {"topics": job.topics, "threads": job.threads, "batch": job.batch} | done.settings
    return Row(job.system, done.version, settings, 0.0, {}, memory, done.curve)


def finish(row: Row, documents: int) -> Row:
    """Fill in figures that follow from the curve; return the row."""
    last = row.curve[-1]
    for point in row.curve:
        speed = documents * point["passes"] / max(point["seconds"], 1e-9)
        point["documents_per_s"] = round(speed, 1)
    row.seconds = last["seconds"]
    names = ("perplexity", "passes", "documents_per_s", "own_cpu_seconds", "others_cpu_seconds")
    row.quality = {name: last[name] for name in (*names, "by_own_alpha", "spread", *QUALITY)}
    return row


def quality(phi: Any, X: Any) -> dict[str, float]:
    """Return the quality of topics [K x V], coherence by the documents X that they are of."""
    order = np.argsort(-phi, axis=1, kind="stable")
    first = order[:, :COMPARED].tolist()
    coherence = [float(coherence_of(first, X, measure).mean()) for measure in MEASURES]
    found = (*coherence, distinct_words(order[:, :LISTED]), topic_closeness(phi.T))
    return {name: round(value, 4) for name, value in zip(QUALITY, found, strict=True)}


def ratios(rows: list[Row]) -> list[Ratio]:
    """Return, for each peer and each of ours, seconds to the peer's final perplexity / ours.

    Our time is that of the first checkpoint at or below it; nothing is interpolated.
    """
    found = []
    for peer in (row for row in rows if row.system in PEERS):
        target = peer.quality["perplexity"]
        for ours in (row for row in rows if row.system not in PEERS):
            value, where = reached(ours.curve, "perplexity", target, peer.seconds, lower=True)
            note = f"{peer.system}: {target:.1f} after {peer.seconds:.2f} s; {ours.system}: {where}"
            found.append(Ratio(TO_FINAL, peer.system, ours.system, value and round(value, 2), note))
            value = round(target / ours.quality["perplexity"], 4)
            found.append(Ratio("final perplexity", peer.system, ours.system, value))
    return found


def show(report: Report) -> str:
    """Return tables of all systems and of the ratios."""
    head = ["system", "version", "passes", "seconds", "docs/s", "perplexity", "MiB", "others %"]
    cores = report.machine["cores"]
    lines = []
    for row in report.rows:
        for point in row.curve:
            last = point is row.curve[-1]
            if row.system not in PEERS and not last and point["passes"] % 1:
                continue  # in the JSON
            lines.append(
                [
                    row.system, row.version, f"{point['passes']:g}", point["seconds"],
                    int(point["documents_per_s"]), point["perplexity"],
                    mib(row.memory) if last else None, others(point, cores),
                ]
            )  # fmt: skip
    parts = [table(head, lines)]
    for row in report.rows:
        if "compile_seconds" in row.settings:
            seconds = row.settings["compile_seconds"]
            parts.append(f"{row.system}: up to {WARM} passes that compile take {seconds} s")
    shown = ("by_own_alpha", "spread", *QUALITY)
    of_topics = [[row.system, *(row.quality.get(name) for name in shown)] for row in report.rows]
    parts.append("\n" + table(["topics of", *shown], of_topics))
    times = [r for r in report.ratios if r.name == TO_FINAL]
    if times:
        final = {(r.of, r.to): r.value for r in report.ratios if r.name == "final perplexity"}
        rows = [[r.of, r.to, r.value, final[r.of, r.to], r.note] for r in times]
        head = ["peer", "ours", "times faster", "perplexity ratio", TO_FINAL]
        parts.append("\n" + table(head, rows))
    data = report.data
    parts.append(
        f"\n{data['name']}: {data['train_documents']:,} training documents, "
        f"{data['words']:,} words; {data['scored_tokens']:,} tokens scored; one topic alone: "
        f"{data['unigram_perplexity']}"
    )
    return "\n".join(parts)
