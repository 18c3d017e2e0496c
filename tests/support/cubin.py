"""Compile CUDA text for tests: without NVRTC they are skipped."""

from __future__ import annotations

import pytest

from scripts.gpu_check.cubins import Resources, compiled, resources

__all__ = ["ARCHITECTURES", "TEXTS", "Resources", "nvrtc", "ptx", "resources"]
ARCHITECTURES = ["90", *(pytest.param(a, marks=pytest.mark.slow) for a in ("80", "100"))]
"""Parameters of tests that compile for three kinds of cards: each takes NVRTC a second."""

TEXTS = ("80", "90")
"""Cards that compile different text: from 9.0 on, blocks of threads work in teams."""


def nvrtc(source: str, architecture: str = "90") -> bytes:
    """Compile for sm_`architecture`; needs no GPU and no driver."""
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    (cubin,) = compiled(source, f"sm_{architecture}", "getCUBIN")
    return cubin


def ptx(source: str) -> str:
    """The assembly text for compute capability 9.0."""
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    (text,) = compiled(source, "compute_90", "getPTX")
    return text.decode()
