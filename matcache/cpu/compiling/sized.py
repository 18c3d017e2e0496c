"""Compile a kernel for other sizes from what Numba made of it once.

The text of a kernel may call functions `make_size(n)` for its numbers of columns, which its
decorator tells: `kernel(sizes=...)`. Numba's translation, a template, calls a function of LLVM for
each size, and is kept in a file. With these functions defined, LLVM knows the sizes as it would
know numbers in the text. So another size costs LLVM's part alone, which is about a half.

The first kernel is made of its template, too, so code does not depend on what was compiled before.
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding.newpassmanagers import create_new_module_pass_manager
from numba import types
from numba.core import cgutils
from numba.core.compiler import CompileResult
from numba.core.environment import Environment

from .access import instruction
from .code_files import CodeFiles
from .passes import KernelLibrary

_I64 = ir.IntType(64)
_NAME = "blocklearn.size.{}"
_DEFINITION = """\
define i64 @"{}"() alwaysinline {{
  ret i64 {}
}}
"""


@cache
def make_size(n: int) -> Any:
    """Make `size()`, which returns number n of the sizes of the kernel that calls it."""

    @instruction
    def size(typingctx):
        def codegen(context, builder, sig, args):
            kind = ir.FunctionType(_I64, [])
            found = cgutils.get_or_insert_function(builder.module, kind, _NAME.format(n))
            return builder.call(found, [])

        return types.intp(), codegen

    return size


class Sizes(NamedTuple):
    """What a kernel with sizes is compiled by: its function's attribute `sizes`."""

    numbers: tuple[int, ...]
    unroll: bool  # whether LLVM may repeat the body of a loop in place of jumping back
    kept: Any  # the files of its code
    stamp: str  # templates hold while this stays as it is


class Template(NamedTuple):
    """What Numba made of a kernel."""

    modules: list[bytes]  # LLVM's, which call the sizes
    linked: list[bytes]  # the helpers', which do not
    shape: Any  # Numba's description of the function
    signature: Any
    constants: list[Any]


class SizedLibrary(KernelLibrary):
    """The code of a kernel with sizes."""

    def __init__(self, codegen, sizes):
        super().__init__(codegen, "sized", reorders=False, unroll=sizes.unroll)
        self.sizes = {_NAME.format(n): size for n, size in enumerate(sizes.numbers)}
        self.modules = []

    def add_llvm_module(self, ll_module):
        """Keep a module as a part of the template, and add it with its sizes defined."""
        passes = create_new_module_pass_manager()
        passes.add_sroa_pass()  # so that LLVM has less to read for other sizes
        passes.add_simplify_cfg_pass()
        passes.run(ll_module, self.codegen._pass_builder())
        self.modules.append(ll_module.as_bitcode())
        self.add_template(self.modules[-1])

    def add_entry(self, module):
        """Keep the function by which Python calls the kernel as a part of the template."""
        self.modules.append(module.as_bitcode())
        super().add_entry(module)

    def add_template(self, bitcode, *names):
        """Add a module of a template, with its sizes defined.

        names: of the kernel's module in the template, and here.
        """
        module = llvm.parse_bitcode(bitcode)
        for value in [*module.functions, *module.global_variables] if names else ():
            value.name = value.name.replace(*names)
        called = self.sizes.keys() & {function.name for function in module.functions}
        if called:
            text = "".join(_DEFINITION.format(name, self.sizes[name]) for name in sorted(called))
            module.link_in(llvm.parse_assembly(text))
            for name in called:
                module.get_function(name).linkage = "internal"
            passes = create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.add_global_dead_code_eliminate_pass()
            passes.run(module, self.codegen._pass_builder())
        super().add_llvm_module(module)


def compile_sized(state: Any, function: Any, translate: Callable[[Any], Any]) -> Any:
    """Return Numba's result for a kernel with sizes: of a template, made if there is none.

    state: what Numba has to compile.
    translate: compiles the function by all passes.
    """
    codegen = state.targetctx.codegen()
    library = SizedLibrary(codegen, function.sizes)
    files, key = _files(function, state.args, codegen)
    template = files.load(key)
    if template is not None:
        return _made(state, library, function.__module__, Template(*template))
    state.library = library
    result = translate(function)
    linked = dict.fromkeys(library._linking_libraries)
    shape = copy.copy(result.fndesc)
    shape.typemap = shape.calltypes = None
    template = Template(
        library.modules,
        [one._get_module_for_linking().as_bitcode() for one in linked],
        shape,
        result.signature,
        result.environment.consts,
    )
    function.sizes.kept._impl.locator.ensure_cache_path()
    files.save(key, tuple(template))
    return result


def has_template(kernel: Any, signature: Any) -> bool:
    """Return whether LLVM's part is all that a kernel lacks for these types of arguments."""
    function = kernel.py_func
    if not hasattr(function, "sizes"):
        return False
    files, key = _files(function, signature, kernel.targetctx.codegen())
    return files.load(key) is not None


def _files(function, signature, codegen):
    """Return the files of a kernel's templates, and the key of the one for a signature."""
    kept, stamp = function.sizes.kept, function.sizes.stamp
    files = CodeFiles(kept.cache_path, _text_digest(function), (stamp,))
    return files, kept._index_key(signature, codegen)


def _text_digest(function):
    """Return a name for the text of a kernel's module without its sizes."""
    text = Path(function.__code__.co_filename).read_text("utf-8")
    text = text.replace(f"sizes={function.sizes.numbers}", "sizes")
    return f"template-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def _made(state, library, module, template):
    """Return Numba's result for the kernel of `module`, from the template of another one."""
    context, shape = state.targetctx, template.shape
    names = shape.modname, module
    for name in "modname", "unique_name", "mangled_name", "env_name":
        setattr(shape, name, getattr(shape, name).replace(*names))
    for bitcode in template.modules:
        library.add_template(bitcode, *names)
    for bitcode in template.linked:
        library._final_module.link_in(llvm.parse_bitcode(bitcode))
    library.finalize()
    environment = Environment.from_fndesc(shape)
    environment.consts[:] = template.constants
    known: dict[str, Any] = dict.fromkeys(CompileResult._fields)
    known |= {
        "typing_context": state.typingctx,
        "target_context": context,
        "entry_point": context.get_executable(library, shape, environment),
        "type_annotation": "",
        "signature": template.signature,
        "objectmode": False,
        "library": library,
        "fndesc": shape,
        "environment": environment,
        "lifted": (),
        "metadata": {},
        "reload_init": [],
        "referenced_envs": [],
    }
    return CompileResult(**known)
