"""Files of compiled kernels: one for each kernel and the types of its arguments.

Numba numbers these files, and an index says which signature has which number. Two processes that
compile one kernel for different types at once may take the same number: the index of one then
leads to the code of the other. Here a file is named by its signature, and says itself what it
holds. There is no index, so processes need not agree. A file whose contents do not match their
digest, as a crash may leave it, counts as absent.

Numba makes its compiler ready before it loads a file, which takes as long as importing Numba. Code
that is loaded does not need it, but for functions that allocate: they need Numba's memory manager.
"""

# Numba's caches have no types.
# mypy: allow-untyped-defs, allow-untyped-calls

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
    _SourceFileBackedLocatorMixin,
)

from ...emit.source import kernel_folder

DIGEST = 16  # bytes


def kept(dispatcher: Any, *stamp: Any) -> Any:
    """Keep the compiled code of a function in these files.

    stamp: compiled code holds while this, and the function's own file, stay as they are.

    Returns the function.
    """
    allocates = dispatcher.targetoptions.get("_nrt", True)
    dispatcher._cache = KernelCache(dispatcher.py_func, stamp, allocates=allocates)
    return dispatcher


def is_kept(dispatcher: Any, signature: Any) -> bool:
    """Return whether the code of a kernel for these types of arguments is in a file, and valid."""
    return _loaded(dispatcher, signature) is not None


def machine_code(dispatcher: Any, signature: Any) -> tuple[str, bytes] | None:
    """Return the machine code of a kernel for these types of arguments; None: in no file.

    The name of its entry comes first. That name differs between processes, and another process may
    have written the file since this one compiled the kernel.
    """
    found = _loaded(dispatcher, signature)
    if found is None:
        return None
    (_, _, (code, _)), function, *_ = found  # a library is its name, its kind, and both codes
    return function.llvm_cpython_wrapper_name, bytes(code)


def _loaded(dispatcher, signature):
    cache = dispatcher._cache
    key = cache._index_key(signature, dispatcher.targetctx.codegen())
    return cache._cache_file.load(key)


class KernelFolder(_SourceFileBackedLocatorMixin, _CacheLocator):
    """A place beside generated kernels: in a temporary folder where no home can be written."""

    def __init__(self, function, path):
        self._py_file, self._lineno = path, function.__code__.co_firstlineno
        self._folder = kernel_folder() / self.get_suitable_cache_subpath(path)

    def get_cache_path(self):
        """Return the folder of the files."""
        return str(self._folder)


class Places(CompileResultCacheImpl):
    """Numba's places, beside the source or in the user's home, and then `KernelFolder`."""

    _locator_classes = [*CompileResultCacheImpl._locator_classes, KernelFolder]


class KernelCache(FunctionCache):
    """The compiled code of one kernel, for several types of arguments."""

    _impl_class = Places

    def __init__(self, function, stamp, *, allocates):
        super().__init__(function)
        self._allocates = allocates
        own = self._cache_file._source_stamp
        self._cache_file = CodeFiles(self.cache_path, self._impl.filename_base, (own, *stamp))

    def load_overload(self, sig, target_context):
        """Return the code of a signature; None if there is none."""
        if self._allocates:
            target_context.refresh()
        return self._load_overload(sig, target_context)


class CodeFiles(IndexDataCacheFile):
    """The files of one kernel, in place of Numba's index and numbered files."""

    def __init__(self, cache_path, filename_base, source_stamp):
        super().__init__(cache_path, filename_base, source_stamp)
        self._base = filename_base

    def save(self, key, data):
        """Write the code of a signature: the whole file or nothing."""
        content = self._dump((self._source_stamp, key, data))
        with self._open_for_write(self._path(key)) as file:
            file.write(_digest(content) + content)

    def load(self, key):
        """Return the code of a signature; None if there is none of the present source."""
        try:
            whole = Path(self._path(key)).read_bytes()
        except OSError:
            return None
        digest, content = whole[:DIGEST], whole[DIGEST:]
        if digest != _digest(content):
            return None
        try:
            stamp, found, data = pickle.loads(content)
        except (AttributeError, ImportError):  # it calls helpers of a module that is gone
            return None
        return data if (stamp, found) == (self._source_stamp, key) else None

    def flush(self):
        """Do nothing: code of another source is not loaded, and is written over."""

    def _path(self, key):
        signature = repr((numba.__version__, key)).encode()
        return self._data_path(f"{self._base}.{_digest(signature).hex()}.nbc")


def _digest(content):
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
