"""End a run, not the process, where a page of a mapped file cannot be read or written.

A thread that touches such a page gets SIGBUS, which ends the process without a message: the file
has become shorter, or its disk fails or is full. Here a handler puts a page of zeros in its place,
notes the place, and lets the thread continue. Runs look after every block whether a page is lost.

The handler is machine code of its own: it takes no lock, and needs no interpreter. Signals of other
addresses get the handler that was there before. It works on Linux; elsewhere SIGBUS stays as it is.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import threading
import weakref
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from ..errors import PageError
from .paging import PAGE, address_of, map_of
from .stripes import Stripes

MOST = 4096  # maps that are watched at once
ADDRESS = 16  # where Linux's siginfo_t has the address, on processors of 64 bits
SIGINFO, ONSTACK = 4, 0x08000000  # flags of sigaction
FIXED = 0x10  # of mmap: at this address

RESUME = "choose a folder on another disk, and resume from the last checkpoint"

_maps = np.zeros((MOST, 3), np.int64)  # begin and end of each map, and an address that was lost
_free = list(range(MOST))[::-1]
_lock = threading.Lock()
_kept: list[Any] = []  # what the handler needs


class Watched:
    """An array that is mapped from a file: a page of it that is lost becomes zeros, and is known.

    It is watched until its map is deleted.
    """

    def __init__(self, array: NDArray[Any], place: Stripes, remedy: str = RESUME) -> None:
        """Watch an array, unless it is in memory.

        place: its files, for messages. remedy: what else to do than to mend the cause.
        """
        self._map, self.place, self._remedy, self._entry = map_of(array), place, remedy, -1
        if self._map is None or not _installed() or not _free:
            return
        begin = address_of(self._map)
        with _lock:
            self._entry = _free.pop()
            _maps[self._entry] = begin, begin + len(self._map), 0
        weakref.finalize(self._map, _forget, self._entry).atexit = False

    def check(self) -> None:
        """Raise PageError if a page of the array was lost."""
        if self._entry < 0 or not _maps[self._entry, 2]:
            return
        begin, _, lost = map(int, _maps[self._entry])
        file, byte = self.place.at(lost - begin)
        page = byte // PAGE
        raise PageError(
            f"{file}: page {page:,} (from byte {page * PAGE:,} on) can no longer be read or "
            "written: the file has become shorter, or its disk fails or is full. Mend that, or "
            f"{self._remedy}."
        )


def _forget(entry: int) -> None:
    with _lock:
        _maps[entry] = 0
        _free.append(entry)


class _Action(ctypes.Structure):
    """C's struct sigaction, as Linux has it on processors of 64 bits."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


@cache
def _installed() -> bool:
    """Install the handler, once in a process; return whether the system has what it needs."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return False
    library, before = ctypes.CDLL(None), _Action()
    library.sigaction(signal.SIGBUS, None, ctypes.byref(before))
    handler = _handler(ctypes.addressof(before))
    action = _Action(handler=handler, flags=SIGINFO | ONSTACK)
    _kept.append(before)
    done: int = library.sigaction(signal.SIGBUS, ctypes.byref(action), None)
    return done == 0


def _handler(before: int) -> int:
    """Compile the handler; return its address. before: of the struct of the handler before."""
    word, number = ir.IntType(64), ir.IntType(32)
    module = ir.Module("lost_pages")
    shape = ir.FunctionType(ir.VoidType(), [number, word, word])
    function = ir.Function(module, shape, "handler")
    start = ir.IRBuilder(function.append_basic_block("start"))
    look, found, other, after = map(
        function.append_basic_block, ("look", "found", "other", "after")
    )
    library = ctypes.CDLL(None)

    def call(build: ir.IRBuilder, name: str, given: list[ir.Value], result: ir.Type) -> None:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        kind = ir.FunctionType(result, [value.type for value in given])
        build.call(build.inttoptr(word(address), kind.as_pointer()), given)

    def at(build: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return build.inttoptr(address, word.as_pointer())

    place = start.load(at(start, start.add(function.args[1], word(ADDRESS))))
    start.branch(look)

    build = ir.IRBuilder(look)  # one map after another
    entry = build.phi(word)
    entry.add_incoming(word(_maps.ctypes.data), start.block)
    begin = build.load(at(build, entry))
    end = build.load(at(build, build.add(entry, word(8))))
    inside = build.and_(
        build.icmp_unsigned("<=", begin, place), build.icmp_unsigned("<", place, end)
    )
    build.cbranch(inside, found, after)

    build = ir.IRBuilder(after)
    following = build.add(entry, word(_maps.strides[0]))
    entry.add_incoming(following, after)
    build.cbranch(
        build.icmp_unsigned("<", following, word(_maps.ctypes.data + _maps.nbytes)), look, other
    )

    build = ir.IRBuilder(found)
    build.store(place, at(build, build.add(entry, word(16))))
    page = build.and_(place, word(-PAGE))
    flags = FIXED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    access = mmap.PROT_READ | mmap.PROT_WRITE
    given = [page, word(PAGE), number(access), number(flags), number(-1), word(0)]
    call(build, "mmap", given, word)
    build.ret_void()

    build = ir.IRBuilder(other)  # the instruction is repeated, and meets the handler before
    call(build, "sigaction", [number(signal.SIGBUS), word(before), word(0)], number)
    build.ret_void()

    llvm.initialize_native_target()  # again, where Numba is at work
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target)
    engine.finalize_object()
    _kept.append(engine)
    address: int = engine.get_function_address("handler")
    return address
