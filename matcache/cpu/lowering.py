"""Translate kernels from Numba's program to LLVM's.

Numba serves any program. A kernel reads and writes arrays by places, and Python calls it by our own
function (`entry.py`).
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

import llvmlite.binding as llvm
from numba import types
from numba.core import ir
from numba.core.lowering import Lower

from .entry import entry_text, has_entry

RAISE = ir.Raise | ir.StaticRaise | ir.DynamicRaise


class KernelLower(Lower):
    """Numba's translation to LLVM, with our function for calls from Python."""

    def create_cpython_wrapper(self, release_gil=False):
        """Add the function by which Python calls the kernel.

        A kernel that raises errors keeps Numba's, which knows their messages.
        """
        found = self.fndesc
        raises = any(any(block.find_insts(RAISE)) for block in self.func_ir.blocks.values())
        if raises or not release_gil or not has_entry(found.argtypes, found.restype):
            super().create_cpython_wrapper(release_gil)
            return
        shape = self.call_conv.get_function_type(found.restype, found.argtypes)
        names = found.llvm_func_name, found.llvm_cpython_wrapper_name
        text = entry_text(*names, found.argtypes, found.restype, [str(one) for one in shape.args])
        self.library.add_llvm_module(llvm.parse_assembly(text))


class PlaceLower(KernelLower):
    """A translation in which indexes are places; only a single constant counts from the end.

    Numba asks of each signed index whether it is negative, which takes four instructions.
    """

    def lower_getitem(self, resty, expr, value, index, signature):
        """Read an element."""
        signature = self._placed(signature, index)
        return super().lower_getitem(resty, expr, value, index, signature)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        """Write an element."""
        signature = self._placed(signature, index_var)
        return super().lower_setitem(target_var, index_var, value_var, signature)

    def _placed(self, signature, index):
        """Return the signature of an access whose indexes have no sign."""
        array, kind, *rest = signature.args
        many = isinstance(kind, types.BaseTuple)
        whole = all(isinstance(part, types.Integer) for part in (kind.types if many else (kind,)))
        constant = isinstance(self.typeof(index.name), types.Literal)
        if constant or not (whole and isinstance(array, types.Array)):
            return signature
        found = types.UniTuple(types.uintp, len(kind)) if many else types.uintp
        return signature.replace(args=(array, found, *rest))
