"""Answer commands and options of other programs with those of `learn`."""

from collections.abc import Iterator, Sequence
from typing import Any

from blocklearn.synonyms import meant

SETTING = "--set"
YAML = (".yaml", ".yml")


def hints(group: Any, arguments: Sequence[str]) -> Iterator[str]:
    """Yield a line for each word of wrong usage that has another name here.

    group: the commands, as typer makes them.
    """
    name, *rest = arguments
    if name not in group.commands:
        command = meant(name, group.commands)
        if command is not None:
            yield f"{name}: did you mean `learn {command}`?"
        elif name.endswith(YAML):
            yield f"{name}: did you mean `learn --config {name}`?"
        return
    if name == "train" and rest and rest[0].endswith(YAML):
        yield f"{rest[0]}: did you mean `learn --config {rest[0]}`?"
    parameters = group.commands[name].params
    options = [option for one in parameters for option in one.opts if option.startswith("--")]
    places = {one.name: one for one in parameters if one.param_type_name == "argument"}
    for word in _options(rest):
        if word in options:
            continue
        option = meant(word, options)
        place = meant(word, places)
        if option is not None:
            yield f"{word}: did you mean {option}?"
        elif place is not None:
            shown = places[place].metavar or place.upper()
            yield f"{word}: did you mean the argument {shown}? `learn {name} {shown}`"
        elif SETTING in options and (home := _home(word)):
            yield f"{word}: did you mean {SETTING} {home}=VALUE?"


def _options(arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        if argument == "--":
            return
        if argument.startswith("--"):
            yield argument.partition("=")[0]


def _home(word: str) -> str | None:
    from ..configuration.config import RunConfig
    from ..configuration.schema_names import SchemaNames

    return next(SchemaNames(RunConfig).homes(word), None)
