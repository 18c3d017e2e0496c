"""Our steps in PyTorch and in CuPy, written as their users would write them.

Both keep results in memory pools of their own, and a row of the table for each non-zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from .measure import Row, Scale, agreement, timed

NUMBERS = 2**27  # in the rows of a table that a peer takes at a time, one row for each non-zero
SMALLEST = 1e-20  # least value of exp(digamma(x))
Step = Callable[[], Any]


class Peer(Protocol):
    """A package to compare with. Each method returns a step that computes anew when called."""

    def lda(self, X: Any, phi: Any, alpha: float, iterations: int) -> Step:
        """Return the E-step of variational Bayes from topics that are all 1.

        Its result is, for each entry, the count over its expectation.
        """

    def glm(self, X: Any, W: Any, Y: Any) -> Step:
        """Return X.T @ (sigmoid(X @ W) - Y), [m x t]."""

    def wait(self) -> None:
        """Wait until the device is idle."""

    def numpy(self, found: Any) -> Any:
        """Return a step's result on the host."""


class Torch:
    """See `Peer`.

    compiled: use torch.compile.

    Raises:
        ImportError: PyTorch or its GPU is missing.
    """

    def __init__(self, compiled: bool, device: str = "cuda") -> None:
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        self._torch, self._compiled, self._device = torch, compiled, device

    def _on(self, array: Any, dtype: Any = None) -> Any:
        return self._torch.tensor(array, dtype=dtype, device=self._device)

    def _entries(self, X: Any) -> tuple[Any, Any, Any]:
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        long = self._torch.long
        return self._on(rows, long), self._on(X.indices, long), self._on(X.data)

    def _step(self, work: Callable[..., Any], *args: Any) -> Step:
        run = self._torch.compile(work) if self._compiled else work
        return lambda: run(*args)

    def lda(self, X: Any, phi: Any, alpha: float, iterations: int) -> Step:
        """See `Peer`."""
        torch = self._torch

        def work(rows: Any, words: Any, x: Any, theta: Any) -> Any:
            for _ in range(iterations):
                ratio = x / (theta[rows] * words).sum(1)
                sums = torch.zeros_like(theta).index_add_(0, rows, ratio[:, None] * words)
                theta = torch.exp(torch.digamma(theta * sums + alpha)).clamp(min=SMALLEST)
            return x / (theta[rows] * words).sum(1)

        rows, columns, x = self._entries(X)
        start = torch.ones(X.shape[0], phi.shape[1], device=self._device)
        return self._step(work, rows, self._on(phi)[columns], x, start)

    def glm(self, X: Any, W: Any, Y: Any) -> Step:
        """See `Peer`. Transposing X is not timed."""

        def work(x: Any, turned: Any, weights: Any, targets: Any) -> Any:
            return turned @ (self._torch.sigmoid(x @ weights) - targets)

        matrices = (self._sparse(X), self._sparse(sp.csr_matrix(X.T)))
        return self._step(work, *matrices, self._on(W), self._on(Y))

    def _sparse(self, X: Any) -> Any:
        arrays = (self._on(X.indptr), self._on(X.indices), self._on(X.data))
        return self._torch.sparse_csr_tensor(*arrays, size=X.shape)

    def wait(self) -> None:
        """See `Peer`."""
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def numpy(self, found: Any) -> Any:
        """See `Peer`."""
        return found.cpu().numpy()


class CuPy:
    """See `Peer`; sparse products are those of cupyx.scipy.sparse.

    Raises:
        ImportError: CuPy is missing.
    """

    def __init__(self) -> None:
        import cupy
        import cupyx.scipy.sparse
        from cupyx.scipy.special import digamma

        self._np: Any = cupy
        self._sparse, self._digamma = cupyx.scipy.sparse, digamma

    def _entries(self, X: Any, table: Any) -> tuple[Any, ...]:
        """Return the matrix, the table, and each entry's row, number and row of the table."""
        on, table = self._sparse.csr_matrix(X), self._np.asarray(table)
        rows = self._np.asarray(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)))
        return on, table, rows, on.data.copy(), table[on.indices]

    def lda(self, X: Any, phi: Any, alpha: float, iterations: int) -> Step:
        """See `Peer`."""
        np = self._np
        on, table, rows, x, words = self._entries(X, phi)

        def work() -> Any:
            theta = np.ones((X.shape[0], phi.shape[1]), np.float32)
            for _ in range(iterations):
                on.data[:] = x / (theta[rows] * words).sum(1)
                theta = np.maximum(np.exp(self._digamma(theta * (on @ table) + alpha)), SMALLEST)
            return x / (theta[rows] * words).sum(1)

        return work

    def glm(self, X: Any, W: Any, Y: Any) -> Step:
        """See `Peer`. Transposing X is not timed."""
        np = self._np
        on, turned = (self._sparse.csr_matrix(sp.csr_matrix(x)) for x in (X, X.T))
        weights, targets = np.asarray(W), np.asarray(Y)
        return lambda: turned @ (1 / (1 + np.exp(-(on @ weights))) - targets)

    def wait(self) -> None:
        """See `Peer`."""
        self._np.cuda.get_current_stream().synchronize()

    def numpy(self, found: Any) -> Any:
        """See `Peer`."""
        return self._np.asnumpy(found)


PEERS: dict[str, Callable[[], Peer]] = {
    "PyTorch, eager": lambda: Torch(compiled=False),
    "CuPy and cupyx": CuPy,
    "PyTorch, torch.compile": lambda: Torch(compiled=True),  # last: compiling may take long
}


def fitting(X: Any, k: int) -> Any:
    """Return the first rows of X, at most as many as fit, at least one.

    Each entry takes a row of the table, k numbers.
    """
    within = int(np.searchsorted(X.indptr, NUMBERS // k, "right")) - 1
    return X[: max(1, within)]


def rows(
    scale: Scale,
    what: str,
    make: Callable[[Peer], Step],
    expected: Any,
    share: float,
    least: float,
) -> Iterator[Row]:
    """Yield a row for each peer: its seconds, and how its result differs from ours.

    what: name of the step.
    make: makes the step of a peer.
    expected: our result.
    share: the share of the work that the peers get; seconds are scaled by it.
    """
    for name, peer in PEERS.items():
        label = f"{what}: {name}"
        if scale.late:
            return
        try:
            with_peer = peer()
            step = make(with_peer)
            seconds = timed(step, with_peer.wait, scale.least) / share
            note = agreement(with_peer.numpy(step()), expected, of="ours")
            yield Row(label, seconds, None, least, note.removeprefix("failed: "))
        except ImportError as error:
            yield Row(label, note=f"not installed: {error}")
        except Exception as error:  # errors of peers are not failures of ours
            yield Row(label, note=f"does not work: {type(error).__name__}: {error}")
