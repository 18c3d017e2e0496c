"""Print the function by which Python calls a kernel.

Numba's own has twenty instructions for each argument, with a block for each error: as much text
for LLVM as the kernel. Arguments here are arrays, numbers and records of them, whose types Numba's
dispatcher has compared with those of the kernel.

Fields of an array are read where NumPy keeps them, so the code needs nothing of Numba when it runs
(`ready.py`).
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.np.numpy_support import as_dtype

# Pointers have types, which LLVM 15 asks for and newer ones ignore. Numba binds the names of
# Python's objects to the objects themselves.
_MODULE = """\
@name = private constant [7 x i8] c"kernel\\00"
@wrong = private constant [38 x i8] c"an argument is no array, or no number\\00"
@failed = private constant [16 x i8] c"a kernel failed\\00"
@PyExc_TypeError = external global i8
@PyExc_RuntimeError = external global i8
@_Py_NoneStruct = external global i8
@PyArray_Type = external global i8
declare i32 @PyArg_UnpackTuple(i8*, i8*, i64, i64, ...)
declare i32 @PyObject_IsInstance(i8*, i8*)
declare i64 @PyLong_AsLongLong(i8*)
declare double @PyFloat_AsDouble(i8*)
declare i8* @PyLong_FromLongLong(i64)
declare i8* @PyBool_FromLong(i64)
declare i8* @PyFloat_FromDouble(double)
declare i8* @PyErr_Occurred()
declare void @PyErr_SetString(i8*, i8*)
declare i8* @PyEval_SaveThread()
declare void @PyEval_RestoreThread(i8*)
declare void @Py_IncRef(i8*)
declare i32 @"{kernel}"({declared})

define i8* @"{entry}"(i8* %self, i8* %given, i8* %named) noinline optnone {{
{slots}
  %complete = {unpacked}
  %some = icmp ne i32 %complete, 0
  br i1 %some, label %open, label %raised
open:
{opened}
  %all = icmp ne i32 {whole}, 0
  br i1 %all, label %read, label %raised
read:
{reads}
  %pending = call i8* @PyErr_Occurred()
  %fine = icmp eq i8* %pending, null
  br i1 %fine, label %check, label %raised
check:
  %good = icmp ne i32 {good}, 0
  br i1 %good, label %call, label %mistaken
mistaken:
  call void @PyErr_SetString(i8* @PyExc_TypeError, i8* bitcast ([38 x i8]* @wrong to i8*))
  ret i8* null
call:
{fields}
  %state = call i8* @PyEval_SaveThread()
  %status = call i32 @"{kernel}"({passed})
  call void @PyEval_RestoreThread(i8* %state)
  %done = icmp eq i32 %status, 0
  br i1 %done, label %success, label %failure
success:
{success}
failure:
  call void @PyErr_SetString(i8* @PyExc_RuntimeError, i8* bitcast ([16 x i8]* @failed to i8*))
  ret i8* null
raised:
  ret i8* null
}}
"""

_NUMBERS = {
    types.int64: ("i64 @PyLong_AsLongLong", ""),
    types.int32: ("i64 @PyLong_AsLongLong", "trunc i64 {} to i32"),
    types.float64: ("double @PyFloat_AsDouble", ""),
    types.float32: ("double @PyFloat_AsDouble", "fptrunc double {} to float"),
}

_HEAD = object.__basicsize__ // 8  # words of an object before its fields
ADDRESS = 4  # which of an array's words, as Numba passes them, is its address
_DATA, _SHAPE, _STRIDES = _HEAD, _HEAD + 2, _HEAD + 3  # words of an array that point to these


# What returns each type of result, which is at %r0 as Numba keeps it.
_RESULTS = {
    types.none: """\
  call void @Py_IncRef(i8* @_Py_NoneStruct)
  ret i8* @_Py_NoneStruct""",
    types.int64: """\
  %result = load i64, i64* %r0
  %found = call i8* @PyLong_FromLongLong(i64 %result)
  ret i8* %found""",
    types.boolean: """\
  %result = load i8, i8* %r0
  %number = zext i8 %result to i64
  %found = call i8* @PyBool_FromLong(i64 %number)
  ret i8* %found""",
    types.float64: """\
  %result = load double, double* %r0
  %found = call i8* @PyFloat_FromDouble(double %result)
  ret i8* %found""",
}


def has_entry(arguments: Sequence[Any], result: Any) -> bool:
    """Return whether `entry_text` knows these types of arguments and result."""
    parts = [part for kind in arguments for part in _parts(kind)]
    known = all(isinstance(kind, types.Array) or kind in _NUMBERS for kind in parts)
    return known and result in _RESULTS


def _parts(kind: Any) -> Sequence[Any]:
    """Return the types of a record's parts, or that of an argument which is none."""
    return list(kind) if isinstance(kind, types.BaseTuple) else [kind]  # type: ignore[call-overload]


