"""Uses saved models that are larger than the memory of the process, pages of files included.

    python -m tests.support.large_models --folder /var/tmp/models

Models of about a gigabyte are made in the folder, which must not exist and is removed in the end.
Then each command of `learn` has a control group of its own (root, cgroup v1 or v2); a line tells
its exit status, seconds and the most memory of its group.
"""

import argparse
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from scripts.benchmarks.memory_limit import control_group, forget, join, most

ROWS, ENTRIES = 20_000, 20
Commands = list[list[str]]


def rows(columns: int) -> sp.csr_array:
    """Ones in columns that follow a power law."""
    rng = np.random.default_rng(0)
    uniform = rng.random(ROWS * ENTRIES)
    found = (np.exp(uniform * np.log(columns)) - 1).astype(np.int64) * 0x9E3779B1 % columns
    starts = np.arange(0, found.size + 1, ENTRIES)
    X = sp.csr_array(
        (np.ones(found.size, np.float32), found.astype(np.int32), starts), shape=(ROWS, columns)
    )
    X.sum_duplicates()
    return X


def linear(model: Any, columns: int, targets: int, folder: Path) -> Commands:
    """Save a linear model, or a factorization machine."""
    X = rows(columns)
    Y = (np.random.default_rng(1).random((ROWS, targets)) < 0.3).astype(np.float32)
    options: dict[str, Any] = {"optimizer": {"kind": "sgd"}, "block_rows": 4096, "verbose": False}
    bl.save(bl.Learner(model, (X, Y), **options).fit(), folder / "model")
    sp.save_npz(folder / "rows.npz", sp.csr_matrix(X))
    return [["predict", "--data", "rows.npz", "--out", "found.npy"], ["export", "--to", "tables"]]


def topics(folder: Path) -> Commands:
    """Save 200 topics of 1.5 million words."""
    X = rows(1_500_000)
    model = {"kind": "lda", "topics": 200, "inference": "vb"}
    bl.save(bl.Learner(model, X, block_rows=4096, verbose=False).fit(), folder / "model")
    sp.save_npz(folder / "rows.npz", sp.csr_matrix(X))
    predict = ["predict", "--data", "rows.npz", "--out", "found.npy"]
    return [predict, ["topics", "--top", "5"], ["export", "--to", "tables"]]


def factors(folder: Path) -> Commands:
    """Save 64 factors of 4 million users and 200,000 items."""
    users, items = 4_000_000, 200_000
    rng = np.random.default_rng(0)
    places = rng.integers(users, size=ROWS), rng.integers(items, size=ROWS)
    X = sp.csr_array((np.ones(ROWS, np.float32), places), shape=(users, items))
    model = {"kind": "als", "rank": 64}
    bl.save(bl.Learner(model, X, block_rows=4096, verbose=False).fit(), folder / "model")
    (folder / "users.txt").write_text("".join(f"{user}\n" for user in range(0, users, 40_000)))
    pairs = "".join(f"{user},{user % items}\n" for user in range(0, users, 400))
    (folder / "pairs.csv").write_text("user,item\n" + pairs)
    listed = ["recommend", "--users", "users.txt", "--include-seen", "--out", "lists.csv"]
    return [
        listed,
        ["predict", "--pairs", "pairs.csv", "--out", "found.csv"],
        ["export", "--to", "tables"],
    ]


MODELS = {
    "glm": lambda folder: linear("glm", 2**27, 2, folder),
    "fm": lambda folder: linear({"kind": "fm", "factors": 16}, 2**24, 1, folder),
    "lda": topics,
    "als": factors,
}


def used(command: list[str], folder: Path, limit: int) -> str:
    """Run a command of `learn` within the limit, and return what it took."""
    forget(folder / "model")  # its pages count for the group that reads them first
    learn = [str(Path(sys.executable).parent / "learn"), command[0], "model", *command[1:]]
    with control_group(limit) as group:
        begun, enter = time.monotonic(), partial(join, group)
        done = subprocess.run(learn, cwd=folder, capture_output=True, text=True, preexec_fn=enter)
        return (
            f"{command[0]}: {'done' if not done.returncode else done.stderr.strip()[-300:]}, "
            f"{time.monotonic() - begun:.1f} s, most of the group {most(group) >> 20} MB"
        )


def main() -> int:
    """Make each model, and use it."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.large_models")
    parser.add_argument("--only", choices=MODELS, action="append", help="[all]")
    parser.add_argument("--limit", type=float, default=0.5, help="gigabytes of memory")
    parser.add_argument("--folder", type=Path, required=True, help="new; removed in the end")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    try:
        for name in given.only or MODELS:
            folder = given.folder / name
            folder.mkdir()
            commands = MODELS[name](folder)
            nbytes = sum(file.stat().st_size for file in (folder / "model").iterdir())
            print(f"{name}: a model of {nbytes / 1e9:.2f} GB", flush=True)
            for command in commands:
                print(f"  {used(command, folder, int(given.limit * 1e9))}", flush=True)
            shutil.rmtree(folder)
        return 0
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
