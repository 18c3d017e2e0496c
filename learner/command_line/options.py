"""Options that modules share, their checks, and options made from fields of dataclasses."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from ..conversion.settings import FormatOptions, Settings
from ..storage.table_file import TABLES

if TYPE_CHECKING:
    from blocklearn.models import Model

Command = TypeVar("Command", bound=Callable[..., None])


def file_option(flag: str, about: str, metavar: str = "FILE") -> Any:
    """Declare an option that is a path. Reading, not Typer, says why a file cannot be read."""
    return typer.Option(flag, metavar=metavar, readable=False, help=about)


def file_argument(metavar: str, about: str) -> Any:
    """Declare an argument that is a path, likewise."""
    return typer.Argument(metavar=metavar, readable=False, help=about)


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
ModelClassOption = Annotated[
    str | None,
    typer.Option(
        "--model-class",
        metavar="NAME",
        help="Class of a model that does not come with blocklearn: FILE.py:CLASS, "
        "package.module:CLASS, or its name in `learn kinds`.",
    ),
]


# ---- commands on trained models ------------------------------------------------------------------

RESULTS = (*TABLES, ".npy")
"""Endings of files of results."""

RunArgument = Annotated[Path, file_argument("RUN", "Folder of a run or model.")]
TopOption = Annotated[int, typer.Option("--top", min=1, help="Length of the lists.")]
ListsOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write lists to a .parquet, .csv or .tsv file, here or in a store (s3://...).",
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace old files.")]
DeviceOption = Annotated[
    str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:N, auto.")
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-unknown", help="Leave out users and items that the model does not know."),
]
ReplicasOption = Annotated[
    str,
    typer.Option(
        "--replicas",
        metavar="N",
        help="Copies of the model, which share the blocks; auto, with --device cuda: one for each "
        "GPU.",
    ),
]
TrainedSeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="CHAR", help="Separator of tables [as in the training data]."
    ),
]
FieldOption = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="FIELD",
        help="JSON lines, tables: field with the text [as in the training data].",
    ),
]
DATA = typer.Option(
    "--data",
    metavar="PATH",
    help="Data of the kind that the run was trained on (table, ratings, ...); else files of "
    "any format that `learn convert` reads, or a block dataset.",
)
DataOption = Annotated[str, DATA]


def model_class(text: str | None) -> "type[Model] | None":
    """Import the class that `--model-class` names; None: it is one of blocklearn.

    Raises:
        ConfigError: it cannot be imported.
    """
    if text is None:
        return None
    from ..configuration.class_names import FORM, ClassNameError
    from ..configuration.kinds import named_class
    from ..errors import ConfigError

    try:
        found = named_class(text, "models")
    except ClassNameError as error:
        raise ConfigError([f"--model-class={text!r}: {error}"]) from error
    if found is None:
        raise ConfigError(
            [f"--model-class={text!r}: must be {FORM}, or be listed by `learn kinds`."]
        )
    return found


def spelled(name: str) -> str:
    """Return the option of a parameter: `--hash-bits` for `hash_bits`."""
    return "--" + name.replace("_", "-")


def options_of(*classes: type) -> Iterator[Parameter]:
    """Yield the fields of dataclasses as parameters of a command, by their metadata."""
    for class_ in classes:
        hints = get_type_hints(class_)
        for field in fields(class_):
            annotation = Annotated[hints[field.name], _option(field)]  # type: ignore[valid-type, name-defined]
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=annotation,
            )


def _option(field: Field[Any]) -> Any:
    about = dict(field.metadata)
    return typer.Option(*about.pop("flag", spelled(field.name)).split(), **about)


def with_options(*classes: type, after: str) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command behind its parameter `after`.

    The options are the fields of `classes`; the command receives them as `**settings`.
    """

    def decorate(command: Command) -> Command:
        own = [p for p in signature(command).parameters.values() if p.kind != p.VAR_KEYWORD]
        at = 1 + [p.name for p in own].index(after)
        own[at:at] = options_of(*classes)
        return _taking(command, own)

    return decorate


def taken(class_: type, options: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of a dataclass out of the options of a command."""
    return {field.name: options.pop(field.name) for field in fields(class_)}


VERBOSE = Parameter(
    "verbose",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--verbose", "-v", help="Print tracebacks of all errors.")
    ],
)


def with_verbose(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes --verbose, too, which `main` looks for."""

    @wraps(command)
    def run(verbose: bool, **given: Any) -> None:
        command(**given)

    return _taking(run, [*signature(command).parameters.values(), VERBOSE])


def _taking(command: Command, parameters: Sequence[Parameter]) -> Command:
    """Show Typer other parameters of a command than it has."""
    own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = signature(command).replace(parameters=own)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in own}
    return command


def _of(class_: type, name: str) -> Any:
    return _option(next(field for field in fields(class_) if field.name == name))


FormatOption = Annotated[str | None, _of(Settings, "format")]
SeparatorOption = Annotated[str | None, _of(FormatOptions, "separator")]
TextOption = Annotated[str | None, _of(FormatOptions, "text")]


def count_of(replicas: str) -> int | Literal["auto"]:
    """Return the number that `--replicas` tells. Raises BadParameter if it tells none."""
    if replicas == "auto":
        return "auto"
    if not replicas.isdecimal() or int(replicas) < 1:
        raise typer.BadParameter("must be a number above 0, or auto", param_hint="--replicas")
    return int(replicas)


def check_table(out: str | None) -> None:
    """Raise BadParameter unless results go to a table, or to the terminal."""
    if out is not None and ending(out) not in TABLES:
        raise typer.BadParameter(f"must end in {listed(TABLES)}", param_hint="--out")


def listed(endings: Sequence[str]) -> str:
    """Return the endings as a message lists them."""
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def ending(file: str) -> str:
    """Return the ending of the name of a file, or of the URL of one.

    >>> ending("s3://bucket/p.parquet?region=eu-west-1"), ending("p.npy")
    ('.parquet', '.npy')
    """
    return PurePosixPath(file.partition("?")[0] if "://" in file else file).suffix


def local(file: str) -> Path:
    """Return the path of a file. Raises BadParameter for the URL of one in a store."""
    if "://" in file:
        raise typer.BadParameter("must be a file of this machine here", param_hint="--out")
    return Path(file)


def check_apart(out: Path | str | None, *read: Path | str | None) -> None:
    """Raise BadParameter if the results would replace a file that the command reads."""
    for each in read:
        there = out is not None and each is not None and Path(out).exists() and Path(each).exists()
        if there and os.path.samefile(str(out), str(each)):
            raise typer.BadParameter(f"{out}: would replace what is read", param_hint="--out")


def check_new(out: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done for it. "-" is standard output."""
    from ..files.existing import check_new as check_free

    if out is not None and str(out) != "-" and not overwrite:
        check_free([out])
