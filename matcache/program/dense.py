"""Make the program of a dense expression: its row is as wide as the result."""

from __future__ import annotations

from .instructions import WIDTH, Access, Apply, Argument, Ending, Instruction, Kind, Program, Value

Reference = tuple[str, int]  # ("leaf", n) or ("step", n)
Step = tuple[str, tuple[Reference, ...]]  # an operation and its arguments

_READ = {
    "full": (Access.ROWS, Kind.VEC),
    "row": (Access.SHARED, Kind.VEC),
    "column": (Access.ROWS, Kind.ROW),
    "one": (Access.NUMBER, Kind.UNI),
    "number": (Access.NUMBER, Kind.UNI),
    "random": (Access.RANDOM, Kind.VEC),
}


def dense_program(
    leaves: tuple[tuple[str, int], ...], steps: tuple[Step, ...], ending: Ending, dtype: str
) -> Program:
    """Return the program of an expression, whose value is that of its last step.

    leaves: how each input is read, and the stream of random numbers. Kinds are full, row (1 x n),
    column (m x 1), one (1 x 1), number and random.
    steps: without any, the value is the only leaf.

    Every step is computed for each element, also one that needs only a column.
    """
    arguments: list[Argument] = []
    values: dict[Reference, Value] = {}
    body: list[Instruction] = []
    for n, (kind, stream) in enumerate(leaves):
        access, extent = _READ[kind]
        form = "number" if kind == "number" else "mat"
        length = WIDTH if extent is Kind.VEC else 1
        rows = {"rows_one": kind in ("row", "one"), "rowlike": kind in ("full", "column")}
        arguments.append(Argument(form, f"leaf {n}", length, **rows, stream=stream))
        values["leaf", n] = Value(n, extent, length, n, access)
    for n, (op, references) in enumerate(steps or (("copy", (("leaf", 0),)),)):
        out = values["step", n] = Value(len(leaves) + n, Kind.VEC, WIDTH)
        body.append(Apply(out, op, tuple(values[r] for r in references)))
    return Program("expression", tuple(arguments), body, (out,), dtype, ending)
