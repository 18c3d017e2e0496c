"""How long a kernel's longest chain of dependent instructions is, read from its PTX.

Each loop is counted once, both sides of a branch are taken, and a barrier waits for all before it.
So the number compares kernels, and versions of one kernel: with one warp at work, a turn of a loop
takes no less time than its part of the chain. It is no time of a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

CYCLES = {  # assumed for an H200: a hit of the second-level cache, others by kind of unit
    "ld.global": 280, "ld": 30, "atom.global": 280, "atom": 60, "shfl": 25, "vote": 20, "match": 30,
    "bar": 30, "div.rn.f32": 40, "div.rn.f64": 120, "div": 100, "rem": 100, "rcp": 40, "sqrt": 40,
    "ex2": 20, "lg2": 20, "sin": 20, "cos": 20, "popc": 10, "bfind": 10, "clz": 10, "cvt": 10,
}  # fmt: skip
"""Cycles until a result can be used, by the beginning of an instruction's name; the longest match
counts, and instructions without one take `PLAIN`.
"""
PLAIN = 4
NO_RESULT = ("st", "bra", "bar", "ret", "red", "prefetch", "exit", "membar", "fence", "trap")
ENTRY = re.compile(r"\.entry (\w+)\(.*?\)[^{]*\{(.*?)\n\}", re.DOTALL)
REGISTER = re.compile(r"%[a-z]+\d+")


def chains(ptx: str) -> dict[str, int]:
    """Return the cycles of the longest chain of each kernel, by name.

    >>> chains(".entry f(.param .u64 p)\\n{\\nld.global.f32 %f1, [%rd1];\\n@%p1 bra $L;\\n"
    ...        "fma.rn.f32 %f2, %f1, %f1, %f3;\\nadd.f32 %f4, %f3, %f3;\\n}")
    {'f': 284}
    """
    return {name: longest(body) for name, body in ENTRY.findall(ptx)}


def longest(body: str) -> int:
    """Return the cycles of the longest chain among the instructions of a kernel."""
    ready: dict[str, int] = {}  # when each register is
    end = begun = 0
    for name, results, given in instructions(body):
        start = max([begun, *(ready.get(register, 0) for register in given)])
        if name.startswith("bar"):
            begun = end + cycles(name)
            start = end
        done = start + cycles(name)
        ready.update(dict.fromkeys(results, done))
        end = max(end, done)
    return end


def instructions(body: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the name of each instruction, the registers it sets, and those it reads."""
    for line in body.split(";"):
        text = line.rpartition(":")[2].strip()  # behind a label
        if not text or text.startswith((".", "//", "{", "}")):
            continue
        predicate = ""
        if text.startswith("@"):
            predicate, _, text = text.partition(" ")
        name, _, operands = text.strip().partition("\t" if "\t" in text else " ")
        first, _, rest = split(operands)
        if name.startswith(NO_RESULT):
            first, rest = "", operands
        results = REGISTER.findall(first)
        kept = results if predicate else []  # where the predicate does not hold
        yield name, results, REGISTER.findall(rest + predicate) + kept


def split(operands: str) -> tuple[str, str, str]:
    """Return the first operand, which may be a list in braces, a comma, and the others."""
    text = operands.strip()
    if text.startswith("{"):
        first, brace, rest = text.partition("}")
        return first + brace, ",", rest.lstrip(" ,")
    return text.partition(",")


def cycles(name: str) -> int:
    """Return the cycles until the result of an instruction can be used."""
    best = max((key for key in CYCLES if name.startswith(key)), key=len, default="")
    return CYCLES.get(best, PLAIN)
