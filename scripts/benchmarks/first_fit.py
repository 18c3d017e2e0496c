"""Time the first fit of a classifier in a process of its own: imports, loading, compiling, fitting.

`python -m scripts.benchmarks.first_fit FOLDER CLASS` prints the processor seconds. FOLDER has X.npz
and y.npy. CLASS is a key of `CLASSES`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .process import ROOT

CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "GLMClassifier": ("blocklearn", {"n_jobs": 1, "random_state": 0}),
    "logistic": ("sklearn.linear_model:LogisticRegression", {}),
    "liblinear": ("sklearn.linear_model:LogisticRegression", {"solver": "liblinear"}),
    "sgd": ("sklearn.linear_model:SGDClassifier", {"loss": "log_loss", "random_state": 0}),
}


def first_fit(name: str, folder: Path, *, compiled: bool) -> float:
    """Return the processor seconds of imports and the first fit, with one thread.

    compiled: whether kernels may be on disk from an earlier process.
    """
    own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if not compiled:
        own |= {"BLOCKLEARN_CACHE": str(folder / "kernels"), "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(folder), name],
        env=os.environ | own,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def main(folder: Path, name: str) -> None:
    """Fit once, and print the processor seconds."""
    X, y = sp.load_npz(folder / "X.npz"), np.load(folder / "y.npy")
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    place, settings = CLASSES[name]
    module, _, found = place.partition(":")
    begun = time.process_time()
    getattr(import_module(module), found or name)(**settings).fit(X, y)
    print(time.process_time() - begun)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
