"""No file imports, through other files, one that imports it: each is understood from below."""

from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.layout.test_layers import FOLDERS, ROOT, imports, sources

CIRCLES = {
    "hooks get the learner, which makes the hook that saves checkpoints": (
        "learner/hooks learner/learner learner/checkpoints/hook learner/checkpoints/saving"
    ),
    "matrices, their cache, its backend and its tape need each other": (
        "matcache/containers/backend matcache/containers/block_number matcache/containers/cache"
        " matcache/containers/lazy matcache/containers/matrices matcache/containers/tape"
    ),
}
"""Files that import each other, and why. Take out what does not any more."""


def test_files_import_each_other_only_in_known_circles() -> None:
    check(*CIRCLES)
    for why in CIRCLES:
        with pytest.raises(CycleError):
            check(*CIRCLES.keys() - {why})


def check(*known: str) -> None:
    """Raise CycleError, which names the files, for a circle that is not known."""
    circle = {file: why for why in known for file in CIRCLES[why].split()}
    graph: dict[str, set[str]] = {}
    for file, others in imported().items():
        own = circle.get(file, file)
        graph.setdefault(own, set()).update({circle.get(each, each) for each in others} - {own})
    TopologicalSorter(graph).prepare()


@cache
def imported() -> dict[str, set[str]]:
    """Return the files that each file imports, also for types only.

    Files that only hand names on, `__init__.py`, are left out.
    """
    paths = [path for folder in FOLDERS for path in sources(folder)]
    names = {path: path.relative_to(ROOT).with_suffix("").as_posix() for path in paths}
    known, found = set(names.values()), {}
    for path, name in names.items():
        modules = [module.removeprefix("blocklearn.").split(".") for _, module in imports(path)]
        found[name] = {"/".join(parts[:n]) for parts in modules for n in (len(parts), -1)} & known
    return found
