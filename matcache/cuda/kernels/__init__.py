"""The hand-written CUDA kernels, as texts of modules: `*.cu`.

Each kernel has the semantics of the CPU kernel of the same name and, where it says so, its bits.
Blocks have 256 threads, those of `cholesky.cu` `solvers(k)`, those of samplers see `where_counts`.
Every kernel loops over its work with any number of blocks.

Longer than 300 lines: a function for each module.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...emit.cuda_header import TEAMS, device_header, lanes_for, pack_for

SORT_TILE = 1024  # numbers that one block of threads sorts
GIBBS_LANES = 16  # of the sampler: lanes that have a row
SHARED = 48 << 10  # bytes that a block of threads may share
IN_REGISTERS, IN_SHARED, IN_MEMORY = range(3)  # counts of topics; as in `draw.cu`
MOST_IN_REGISTERS = 1024  # topics: counts of more would spill
SQUARES = ((22, 1), (44, 2), (88, 4), (130, 8))  # of `cholesky.cu`: up to k unknowns, their side


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.cu").read_text()


def library_source(v: str = "float", t: str = "float", o: str = "float") -> str:
    """Return the module of `dense.cu` for these types of numbers."""
    types = f"typedef {v} V;\ntypedef {t} T;\ntypedef {o} O;\n"
    return device_header() + types + _text("dense")


def tokens_source(value: str = "float") -> str:
    """Return the module of `split_tokens`.

    value: C type of values.

    Its parameters: rows, indptr, values, row_ids, key, seen, scored.
    """
    return device_header() + f"typedef {value} V;\n" + _text("tokens")


def transposed_source(
    k: int,
    value: str = "float",
    table: str = "float",
    out: str = "float",
    position: str = "int",
    to: str | None = None,
) -> str:
    """Return the module of `transposed_product`, or of `add_transposed_product`.

    k: columns of the table.
    value, table, out, position: C types.
    to: C type of the table to which the products are added; None: they are results.
    """
    widest = "double" if "double" in (out, to) else out
    pack = pack_for(k, "bfloat16" if (table, widest) == ("bfloat16", "float") else widest)
    lanes = f"#ifndef BL_LANES\n#define BL_LANES {lanes_for(k, pack)}\n#endif\n"
    types = f"typedef {value} V;\ntypedef {table} T;\ntypedef {out} O;\ntypedef {position} P;\n"
    facts = f"#define K {k}\n#define PACK {pack}\n"
    if to is not None:
        facts += f"#define ADD\ntypedef {widest} A;\n"
    types += f"typedef {to or out} W;\n"
    kernel = _text("transposed" if to is None else "added")
    return lanes + device_header() + types + facts + _text("columns") + kernel


def exact_source(position: str = "int") -> str:
    """Return the module of `add_exact_product`.

    position: C type of positions.

    Its parameters: count, active, starts, t_rows, t_pos, values, table, weights, k, grid, parts,
    total. `parts` has a row for each block.
    """
    types = f"typedef float V;\ntypedef float T;\ntypedef {position} P;\n"
    return device_header() + types + _text("exact")


def masked_source(
    left: str = "float", right: str = "float", out: str = "float", position: str = "int"
) -> str:
    """Return the module of `masked_product`.

    left, right, out: C types of values.
    position: C type of positions.
    """
    types = f"typedef {left} V;\ntypedef {right} T;\ntypedef {out} O;\ntypedef {position} P;\n"
    return device_header() + types + _text("masked")


def gram_source(value: str = "float", position: str = "int") -> str:
    """Return the module of `upper_gram`, which `mirror_tiles` completes.

    value, position: C types of values, which those of the result are, too, and of positions.
    """
    types = f"typedef {value} V;\ntypedef {position} P;\n"
    return device_header() + types + _text("gram")


def selection_source(value: str = "float") -> str:
    """Return the module of the kernels that choose rows and columns; see `selection.cu`."""
    return device_header() + f"typedef {value} V;\n" + _text("selection")


def wide_source() -> str:
    """Return the module of `add_wide_product(rows, n, k, X, table, weights, total)`."""
    return device_header() + _text("wide")


def nonnegative_source() -> str:
    """Return the module of `nonnegative_steps`."""
    return device_header() + _text("nonnegative")


def sort_source(value: str = "float") -> str:
    """Return the module of the sorting kernels; see `sort_launches`."""
    return device_header() + f"typedef {value} V;\n" + _text("sort")


def keys_source() -> str:
    """Return the module of `pack_keys` and `columns_of`, around a sort of "u64"."""
    return device_header() + _text("keys")


def sort_launches(columns: int) -> list[tuple[str, int]]:
    """Return the kernels that sort rows after `sort_tiles`, each with its number.

    >>> sort_launches(1024), sort_launches(3000)
    ([], [('sort_flip', 2048), ('sort_ends', 0), ('sort_flip', 4096), ('sort_stride', 1024), \
('sort_ends', 0)])
    """
    steps, size = [], SORT_TILE
    while size < columns:
        size *= 2
        steps.append(("sort_flip", size))
        stride = size // 4
        while stride >= SORT_TILE:
            steps.append(("sort_stride", stride))
            stride //= 2
        steps.append(("sort_ends", 0))
    return steps


def move_source(value: str = "float") -> str:
    """Return the module of `transpose_tiles`, `mirror_tiles` and `to_bfloat16`.

    Parameters of `transpose_tiles`: rows, columns, source, out; of `mirror_tiles`: k, out; of
    `to_bfloat16`: size, source, out.
    """
    return device_header() + f"typedef {value} V;\n" + _text("move")


def merge_source(value: str = "float") -> str:
    """Return the module of `merge_mean`, `merge_sum`, `merge_max`; see `merging.py`."""
    return device_header() + f"typedef {value} V;\n" + _text("merge")


def algebra_source() -> str:
    """Return the module of what factorizations begin and end with; see `algebra.cu`."""
    return device_header() + _text("algebra")


def draws_source() -> str:
    """Return the module of the kernels that draw random numbers; see `draws.cu`."""
    return device_header() + _text("draws")


def order_source() -> str:
    """Return the module of the kernels that `cuda/order.py` launches."""
    return device_header() + _text("order")


def finite_source(value: str) -> str:
    """Return the module of `find_infinite`.

    value: C type of the numbers.
    """
    return device_header() + f"typedef {value} V;\n" + _text("finite")


def states_source(itemsize: int) -> str:
    """Return the module of the kernels that `cuda/states.py` launches.

    itemsize: bytes of a number, 2, 4 or 8.
    """
    kind = {2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[itemsize]
    return device_header() + f"typedef {kind} V;\n" + _text("states")


def index_source(position: str = "int") -> str:
    """Return the module of the kernels that `cuda/index.py` launches.

    position: C type of positions.
    """
    return device_header() + f"typedef {position} P;\n" + _text("index")


def top_source() -> str:
    """Return the module of `inverse_lengths` and `top_products`; a block has 32 rows."""
    return device_header() + _text("top")


def gibbs_source(
    k: int, table: str = "float", counts: int | None = None, *, summed: bool = False
) -> str:
    """Return the module of the topic sampler, for k topics.

    counts: where a row's are, if not as `where_counts` says.
    summed: whether it adds up the topics of rows, and does not keep those of particles.
    """
    where = where_counts(k, kept=False)
    facts = f"#define K {k}\n#define COUNTS {where.counts if counts is None else counts}\n"
    facts += f"typedef {table} T;\n#define KEPT 0\n#define TOGETHER 1\n"
    facts += f"#define SUMMED {int(summed)}\n"
    return _sampler(facts, "draw", "gibbs", threads=where.threads)


def kept_source(k: int, counts: int | None = None) -> str:
    """Return the module of `redraw_topics`, for k topics whose tokens are kept.

    counts: see `gibbs_source`.
    """
    where = where_counts(k, kept=True)
    facts = f"#define K {k}\n#define COUNTS {where.counts if counts is None else counts}\n"
    facts += "typedef float T;\n#define TOGETHER 1\n" + _tokens(k)
    return _sampler(facts, "draw", "kept", threads=where.threads)


class Where(NamedTuple):
    """Where a sampler has the counts of a row, and how many threads its blocks have.

    counts: IN_REGISTERS, IN_SHARED or IN_MEMORY.
    """

    counts: int
    threads: int


def where_counts(k: int, *, kept: bool) -> Where:
    """Return where a sampler has counts of k topics, kept or drawn afresh.

    Fresh topics wait for the longest row, so the fewest steps that wait for each other are best;
    kept ones for instructions. A block has as many threads as its counts fit into shared memory.

    >>> where_counts(1000, kept=False), where_counts(1000, kept=True), where_counts(5000, kept=True)
    (Where(counts=0, threads=256), Where(counts=1, threads=128), Where(counts=2, threads=256))
    """
    if not kept and k <= MOST_IN_REGISTERS:
        return Where(IN_REGISTERS, 256)
    vectors = -(-k // GIBBS_LANES)
    stride = GIBBS_LANES * (vectors + (vectors + 1) % 2)  # as in `draw.cu`
    for threads in (256, 128, 64):
        if threads // GIBBS_LANES * stride * 4 <= SHARED:
            return Where(IN_SHARED, threads)
    return Where(IN_MEMORY, 256)


def topic_counts_source(k: int) -> str:
    """Return the module of `topic_counts_32` and `topic_counts_64`, for k topics."""
    return _sampler(f"#define KEPT 0\n#define TOGETHER 0\n#define K {k}\n", "topic_counts")


def lists_source(k: int) -> str:
    """Return the module of `sum_words` and `redraw_lists`; only the type depends on k."""
    return _sampler(_tokens(k) + "#define TOGETHER 0\n", "lists")


def moves_source(k: int) -> str:
    """Return the module of `begin_topics`, `move_counts`, `add_moved`; k decides on the type."""
    return device_header() + _tokens(k) + _text("moves")


def _tokens(k: int) -> str:
    """Return the facts of modules for tokens whose topics are kept, as `type_of_topics` says."""
    return f"#define KEPT 1\ntypedef unsigned {'short' if k < 2**16 else 'int'} Z;\n"


def _sampler(facts: str, *names: str, threads: int = 256) -> str:
    sizes = f"#ifndef BL_LANES\n#define BL_LANES {GIBBS_LANES}\n#endif\n"
    sizes += f"#ifndef BL_BLOCK\n#define BL_BLOCK {threads}\n#endif\n"
    return sizes + device_header() + facts + "".join(map(_text, ("samplers", *names)))


def cholesky_source(
    k: int,
    *,
    gram: bool,
    masked: bool,
    scaled: bool,
    table: str = "float",
    teams: bool = False,
) -> str:
    """Return the module of the kernels for normal equations.

    k: unknowns, 1 to 130.
    teams: the module of a `solve_rows` for the longest rows, of which each has a team of blocks.

    The kernels are else `solve_rows`, `solve_sums`, `add_outer_32` and `add_outer_64`.
    """
    block = f"#ifndef BL_BLOCK\n#define BL_BLOCK {solvers(k)}\n#endif\n"
    facts = f"#define K {k}\n#define SIDE {_side(k)}\n#define GRAM {int(gram)}\n"
    facts += f"#define TEAMS {int(teams)}\n"
    facts += f"#define MASKED {int(masked)}\n#define SCALED {int(scaled)}\ntypedef {table} T;\n"
    kernels = _text("cholesky") + ("" if teams else _text("cholesky_sums"))
    return (TEAMS if teams else "") + block + device_header() + facts + kernels


def solvers(k: int) -> int:
    """Return the threads in a block of `cholesky_source`: one for each square, or for every two.

    >>> solvers(100), solvers(130), solvers(88)
    (96, 160, 128)
    """
    along = -(-k // _side(k))
    warps = -(-along * (along + 1) // 2 // 32)
    return 32 * max(2, warps) if warps <= 5 else 128


def _side(k: int) -> int:
    return next(side for most, side in SQUARES if k <= most)
