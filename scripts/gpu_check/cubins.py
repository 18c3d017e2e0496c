"""What kernels need of a card, read from what NVRTC makes of them. Needs no GPU.

A cubin is an ELF file. Its section `.nv.info` is a list of attributes: a byte of format (4: sized
values), a byte of kind, a length of two bytes, and values; here the number of a symbol and one
number. The sections `.nv.shared.NAME` are as large as the shared memory of a block, with the 1,024
bytes of the system from sm_90 on.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from blocklearn.matcache.cuda import kernels
from blocklearn.matcache.cuda.cupy_driver import OPTIONS
from blocklearn.matcache.cuda.texts import THREADS

from . import programs
from .chains import chains

BY_CUPY = ("-ftz=true", "--device-as-default-execution-space")  # what `RawModule` adds
REGISTERS, FRAME = 0x2F, 0x11  # kinds of attributes
SIZED = 4
# Of a processor of an H200: registers, given out by 8 for each thread; threads; blocks; bytes of
# shared memory, of which the system takes 1,024 for each block.
ALL_REGISTERS, ALL_THREADS, ALL_BLOCKS, ALL_SHARED, OF_SYSTEM = 65536, 2048, 32, 233472, 1024
MODULES = {
    "K = 256": (
        kernels.transposed_source(256),
        kernels.gibbs_source(256),
        kernels.topic_counts_source(256),
        kernels.kept_source(256),
    ),
    "K = 100": (
        kernels.cholesky_source(100, gram=True, masked=False, scaled=False),
        kernels.gibbs_source(100),
    ),
    "K = 100, summed": (kernels.gibbs_source(100, summed=True),),
    "K = 65536": (
        kernels.gibbs_source(2**16),
        kernels.topic_counts_source(2**16),
        kernels.kept_source(2**16),
        kernels.lists_source(2**16),
        kernels.moves_source(2**16),
    ),
    "": (
        kernels.library_source(),
        kernels.exact_source(),
        kernels.masked_source(),
        kernels.selection_source(),
        kernels.gram_source(),
        kernels.wide_source(),
        kernels.sort_source(),
        kernels.keys_source(),
        kernels.move_source(),
        kernels.merge_source(),
        kernels.algebra_source(),
        kernels.draws_source(),
        kernels.tokens_source(),
        kernels.order_source(),
        kernels.index_source(),
        kernels.states_source(4),
        kernels.finite_source("float"),
        kernels.top_source(),
    ),
}


class Resources(NamedTuple):
    """What a kernel needs.

    registers: of a thread.
    frame: bytes of local memory of a thread, where spills go.
    shared: bytes of a block. From sm_90 on those of the system are among them, if it asks for any.
    """

    registers: int
    frame: int
    shared: int = 0

    def blocks(self, threads: int) -> int:
        """Return how many blocks of so many threads share a processor of an H200."""
        held = -(-self.registers // 8) * 8 * threads
        of_shared = ALL_SHARED // max(self.shared, OF_SYSTEM)
        return min(ALL_REGISTERS // held, ALL_THREADS // threads, ALL_BLOCKS, of_shared)


def shown() -> str:
    """Return the kernels and their needs as a table in Markdown, each line once."""
    lines = [
        "| kernel | | threads | registers | spilled bytes | shared bytes | blocks a processor | "
        "cycles of a chain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for program, what, source in programs.of_trainings():
        lines += [_line(program, what, numbers) for _, numbers in _needs(source)]
    for what, sources in MODULES.items():
        for source in sources:
            lines += [_line(name, what, numbers) for name, numbers in _needs(source)]
    return "\n".join(dict.fromkeys(lines))


def _line(name: str, what: str, numbers: Iterable[int]) -> str:
    return f"| `{name}` | {what} | " + " | ".join(map(str, numbers)) + " |"


def _needs(source: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the kernels of a module, with their numbers in the table."""
    threads = threads_of(source)
    cubin, ptx = compiled(source, "sm_90", "getCUBIN", "getPTX")
    chain = chains(ptx.decode())
    for name, needs in sorted(resources(cubin).items()):
        own = needs._replace(shared=max(0, needs.shared - OF_SYSTEM))
        yield name, (threads, *own, needs.blocks(threads), chain[name])


def threads_of(source: str) -> int:
    """Return the threads of a block of a module."""
    found = re.findall(r"#define BL_BLOCK (\d+)", source)
    return int(found[0]) if found else THREADS


def version() -> str:
    """Return the version of NVRTC. Raises ImportError if it is missing."""
    from cupy_backends.cuda.libs import nvrtc

    return ".".join(map(str, nvrtc.getVersion()))


def compiled(source: str, target: str, *what: str) -> list[bytes]:
    """Return what NVRTC makes of a module.

    what: getCUBIN, getPTX.

    Raises:
        ImportError: NVRTC is missing.
        ValueError: the text is wrong; the message is the compiler's.
    """
    from cupy_backends.cuda.libs import nvrtc

    library: Any = nvrtc
    program = library.createProgram(source, "module.cu", (), ())
    options = (*OPTIONS, *BY_CUPY, f"--gpu-architecture={target}")
    try:
        library.compileProgram(program, options)
    except library.NVRTCError as error:
        raise ValueError(library.getProgramLog(program)) from error
    found: list[bytes] = [getattr(library, name)(program) for name in what]
    library.destroyProgram(program)
    return found


def resources(cubin: bytes) -> dict[str, Resources]:
    """Return what each kernel of a cubin needs, by name."""
    sections, sizes = _sections(cubin)
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
        name: Resources(
            numbers[REGISTERS], numbers.get(FRAME, 0), sizes.get(f".nv.shared.{name}", 0)
        )
        for name, numbers in found.items()
        if REGISTERS in numbers
    }


def _sections(elf: bytes) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the contents and the sizes of sections; those of shared memory have no contents."""
    if elf[:4] != b"\x7fELF":
        raise ValueError("the cubin is not an ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + n * size) for n in range(count)]
    texts = elf[heads[names][4] :]
    found = {_text(texts, h[0]): h for h in heads}
    return (
        {name: elf[h[4] : h[4] + h[5]] for name, h in found.items()},
        {name: h[5] for name, h in found.items()},
    )


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()
