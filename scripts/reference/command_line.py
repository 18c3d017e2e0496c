"""Reference of the command line, generated from the commands of `learn`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from blocklearn.learner.command_line.cli import app

from .markdown import code, escaped, table


def command_line_page() -> str:
    """Return every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    return "\n".join(section for command in group.commands.values() for section in of(command))


def of(command: Any) -> Iterator[str]:
    """Yield the section of a command."""
    context = command.make_context(command.name, [], resilient_parsing=True)
    yield f"## learn {command.name}\n"
    yield escaped(" ".join((command.help or "").split())) + "\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\nlearn {command.name} {pieces}\n```\n"
    records = (parameter.get_help_record(context) for parameter in command.params)
    rows = [(code(record[0]), escaped(record[1])) for record in records if record is not None]
    if rows:
        yield table(("option", "meaning"), rows)
