"""Values of a parameter that the inner loop of tests leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rarely(*cases: Any) -> list[Any]:
    """Cases that run with `-m slow` only; a tuple is one case of several parameters."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def first_often(cases: Iterable[Any], often: int = 1) -> list[Any]:
    """The first cases always, the others with `-m slow` only."""
    listed = list(cases)
    return [*listed[:often], *rarely(*listed[often:])]
