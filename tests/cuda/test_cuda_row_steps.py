"""Steps of single rows as CUDA text, run on the host: what the CPU kernel does, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blocklearn.matcache import Mat
from blocklearn.matcache.containers import dispatch as table
from blocklearn.matcache.emit.cuda_row_steps import row_steps_source
from blocklearn.matcache.operations.row_steps import number_of
from tests.matcache.test_row_steps import RULES, TERMS, by_rows, labelled, steps
from tests.support import cuda_host
from tests.support.backends import needs_compiler
from tests.support.cubin import nvrtc, resources
from tests.support.often import rarely
from tests.support.optimizing import FEATURES, ROWS

pytestmark = needs_compiler


class OnHost:
    """Launches of `row_steps` that run the CUDA text with so many threads; `sources`: what ran."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.sources: set[str] = set()

    def __call__(
        self, cache: Any, found: Any, X: Any, fixed: list[Any], given: list[Any], tables: list[Any]
    ) -> None:
        if cache.reserving:
            return
        source = row_steps_source(found.plan)
        self.sources.add(source)
        arrays = [slot.data() for slot in (found.scores, found.residuals, found.strips)]
        for array in arrays:
            array.fill(np.nan)
        scores, residuals, strips = arrays
        call = [X.shape[0], *X.pattern.offsets(), X.slot.data()]
        call += [mat.slot.data() for mat in fixed]
        call += [
            scores,
            *(a.slot.data() if isinstance(a, Mat) else np.float64(number_of(a)) for a in given),
        ]
        call += [residuals, *(mat.slot.data() for mat in tables), strips.shape[1], strips]
        module = cuda_host.HostModule(source, abs(self.threads), backwards=self.threads < 0)
        module.call("run", *call)


@pytest.mark.parametrize(
    ("rule", "terms", "targets", "threads"),
    [
        ("adam", "each target its own", 3, 256),
        *rarely(*((r, "each target its own", 3, 256) for r in RULES if r != "adam")),
        *rarely(("sgd", "elastic net", 1, 1), ("adam", "each target its own", 3, 1)),
        ("ftrl", "l1", 1, -256),
        ("adagrad", "elastic net", 9, -256),
    ],
)
def test_cuda_text_does_what_the_cpu_does(
    monkeypatch: pytest.MonkeyPatch, rule: str, terms: str, targets: int, threads: int
) -> None:
    data = labelled(2, targets=targets)
    w0 = np.random.default_rng(0).normal(size=(FEATURES, targets))
    weights = np.ones((ROWS, 1))
    weights[2], weights[3] = 0, 2

    def run() -> Any:
        mixins = TERMS[terms]
        return steps(by_rows(rule), data, w0, single=True, mixins=mixins, weights=weights)

    wanted = run()
    host = OnHost(threads)
    monkeypatch.setitem(table._launches, ("row_steps", "cpu"), host)
    got = run()
    assert host.sources
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    if threads == 1:
        for source in host.sources:
            for architecture in ("80", "90", "100"):
                for needs in resources(nvrtc(source, architecture)).values():
                    assert needs.frame == 0
