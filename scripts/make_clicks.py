"""Make a log of clicks like Criteo's, in the layout that HugeCTR reads.

    .venv/bin/python -m scripts.make_clicks clicks --rows 50000000

writes `clicks/train` and `clicks/test`: Parquet files with a label, 13 numbers and 26 categories
(slots), and `_metadata.json` with the number of keys of each slot, 2^30 in all.
`configs/clicks.yaml` trains on it. A file of a million rows takes about 120 MB and some seconds.

How often keys occur follows a power law; common keys are scattered over the slot as a hash would.
Whether a row is a click is drawn from a logistic model with a weight for each key and number, so
the best AUC that a model can reach is known: it is printed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from blocklearn.datasources.arrays.hashing import GOLDEN, mix

NUMBERS, SLOTS = 13, 26
FILE, GROUP = 1_000_000, 100_000  # rows of a file, and of a row group
POWER = 1.1  # a key's share falls with this power of its rank
SPREAD, CLICKS = 0.5, -1.5  # of the weights of keys, and the score of an average row
ODD = 0x9E3779B1  # scatters ranks over a slot without meeting another one


def slot_sizes(bits: int) -> list[int]:
    """Return the keys of each slot: each has half of those of the one before, and at least 1.

    These are 2^bits in all from 25 bits on, a few more below.

    >>> slot_sizes(30)[:2], sum(slot_sizes(30)) == 2**30
    ([536870912, 268435456], True)
    """
    sizes = [2 ** max(0, bits - 1 - slot) for slot in range(SLOTS - 1)]
    return [*sizes, max(1, 2**bits - sum(sizes))]


def rows_of(number: int, rows: int, sizes: list[int], seed: int) -> tuple[dict[str, Any], Any]:
    """Return the columns of a file, and the probability of a click of each row."""
    rng = np.random.default_rng([seed, number])
    columns: dict[str, Any] = {}
    score = np.full(rows, CLICKS)
    for column in range(NUMBERS):
        values = np.log1p(rng.exponential(3.0, rows)).astype(np.float32)
        score += (values - 1.1) * (0.3 if column % 2 else -0.3)
        columns[f"I{column + 1}"] = values
    for slot, size in enumerate(sizes):
        ranks = _ranks(rng.random(rows), size)
        score += SPREAD * _weights(ranks, slot)
        columns[f"C{slot + 1}"] = ranks * ODD % size
    share = 1.0 / (1.0 + np.exp(-score))
    columns["label"] = (rng.random(rows) < share).astype(np.float32)
    return columns, share


def _ranks(uniform: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Return ranks from 0 to size - 1, by the inverse of a continuous power law."""
    power = 1.0 - POWER
    least = float(size + 1) ** power
    found = (1.0 - uniform * (1.0 - least)) ** (1.0 / power)
    return np.minimum(found.astype(np.int64) - 1, size - 1)


def _weights(ranks: NDArray[np.int64], slot: int) -> NDArray[np.float64]:
    """Return the weight of each key, uniform with mean 0 and variance 1, from a hash of it."""
    z = ranks.astype(np.uint64) * np.uint64(SLOTS) + np.uint64(slot + 1)
    return ((mix(z * GOLDEN) >> np.uint64(11)).astype(np.float64) / 2.0**53 - 0.5) * 12.0**0.5


def write(folder: Path, first: int, rows: int, sizes: list[int], seed: int) -> float:
    """Write `rows` rows from file `first` on; return the AUC of the model that drew the labels.

    Raises FileExistsError if the folder exists.
    """
    folder.mkdir(parents=True)
    files, labels, shares = [], [], []
    for number in range(-(-rows // FILE)):
        count = min(FILE, rows - number * FILE)
        columns, share = rows_of(first + number, count, sizes, seed)
        file = f"{number:04d}.parquet"
        pq.write_table(pa.table(columns), folder / file, row_group_size=GROUP)
        files.append({"file_name": file, "num_rows": count})
        labels.append(columns["label"])
        shares.append(share.astype(np.float32))
        print(f"{folder / file}: {count:,} rows", flush=True)
    names = list(columns)
    described = {
        role: [{"col_name": name, "index": names.index(name)} for name in names if name[0] == mark]
        for role, mark in {"labels": "l", "conts": "I", "cats": "C"}.items()
    }
    text = json.dumps({"file_stats": files, **described, "slot_size_array": sizes}, indent=1)
    (folder / "_metadata.json").write_text(text)
    return auc(np.concatenate(shares), np.concatenate(labels))


def auc(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the area under the ROC curve.

    >>> auc(np.array([1, 2, 3]), np.array([0, 1, 1]))
    1.0
    """
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    clicks = float(labels.sum())
    above = float(ranks[labels > 0].sum()) - clicks * (clicks + 1) / 2
    return above / max(1.0, clicks * (len(labels) - clicks))


def main() -> None:
    """Write the log that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Make a log of clicks like Criteo's.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="to train on")
    parser.add_argument("--test", type=int, default=200_000, help="rows to score")
    parser.add_argument("--bits", type=int, default=30, help="2^bits keys")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sizes = slot_sizes(args.bits)
    write(args.folder / "train", 0, args.rows, sizes, args.seed)
    files = -(-args.rows // FILE)
    best = write(args.folder / "test", files, args.test, sizes, args.seed)
    print(f"the model that drew the clicks has an AUC of {best:.4f} on {args.folder / 'test'}")


if __name__ == "__main__":
    main()
