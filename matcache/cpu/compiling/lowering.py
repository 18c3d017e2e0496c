"""Translate kernels from Numba's program to LLVM's.

Numba serves any program. Kernels count no references, catch no errors and run in no debugger. So a
variable that is assigned once needs no memory, and an element of an array takes few instructions
(`access.py`). Python calls a kernel by our own function (`entry.py`).
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

from collections import Counter

import llvmlite.binding as llvm
from numba import types
from numba.core import cgutils, ir
from numba.core.lowering import Lower
from numba.cpython.slicing import fix_index
from numba.np.arrayobj import load_item, store_item

from .access import address, part
from .entry import entry_text, has_entry
from .ready import bind_objects

_WIDE = {True: types.intp, False: types.uintp}  # the type of an index by its sign
bind_objects()
RAISE = ir.Raise | ir.StaticRaise | ir.DynamicRaise


class KernelLower(Lower):
    """Numba's translation to LLVM, of a program that has versions of its variables."""

    places = False  # whether indexes are places; only a lone constant counts from the end then

    def _find_singly_assigned_variable(self):
        """Find variables that are LLVM's values: their only assignment comes before each use."""
        names = (one.target.name for b in self.blocks.values() for one in b.find_insts(ir.Assign))
        self._singly_assigned_vars = {name for name, times in Counter(names).items() if times == 1}
        self._blk_local_varmap = {}

    def pre_block(self, block):
        """Begin a block."""
        self._cur_ir_block = block

    def post_block(self, block):
        """End a block."""

    def alloca(self, name, type):
        """Give a variable a place in memory, which LLVM replaces by values."""
        return cgutils.alloca_once(self.builder, self.context.get_value_type(type), name=name)

    def getvar(self, name):
        """Return a variable's place in memory, also where a use is translated before its value."""
        self._singly_assigned_vars.discard(name)
        return super().getvar(name)

    def storevar(self, value, name, argidx=None):
        """Assign a value to a variable."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def lower_expr(self, resty, expr):
        """Compute an expression."""
        if expr.op == "static_getitem" and isinstance(self.typeof(expr.value.name), types.Array):
            signature = self.fndesc.calltypes[expr]
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, signature)
        return super().lower_expr(resty, expr)

    def lower_inst(self, inst):
        """Translate a statement."""
        static = isinstance(inst, ir.StaticSetItem)
        if static and isinstance(self.typeof(inst.target.name), types.Array):
            signature = self.fndesc.calltypes[inst]
            self.lower_setitem(inst.target, inst.index_var, inst.value, signature)
        else:
            super().lower_inst(inst)

    def lower_getitem(self, resty, expr, value, index, signature):
        """Read an element, or make a view."""
        at = self._element(value, index)
        if at is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        array = self.typeof(value.name)
        found = load_item(self.context, self.builder, array, at)
        return self.context.cast(self.builder, found, array.dtype, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        """Write an element."""
        at = self._element(target_var, index_var)
        if at is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, given = self.typeof(target_var.name), self.typeof(value_var.name)
        number = self.context.cast(self.builder, self.loadvar(value_var.name), given, array.dtype)
        return store_item(self.context, self.builder, array, number, at)

    def _element(self, array, index):
        """Return a pointer to an element of an array; None where the index tells no element."""
        kind, given = self.typeof(array.name), self.typeof(index.name)
        many = isinstance(given, types.BaseTuple)
        kinds = given.types if many else (given,)
        whole = kinds and all(isinstance(one, types.Integer) for one in kinds)
        if not (whole and isinstance(kind, types.Array) and kind.ndim == len(kinds)):
            return None
        record, found = self.loadvar(array.name), self.loadvar(index.name)
        found = cgutils.unpack_tuple(self.builder, found) if many else [found]
        counts_back = not self.places or isinstance(given, types.Literal)
        places = []
        for axis, (one, value) in enumerate(zip(kinds, found, strict=True)):
            place = self.context.cast(self.builder, value, one, _WIDE[one.signed])
            if counts_back and one.signed:
                shape = part(self.context, self.builder, kind, record, "shape")
                place = fix_index(self.builder, place, self.builder.extract_value(shape, axis))
            places.append(place)
        return address(self.context, self.builder, kind, record, places)

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
        self.library.add_entry(llvm.parse_assembly(text))


class PlaceLower(KernelLower):
    """A translation in which indexes are places; only a single constant counts from the end.

    Numba asks of each signed index whether it is negative, which takes four instructions.
    """

    places = True
