"""Options that modules share, and options made from fields of dataclasses."""

from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from ..conversion.settings import FormatOptions, Settings

if TYPE_CHECKING:
    from blocklearn.models import Model

Command = TypeVar("Command", bound=Callable[..., None])


def file_option(flag: str, about: str, metavar: str = "FILE") -> Any:
    """Declare an option that is a path. Reading, not Typer, says why a file cannot be read."""
    return typer.Option(flag, metavar=metavar, readable=False, help=about)


def file_argument(metavar: str, about: str) -> Any:
    """Declare an argument that is a path, likewise."""
    return typer.Argument(metavar=metavar, readable=False, help=about)


VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print tracebacks of all errors.")
]
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
    return typer.Option(about.pop("flag", spelled(field.name)), **about)


def with_options(*classes: type, after: str) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command behind its parameter `after`.

    The options are the fields of `classes`; the command receives them as `**settings`.
    """

    def decorate(command: Command) -> Command:
        own = [p for p in signature(command).parameters.values() if p.kind != p.VAR_KEYWORD]
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        at = 1 + [p.name for p in own].index(after)
        own[at:at] = options_of(*classes)
        command.__signature__ = signature(command).replace(parameters=own)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in own}
        return command

    return decorate


def _of(class_: type, name: str) -> Any:
    return _option(next(field for field in fields(class_) if field.name == name))


FormatOption = Annotated[str | None, _of(Settings, "format")]
SeparatorOption = Annotated[str | None, _of(FormatOptions, "separator")]
TextOption = Annotated[str | None, _of(FormatOptions, "text")]
