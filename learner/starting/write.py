"""Begin a configuration for a model and the data that a user has: as settings, or as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..configuration.leaves import flat
from ..configuration.yaml_config import DELIVERED, Setting
from ..conversion.folder import nbytes
from ..errors import ConfigError
from ..terminal import printable
from .data import DIRECTIONS, start_for

WIDTH = 28  # characters before a comment
FEW = 1 << 17  # bytes of data from which a small share would be no row, or a few
SHARE_OF_FEW = 0.2


@dataclass(frozen=True)
class Begun:
    """Settings of a model that do not depend on the data.

    model: keys of `model`; passes: None: the default.
    held_out: the share that is scored; None: the data that are trained on.
    data: further keys of `data`.
    """

    model: dict[str, Any]
    passes: int | None
    held_out: float | None = None
    data: dict[str, Any] = field(default_factory=dict)


BEGUN = {
    "lda": Begun({"topics": 20, "inference": "gibbs"}, 30, 0.05),
    "nmf": Begun({"components": 20, "loss": "kullback-leibler"}, 30, 0.05),
    "als": Begun({}, 10, 0.1, {"shuffle": False}),
    "ranking": Begun({}, 30, 0.1, {"block_rows": 64}),
    "glm": Begun({}, 10, 0.1, {"shuffle": "blocks"}),
    "fm": Begun({"factors": 8}, 10, 0.1, {"shuffle": "blocks"}),
    "kmeans": Begun({"clusters": 20}, 10, 0.05),
    "svd": Begun({"components": DIRECTIONS}, 8, 0.05),
    "gaussian-mixture": Begun({"components": 10, "reg_covar": 0.01}, 20, 0.05),
    "word-vectors": Begun({"dimensions": 100}, 5, 0.05),
    "pagerank": Begun({"damping": 0.85}, 100),
    "components": Begun({}, 100),
    "triangles": Begun({}, None),
}

TOLD = {
    "topics": "few for an overview, 100 and more for large collections",
    "inference": "sampled sweeps after one pass of cvb0: the best topics",
    "components": "the number of parts, directions or distributions",
    "factors": "numbers that describe a feature in pairs",
    "clusters": "the number of groups",
    "dimensions": "length of a vector",
    "damping": "how often the surfer follows a link, and does not start anew",
    "reg_covar": "added to each variance: columns may be constant within a group",
    "rank": "numbers that describe a user or an item",
    "reg": "tried on a part of the data first; or a number, larger for few ratings",
    "alpha": "a count c has the weight 1 + alpha * c",
    "l2": "larger: smaller weights",
    "eval": "held out, to score the model",
    "block_rows": "items move after each block of users",
    "passes": "over the data",
    "report": "a page with curves and results: OUT/report.html",
}
"""Comments on keys."""


def begun(
    model: str, path: Path, target: str | None = None
) -> tuple[dict[str, Any], dict[str, str], str]:
    """Return the settings for `model` on the data at `path`, and comments on their keys.

    The last text says which columns are left out, or were chosen; or it is empty.

    Takes `target` and raises as `start_for`.
    """
    start, own = start_for(model, path, target), BEGUN[model]
    held, passes = start.train, {} if own.passes is None else {"passes": own.passes}
    if own.held_out is not None:
        share = SHARE_OF_FEW if nbytes(path) < FEW else own.held_out
        held = {"kind": "holdout", "share": share}
    tree = {
        "model": {"kind": model, **own.model, **start.model},
        "data": {"train": start.train, "eval": held, **own.data},
        **({"optimizer": start.optimizer} if start.optimizer else {}),
        "learner": {**passes, **start.learner, "seed": 1, "report": True},
    }
    left = ", ".join(start.left_out)
    without = f"left out (dates, long texts): {left}" if left else ""
    told = TOLD | start.told | ({"numeric": without} if without else {})
    if start.note:
        told["categorical"] = start.note
    return tree, told, "; ".join(filter(None, (without, start.note)))


def settings(model: str, path: Path, target: str | None = None) -> tuple[list[Setting], str]:
    """Return the defaults of a configuration for the data at `path`, and a note, see `begun`.

    Takes `target` and raises as `start_for`.
    """
    tree, _, note = begun(model, path, target)
    origin = f"learn {model} {path}"
    return [Setting(name, json.dumps(value), origin) for name, value in flat(tree)], note


def configuration(model: str, path: Path | None, target: str | None = None) -> str:
    """Return the text of a configuration; without a path, of the one that needs no data.

    Takes `target` and raises as `start_for`.
    """
    if path is None:
        if target is not None:
            raise ConfigError([f"--target={target!r}: must be a column of a file; FILE is missing"])
        return (DELIVERED / f"{model}.yaml").read_text(encoding="utf-8")
    tree, told, _ = begun(model, path, target)
    lines = [
        f"# {model.upper()} of {printable(path.name)}, begun by `learn init`.",
        "# `learn --config THIS_FILE` trains; `learn config --config THIS_FILE` prints it all.",
        *(line for name in tree for line in ("", f"{name}:", *pairs(tree[name], told, 2))),
    ]
    return "\n".join(lines) + "\n"


def pairs(section: Mapping[str, Any], told: Mapping[str, str], indent: int) -> Iterator[str]:
    """Yield a line for each setting of a section, with its comment."""
    for key, value in section.items():
        if key == "train":
            yield f"{' ' * indent}{key}:"
            yield from pairs(value, told, indent + 2)
            continue
        line = f"{' ' * indent}{key}: {scalar(value)}"
        yield f"{line.ljust(WIDTH)}  # {printable(told[key])}" if key in told else line


def scalar(value: Any) -> str:
    """Return a value in the flow style of YAML, texts in quotes where they need them.

    >>> scalar("lda"), scalar("a: b"), scalar({"share": 0.1}), scalar([1, "x y"])
    ('lda', '"a: b"', '{share: 0.1}', '[1, "x y"]')
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {scalar(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(scalar, value))}]"
    plain = isinstance(value, str) and value.isascii() and value.replace("-", "").isalpha()
    if plain and value.lower() not in ("null", "true", "false") and not value.startswith("-"):
        return str(value)
    return json.dumps(value, ensure_ascii=not str(value).isprintable())
