"""What a compiled kernel needs of a CUDA device: read from the cubin, which is an ELF file.

The section `.nv.info` is a list of attributes: a byte of format (4: sized values), a byte of kind,
a length of two bytes, and values; here the number of a symbol and one number.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest

from blocklearn.matcache.cuda.cupy_driver import OPTIONS

BY_CUPY = ("-ftz=true", "--device-as-default-execution-space")  # what `RawModule` adds
REGISTERS, FRAME = 0x2F, 0x11  # kinds of attributes
SIZED = 4
ARCHITECTURES = ["90", *(pytest.param(a, marks=pytest.mark.slow) for a in ("80", "100"))]
"""Parameters of tests that compile for three kinds of cards: each takes NVRTC a second."""


def nvrtc(source: str, architecture: str = "90") -> bytes:
    """Compile for sm_`architecture`; needs no GPU and no driver."""
    return _compiled(source, f"sm_{architecture}", "getCUBIN")


def ptx(source: str) -> str:
    """The assembly text for compute capability 9.0."""
    return _compiled(source, "compute_90", "getPTX").decode()


def _compiled(source: str, target: str, what: str) -> bytes:
    library: Any = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    program = library.createProgram(source, "module.cu", (), ())
    options = (*OPTIONS, *BY_CUPY, f"--gpu-architecture={target}")
    try:
        library.compileProgram(program, options)
    except library.NVRTCError as error:
        raise AssertionError(library.getProgramLog(program)) from error
    found: bytes = getattr(library, what)(program)
    library.destroyProgram(program)
    return found


class Resources(NamedTuple):
    """registers: of a thread. frame: bytes of local memory of a thread, where spills go."""

    registers: int
    frame: int


def resources(cubin: bytes) -> dict[str, Resources]:
    """By kernel."""
    sections = _sections(cubin)
    symbols, names = sections[".symtab"], sections[".strtab"]
    info, at = sections[".nv.info"], 0
    found: dict[str, dict[int, int]] = {}
    while at < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != SIZED:
            continue
        if kind in (REGISTERS, FRAME):
            symbol, number = struct.unpack_from("<II", info, at)
            (name,) = struct.unpack_from("<I", symbols, symbol * 24)
            found.setdefault(_text(names, name), {})[kind] = number
        at += size
    return {
        name: Resources(numbers[REGISTERS], numbers.get(FRAME, 0))
        for name, numbers in found.items()
        if REGISTERS in numbers
    }


def _sections(elf: bytes) -> dict[str, bytes]:
    assert elf[:4] == b"\x7fELF"
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + n * size) for n in range(count)]
    texts = elf[heads[names][4] :]
    return {_text(texts, h[0]): elf[h[4] : h[4] + h[5]] for h in heads}


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()