def _unpack(given: str, places: Sequence[str]) -> str:
    """Return a call that stores the objects of a tuple at places; it returns 0 where it fails."""
    count = f"i64 {len(places)}"
    values = [f"i8* {given}", "i8* bitcast ([7 x i8]* @name to i8*)", count, count]
    values += [f"i8** {place}" for place in places]
    return f"call i32 (i8*, i8*, i64, i64, ...) @PyArg_UnpackTuple({', '.join(values)})"


def _array_words(n: int, kind: Any) -> tuple[list[str], list[str]]:
    """Return lines that read the array %p<n>, and what its words are then, as Numba passes them."""
    lines = [f"%x{n} = bitcast i8* %p{n} to i64*"]
    found = {}
    for name, word in ("d", _DATA), ("s", _SHAPE), ("t", _STRIDES):
        place = f"%{name}{n}.a"
        lines += [f"{place} = getelementptr i64, i64* %x{n}, i64 {word}"]
        lines += [f"%{name}{n}.v = load i64, i64* {place}"]
        found[name] = f"%{name}{n}.v"
    count = "1"
    sizes: dict[str, list[str]] = {"s": [], "t": []}
    for name, each in sizes.items():
        if kind.ndim:
            lines.append(f"%{name}{n}.p = inttoptr i64 {found[name]} to i64*")
        for axis in range(kind.ndim):
            own = f"%{name}{n}.{axis}"
            lines.append(f"{own}.a = getelementptr i64, i64* %{name}{n}.p, i64 {axis}")
            lines.append(f"{own} = load i64, i64* {own}.a")
            each.append(own)
    for axis, size in enumerate(sizes["s"]):
        lines.append(f"%c{n}.{axis} = mul i64 {count}, {size}")
        count = f"%c{n}.{axis}"
    item = str(as_dtype(kind.dtype).itemsize)
    return lines, ["null", f"%p{n}", count, item, found["d"], *sizes["s"], *sizes["t"]]


def entry_text(
    kernel: str, entry: str, arguments: Sequence[Any], result: Any, passed: Sequence[str]
) -> str:
    """Return a module of LLVM with the function `entry`, which calls `kernel`.

    It releases the interpreter's lock meanwhile.

    passed: LLVM's types of the kernel's parameters: its result, its error, then of each array
        owner twice, sizes, address, shape, strides, and of each number itself. A record is
        passed as its parts.
    """
    slots = [f"%r{n} = alloca {kind[:-1]}" for n, kind in enumerate(passed[:2])]
    values = [f"{kind} %r{n}" for n, kind in enumerate(passed[:2])]
    places: list[str] = []
    parts: list[Any] = []
    opened, whole = [], "1"
    for n, kind in enumerate(arguments):
        found = _parts(kind)
        own = [f"%s{len(parts) + i}" for i in range(len(found))]
        slots += [f"{place} = alloca i8*" for place in own]
        parts += found
        if isinstance(kind, types.BaseTuple):
            slots.append(f"%t{n} = alloca i8*")
            opened.append(f"%o{n} = load i8*, i8** %t{n}")
            opened.append(f"%f{n} = {_unpack(f'%o{n}', own)}")
            opened.append(f"%g{n} = and i32 {whole}, %f{n}")
            whole = f"%g{n}"
            own = [f"%t{n}"]
        places += own
    reads, fields, good = [], [], "1"
    for n, kind in enumerate(parts):
        reads.append(f"%p{n} = load i8*, i8** %s{n}")
        if isinstance(kind, types.Array):
            reads.append(f"%e{n} = call i32 @PyObject_IsInstance(i8* %p{n}, i8* @PyArray_Type)")
            reads.append(f"%b{n} = and i32 {good}, %e{n}")
            good = f"%b{n}"
            forms = passed[len(values) : len(values) + 5 + 2 * kind.ndim]
            lines, words = _array_words(n, kind)
            fields += lines
            for place, (form, word) in enumerate(zip(forms, words, strict=True)):
                if place == ADDRESS:
                    fields.append(f"%w{n} = inttoptr i64 {word} to {form}")
                    word = f"%w{n}"
                values.append(f"{form} {word}")
        else:
            read, narrow = _NUMBERS[kind]
            reads.append(f"%v{n} = call {read}(i8* %p{n})")
            if narrow:
                reads.append(f"%n{n} = {narrow.format(f'%v{n}')}")
            values.append(f"{passed[len(values)]} {'%n' if narrow else '%v'}{n}")
    return _MODULE.format(
        kernel=kernel,
        entry=entry,
        declared=", ".join(passed),
        slots="\n".join(slots),
        unpacked=_unpack("%given", places),
        opened="\n".join(opened),
        whole=whole,
        reads="\n".join(reads),
        good=good,
        fields="\n".join(fields),
        success=_RESULTS[result],
        passed=", ".join(values),
    )
