"""`learn init` and `learn lda FILE`, `learn als FILE` and so on: from data to a first run.

Nothing heavy is imported before a command runs.
"""

from collections.abc import Callable
from enum import StrEnum
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..terminal import show_lines, show_text
from .options import file_argument, file_option, taken, with_options
from .train_commands import Manner, Overrides, execute, resolved

TargetOption = Annotated[
    str | None,
    typer.Option("--target", metavar="COLUMN", help="The column to predict [it is found]."),
]


class Start(StrEnum):
    """The models of `learn init`, and what they learn from."""

    lda = "lda"
    nmf = "nmf"
    als = "als"
    ranking = "ranking"
    glm = "glm"
    fm = "fm"
    kmeans = "kmeans"
    svd = "svd"
    gaussian_mixture = "gaussian-mixture"
    word_vectors = "word-vectors"
    pagerank = "pagerank"
    components = "components"
    triangles = "triangles"


LINKS = (
    "FILE: a table of links with two columns, the page of a link and the page it leads to; or a "
    "square matrix (.npz, .mtx) with a row for each page that has links."
)
WHAT = {
    Start.lda: "Find topics of texts.\n\n"
    "FILE: texts (a folder, .txt, .jsonl, or a table with a column of texts), or counts (.npz, "
    ".mtx, .ldac).",
    Start.nmf: "Find parts of texts, or of other counts.\n\nFILE: as for `learn lda`.",
    Start.als: "Learn from ratings or purchases.\n\nFILE: a table of users and items.",
    Start.ranking: "Learn to rank items from what users bought or clicked.\n\n"
    "FILE: a table of users and items.",
    Start.glm: "Learn to predict a number or a class.\n\n"
    "FILE: a table, or LIBSVM text; without --target, the column to predict is called target, "
    "label or class, or is the last one.",
    Start.fm: "Learn to predict from pairs of features.\n\nFILE: as for `learn glm`.",
    Start.kmeans: "Find clusters of rows.\n\n"
    "FILE: a table, LIBSVM text, or texts as for `learn lda`.",
    Start.svd: "Find the directions in which rows differ.\n\nFILE: as for `learn kmeans`.",
    Start.gaussian_mixture: "Describe rows by normal distributions.\n\n"
    "FILE: a table, or LIBSVM text.",
    Start.word_vectors: "Learn a vector for each word of texts.\n\n"
    "FILE: a folder, .txt, .jsonl, or a table with a column of texts.",
    Start.pagerank: f"Score pages by the links that lead to them.\n\n{LINKS}",
    Start.components: f"Find groups of pages that are connected by links.\n\n{LINKS}",
    Start.triangles: f"Count triangles of pages that all link to each other.\n\n{LINKS}",
}


def init(
    model: Annotated[
        Start,
        typer.Argument(
            metavar="MODEL",
            help=f"{', '.join(list(Start)[:-1])} or {list(Start)[-1]}.",
        ),
    ],
    file: Annotated[
        Path | None, file_argument("[FILE]", "Your data [data that come with blocklearn].")
    ] = None,
    out: Annotated[
        Path | None,
        file_option("--out", "Configuration to write, - for stdout [MODEL.yaml].", "YAML"),
    ] = None,
    target: TargetOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an old file.")] = False,
) -> None:
    """Look at data, and write a configuration with comments.

    Run it with `learn --config YAML`.
    """
    from blocklearn.durable import write_file

    from ..starting.write import configuration

    text = configuration(model.value, file, target)
    if out is not None and str(out) == "-":
        show_text(text.removesuffix("\n"))
        return
    path = Path(f"{model.value}.yaml") if out is None else out
    if path.exists() and not overwrite:
        raise typer.BadParameter(f"{path} exists; --overwrite replaces it", param_hint="--out")
    write_file(path, text.encode())
    show_lines([f"{path}: run it with `learn --config {path}`"])


def _short(model: Start) -> Callable[..., None]:
    """Return the command that trains `model` on a file."""

    @with_options(Overrides, Manner, after="target")
    def command(
        file: Annotated[Path, file_argument("FILE", "Your data.")],
        target: TargetOption = None,
        **options: Any,
    ) -> None:
        from ..starting.write import settings

        defaults, note = settings(model.value, file, target)
        name = f"{model.value}-{file.name.split('.')[0]}"
        manner = Manner(**taken(Manner, options))
        run = resolved([], options, defaults, name)
        execute(run, manner, note=f"{file}: {note}" if note else "")

    if model not in (Start.glm, Start.fm):
        whole = signature(command)
        others = [p for name, p in whole.parameters.items() if name != "target"]
        command.__signature__ = whole.replace(parameters=others)  # type: ignore[attr-defined]
    command.__name__ = model.value
    command.__doc__ = f"{WHAT[model]} `learn init {model.value} FILE` writes its settings."
    return command


SHORT = [_short(model) for model in Start]
"""`learn lda FILE` and the others."""
