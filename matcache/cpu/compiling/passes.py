"""Numba's passes, without what kernels do not need.

Numba looks anew for the lifetimes of all variables after each pass, because it counts references
and compiles generators. Kernels do neither. So its own passes end sooner here, and those before the
translation to LLVM are one.
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

import llvmlite.binding as llvm
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import transforms
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.rewrites.registry import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import NativeLowering, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import FixupArgs, TranslateByteCode

from .lowering import KernelLower, PlaceLower


@register_pass(mutates_CFG=True, analysis_only=False)
class TypedProgram(FunctionPass):
    """Makes Numba's program of a function: versions of its variables, with types."""

    _name = "typed_program"

    def __init__(self):
        """Numba makes a pass once for a compilation."""
        super().__init__()

    def run_pass(self, state):
        """Run the passes before the translation to LLVM."""
        TranslateByteCode().run_pass(state)
        FixupArgs().run_pass(state)
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        _rewrite(state)
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        NopythonTypeInference().run_pass(state)
        state.func_ir = PreLowerStripPhis()._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


def _rewrite(state):
    """Replace statements by those that name constants: indexes, exponents, errors."""
    blocks = state.func_ir.blocks
    for kind in rewrite_registry.rewrites["before-inference"]:
        rewrite = kind(state)
        for place in blocks:
            while rewrite.match(state.func_ir, blocks[place], state.typemap, state.calltypes):
                blocks[place] = rewrite.apply()


class KernelLibrary(JITCodeLibrary):
    """Code of a kernel. LLVM optimizes it once; Numba does so twice, for reference counts.

    reorders: whether it, or what it is linked into, may add up in another order. Then passes over
        each function come before those over the module, as in Numba: the order depends on them.
    unroll: whether LLVM may repeat the body of a loop in place of jumping back.
    """

    def __init__(self, codegen, name, *, reorders, unroll=True):
        super().__init__(codegen, name)
        self.enable_object_caching()
        self._reorders, self._unroll = reorders, unroll

    def add_entry(self, module):
        """Add the function by which Python calls the kernel. LLVM does not optimize it."""
        module.data_layout = self.codegen._data_layout
        self._final_module.link_in(module)

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self.codegen._data_layout
        if self._reorders:
            super()._optimize_functions(ll_module)

    def _optimize_final_module(self):
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_unrolling = self._unroll
        builder = llvm.create_pass_builder(self.codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class LinkedLibrary(KernelLibrary):
    """Code of a helper. It is linked into kernels, so it needs no machine code of its own."""

    def _optimize_final_module(self):
        """Do nothing: LLVM optimizes kernels."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """The pass that runs `KernelLower`."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self):
        """The translation."""
        return KernelLower

    def run_pass(self, state):
        """Translate a function: a kernel to machine code, a helper to code for linking."""
        context, name = state.targetctx, state.func_id.func_qualname
        linked = state.flags.no_cpython_wrapper
        if state.library is None:
            kind = LinkedLibrary if linked else KernelLibrary
            reorders = linked or "reassoc" in state.flags.fastmath.flags
            state.library = kind(context.codegen(), name, reorders=reorders)
        if not linked:
            return super().run_pass(state)
        state.flags.no_compile = True
        changed = super().run_pass(state)
        done = state["cr"]
        # Numba finds a function by an object that can be called, which nothing calls here.
        known = _dynfunc.make_function(
            done.fndesc.lookup_module(), name, "", 0, done.env, (state.library,)
        )
        context.insert_user_function(known, done.fndesc, [state.library])
        state["cr"] = done._replace(cfunc=known)
        return changed


@register_pass(mutates_CFG=True, analysis_only=False)
class PlaceLowering(KernelLowering):
    """The pass that runs `PlaceLower`."""

    _name = "place_lowering"

    @property
    def lowering_class(self):
        """The translation."""
        return PlaceLower
