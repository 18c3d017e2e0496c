"""Options that commands of several files have."""

from typing import Annotated

import typer

VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of all errors.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--separator", metavar="CHAR", help="Between fields [comma; tab in .tsv]."),
]
TextOption = Annotated[
    str | None,
    typer.Option(
        "--text", metavar="FIELD", help="Of JSON lines and tables: where the text is [text]."
    ),
]
