"""Call kernels whose machine code is in a file, without importing Numba.

Numba takes 0.1 s to import, and half as long again to make ready what it loads: more than a fit of
rows in memory takes. So kernels that such fits call are named here. The machine code of one lies in
a file, which LLVM loads. If there is none, Numba compiles the kernel, or loads it from its own file
(`code_files.py`), and the same machine code is written here. So bits do not depend on who loads it.

A file is named by all that its code depends on: Python, Numba and its settings, the processor, the
sources of kernels, and the types of arguments.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...emit.source import kernel_folder, write_whole
from .sources import FOLDER, sources

DIGEST = 16  # bytes
TYPED = 0x503  # flags of arrays: C-contiguous, F-contiguous, aligned and writeable
KERNELS = "blocklearn.matcache.cpu.kernels"
_OBJECTS = {
    "PyArray_Type": np.ndarray,
    "PyExc_TypeError": TypeError,
    "PyExc_RuntimeError": RuntimeError,
    "_Py_NoneStruct": None,
}
_ENTRY = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_loading = threading.Lock()
_kept: list[Any] = []  # LLVM's engines, which own the code


def bind_objects() -> None:
    """Tell LLVM where the objects are that calls of kernels name: see `entry.py`."""
    import llvmlite.binding as llvm

    for name, found in _OBJECTS.items():
        llvm.add_symbol(name, id(found))


class Ready:
    """A kernel of arrays and numbers, by its module and its name."""

    def __init__(self, module: str, name: str) -> None:
        """Name the kernel; nothing is loaded before it is called."""
        self._module, self._name = module, name
        self._entries: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel."""
        form = tuple(map(_form, arguments))
        found = self._entries.get(form)
        if found is None:
            with _loading:
                found = self._entries[form] = self._loaded(form) or self._compiled(form, arguments)
        return found(*arguments)

    def _loaded(self, form: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the function for arguments of a form, if it is in a file."""
        try:
            whole = self._path(form).read_bytes()
        except OSError:
            return None
        digest, content = whole[:DIGEST], whole[DIGEST:]
        if digest != _digest(content):
            return None
        entry, _, code = content.partition(b"\0")
        return _linked(entry.decode(), code)

    def _compiled(self, form: tuple[Any, ...], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return Numba's function for arguments, and write its code to a file."""
        from .code_files import machine_code
        from .compiled import type_of
        from .entry import has_entry

        kernel = getattr(import_module(f"{KERNELS}.{self._module}"), self._name)
        types = tuple(map(type_of, arguments))
        kernel.compile(types)
        found = kernel.overloads[types]
        kept = machine_code(kernel, types)
        if kept and has_entry(types, found.signature.return_type):  # Numba's own calls Numba
            content = kept[0].encode() + b"\0" + kept[1]
            with suppress(OSError):
                write_whole(self._path(form), _digest(content) + content)
        entry: Callable[..., Any] = found.entry_point
        return entry

    def _path(self, form: tuple[Any, ...]) -> Path:
        whole = repr((_circumstances(), sources(FOLDER), self._module, self._name, form))
        return kernel_folder() / f"{self._name}-{_digest(whole.encode()).hex()}.code"


def _form(argument: Any) -> Any:
    """Return what the type of an argument depends on."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num & TYPED
    return type(argument)


@cache
def _circumstances() -> tuple[Any, ...]:
    """Return what code depends on beside its sources and types."""
    import llvmlite.binding as llvm

    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return sys.version, version("numba"), version("llvmlite"), np.__version__, settings, processor


def _linked(entry: str, code: bytes) -> Callable[..., Any] | None:
    """Return the function `entry` of machine code; None: there is none."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    bind_objects()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(entry)
    if not address:
        return None
    _kept.append(engine)
    function = _ENTRY(address)
    return lambda *arguments: function(None, arguments, None)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
