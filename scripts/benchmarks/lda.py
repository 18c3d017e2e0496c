"""How fast does LDA get to the perplexity of other packages, and how far beyond?

    scripts/bench lda --data docword.npz --topics 100

AMD EPYC 2.6 GHz (AVX-512), 2 threads, 2026-11-21, others 0 to 2 % of the machine. 36,824 abstracts,
K=100, 98,866 tokens scored, one topic alone: 2294.

                         passes   seconds   perplexity   gibbs gets there in   times faster
    blocklearn vb             5      0.86         1464   (1448 at best)
    blocklearn cvb0           5      0.91         1324
    blocklearn gibbs         30     16.4          1208
    scikit-learn              3     19.6          1540                0.11 s            171
    gensim                    2     23.4          1511                0.11 s            204
    Vowpal Wabbit             3     27.8          1537                0.11 s            243
    tomotopy                200     31.9          1278                0.75 s             42

vb alone is 84 to 118 times faster than the variational peers. docs/performance.md has a second data
set, where tomotopy is passed 14 times faster, and what the priors contribute.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn

from .data import facts, load, split
from .lda_job import Job
from .lda_ours import checkpoints, default_recipes, passes_of, read_recipe
from .lda_peers import PEERS
from .machine import describe, limits
from .perplexity import completion, halves, unigram
from .process import SystemFailed, run_process
from .report import Ratio, Report, Row, mib, table

PEER_NAMES = tuple(PEERS)
EVALUATED = 5000  # at most so many held-out documents are scored
TO_FINAL = "seconds to the peer's final perplexity"


def options(parser: argparse.ArgumentParser) -> None:
    """What this task can be told, besides what all can."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "the docstrings of Python's standard library")  # fmt: skip
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alpha", type=float, help="of peers and evaluator; default 1/K")
    parser.add_argument("--eta", type=float, help="of the peers; default 1/K")
    parser.add_argument("--batch", type=int, default=1024, help="documents of a mini-batch")
    parser.add_argument("--max-docs", type=int, default=0, help="use only the first N documents")
    parser.add_argument("--ours", default="all", metavar="a,b", help="inferences of ours to run, "
                        "each with the package's defaults (all, none, or names)")  # fmt: skip
    parser.add_argument("--recipe", action="append", default=[], metavar="YAML", help="one of ours "
                        "more: a configuration file, or its text; may be repeated")  # fmt: skip


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Every system, one after another; then the perplexity of all they kept."""
    if args.quick:
        args.topics, args.max_docs, args.batch = 5, 400, 64
    X, name = load(args.data, args.max_docs)
    train, held = split(X)
    if held.shape[0] == 0:
        raise ValueError(f"{name}: too few documents to hold some out; take at least 10.")
    held = held[:EVALUATED]
    alpha, eta = args.alpha or 1 / args.topics, args.eta or 1 / args.topics
    parts = halves(held)
    report = Report(
        "lda",
        "training alone, from data in memory to topics; ours from after the kernels are compiled",
        facts(X, name) | {"train_documents": train.shape[0], "scored_documents": held.shape[0]},
        describe() | limits(quick=args.quick),
    )
    baseline, tokens = completion(unigram(train, eta), parts, alpha)
    report.data |= {"scored_tokens": tokens, "unigram_perplexity": round(baseline, 1)}
    common = {"topics": args.topics, "threads": args.threads, "batch": args.batch}
    for system, recipe, marks in jobs(args, peers):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            job = Job(
                system, folder, args.topics, args.threads, args.batch, alpha, eta, marks, recipe,
                cold=not args.quick,
            )  # fmt: skip
            print(f"{system}: training ...", file=sys.stderr, flush=True)
            try:
                row = measure(job, train)
            except SystemFailed as error:
                report.failed[system] = str(error)
                print(f"{system} failed:\n{error}", file=sys.stderr)
                continue
            row.settings = common | ({} if recipe else {"alpha": alpha, "eta": eta}) | row.settings
            for number, point in enumerate(row.curve):
                point["perplexity"] = score(Path(folder), number, parts, alpha)
        finish(row, train.shape[0])
        report.rows.append(row)
    report.ratios = ratios(report.rows)
    return report


def jobs(
    args: argparse.Namespace, peers: list[str]
) -> list[tuple[str, dict[str, Any], list[float]]]:
    """Name, recipe (none for peers) and checkpoints of every system."""
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
        marks = [float(m) for m in PEERS[name].checkpoints]
        found.append((name, {}, [2.0] if args.quick else marks))
    return found


def measure(job: Job, train: Any) -> Row:
    """Run one system in a process of its own."""
    sp.save_npz(job.path("train.npz"), train, compressed=False)
    job.path("job.json").write_text(json.dumps(asdict(job)))
    peer = PEERS.get(job.system)
    blas = 1 if peer is not None and peer.by_processes else job.threads
    memory = run_process(
        "scripts.benchmarks.lda_job", Path(job.folder), job.path("log"), blas_threads=blas
    )
    result = Job(**json.loads(job.path("result.json").read_text()))
    version = blocklearn.__version__ if peer is None else peer.version
    return Row(job.system, version, result.settings, 0.0, {}, memory, result.curve)


def score(folder: Path, number: int, parts: Any, alpha: float) -> float:
    """Held-out perplexity of the topics that a system kept at a checkpoint."""
    return round(completion(np.load(folder / f"topics-{number}.npy"), parts, alpha)[0], 2)


def finish(row: Row, documents: int) -> None:
    """Fill in what follows from the curve."""
    last = row.curve[-1]
    for point in row.curve:
        speed = documents * point["passes"] / max(point["seconds"], 1e-9)
        point["documents_per_s"] = round(speed, 1)
    row.seconds = last["seconds"]
    names = ("perplexity", "passes", "documents_per_s", "own_cpu_seconds", "others_cpu_seconds")
    row.quality = {name: last[name] for name in names}


def ratios(rows: list[Row]) -> list[Ratio]:
    """For each peer and each of ours: its seconds to its final perplexity / our seconds to it.

    Ours are those of the first checkpoint at or below it: nothing is interpolated.
    """
    found = []
    for peer in (row for row in rows if row.system in PEERS):
        target = peer.quality["perplexity"]
        for ours in (row for row in rows if row.system not in PEERS):
            reached = [p for p in ours.curve if p["perplexity"] <= target]
            note = f"{peer.system}: {target:.1f} after {peer.seconds:.2f} s; {ours.system}: "
            value = None
            if reached:
                first = reached[0]
                value = round(peer.seconds / max(first["seconds"], 1e-9), 2)
                note += f"{first['perplexity']:.1f} after {first['seconds']:.2f} s"
            else:
                note += f"not reached, {min(p['perplexity'] for p in ours.curve):.1f} at best"
            found.append(Ratio(TO_FINAL, peer.system, ours.system, value, note))
            value = round(target / ours.quality["perplexity"], 4)
            found.append(Ratio("final perplexity", peer.system, ours.system, value))
    return found


def show(report: Report) -> str:
    """Tables of all systems, and of the ratios."""
    head = ["system", "version", "passes", "seconds", "docs/s", "perplexity", "MiB", "others %"]
    cores = report.machine["cores"]
    lines = []
    for row in report.rows:
        for point in row.curve:
            last = point is row.curve[-1]
            if row.system not in PEERS and not last and point["passes"] % 1:
                continue  # in the JSON
            share = 100 * point["others_cpu_seconds"] / max(cores * point["seconds"], 1e-9)
            lines.append(
                [
                    row.system, row.version, f"{point['passes']:g}", point["seconds"],
                    int(point["documents_per_s"]), point["perplexity"],
                    mib(row.memory) if last else None, round(share),
                ]
            )  # fmt: skip
    parts = [table(head, lines)]
    for row in report.rows:
        if "compile_seconds" in row.settings:
            parts.append(f"{row.system}: kernels compiled in {row.settings['compile_seconds']} s")
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
