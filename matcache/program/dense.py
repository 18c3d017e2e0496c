"""Make the program of dense expressions of one shape: its row is as wide as they are."""

from __future__ import annotations

from .instructions import WIDTH, Access, Apply, Argument, Ending, Kind, Program, Value

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
    leaves: tuple[tuple[str, int], ...],
    steps: tuple[Step, ...],
    roots: tuple[Reference, ...],
    endings: tuple[Ending, ...],
    dtype: str,
    in_place: tuple[tuple[int, int], ...] = (),
) -> Program:
    """Return the program of expressions.

    leaves: how each input is read, and the stream of random numbers. Kinds are full, row (1 x n),
    column (m x 1), one (1 x 1), number and random.
    roots: the values of the expressions.
    endings: what becomes of each root.
    in_place: pairs (leaf, root) that are one array.

    Every step is computed for each element, also one that needs only a column.
    """
    arguments: list[Argument] = []
    values: dict[Reference, Value] = {}
    body: list[Apply] = []
    for n, (kind, stream) in enumerate(leaves):
        access, extent = _READ[kind]
        form = "number" if kind == "number" else "mat"
        length = WIDTH if extent is Kind.VEC else 1
        rows = {"rows_one": kind in ("row", "one"), "rowlike": kind in ("full", "column")}
        arguments.append(Argument(form, f"leaf {n}", length, **rows, stream=stream))
        values["leaf", n] = Value(n, extent, length, n, access)

    def apply(op: str, *args: Value) -> Value:
        body.append(Apply(Value(len(leaves) + len(body), Kind.VEC, WIDTH), op, args))
        return body[-1].out

    for n, (op, references) in enumerate(steps):
        values["step", n] = apply(op, *[values[r] for r in references])
    returns: list[Value] = []
    for root in roots:
        value = values[root]
        returns.append(apply("copy", value) if value.arg >= 0 or value in returns else value)
    results = tuple(returns)
    return Program(
        "expression", tuple(arguments), [*body], results, dtype, endings, in_place=in_place
    )
