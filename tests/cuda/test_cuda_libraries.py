"""Functions of cuBLAS and cuSOLVER are called with the argument types of NVIDIA's headers.

`tests/data/cuda_functions.json` has what the headers of CUDA 12 and 13 declare. With
BLOCKLEARN_WHEELS=FOLDER it is compared with the wheels in a folder, made by

    pip download --no-deps -d FOLDER nvidia-cublas-cu12 nvidia-cusolver-cu12 cupy-cuda12x
    pip download --no-deps -d FOLDER nvidia-cublas nvidia-cusolver cupy-cuda13x
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from ctypes import c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from blocklearn.matcache.cuda import cublas, cusolver

FILE = Path(__file__).parents[1] / "data" / "cuda_functions.json"
DECLARED: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text())
LIBRARIES = {  # header, and what is called with which arguments
    "cublas": ("cublas_api.h", cublas.ARGUMENTS),
    "cusolver": (
        "cusolverDn.h",
        {name: [c_void_p, *types] for name, types in cusolver.ARGUMENTS.items()},
    ),
}
HANDLES = ("cublasHandle_t", "cusolverDnHandle_t", "cudaStream_t")
WHEELS = sorted(Path(os.environ.get("BLOCKLEARN_WHEELS", "/nowhere")).glob("*.whl"))


def of_library(wheel: str) -> str:
    return "cusolver" if "cusolver" in wheel else "cublas"


def as_passed(declared: str) -> Any:
    """The type of ctypes for an argument of a header; enumerations are int."""
    if declared.endswith("*") or declared in HANDLES:
        return c_void_p
    return c_size_t if declared == "size_t" else c_int


@pytest.mark.parametrize("wheel", DECLARED)
def test_arguments_are_those_of_the_headers(wheel: str) -> None:
    called = LIBRARIES[of_library(wheel)][1]
    found = {name: list(map(as_passed, types)) for name, types in DECLARED[wheel].items()}
    assert found == called


def test_headers_of_both_versions_are_known() -> None:
    names = {wheel.partition(" ")[0] for wheel in DECLARED}
    both = {f"nvidia-{library}{version}" for library in LIBRARIES for version in ("", "-cu12")}
    assert names == both


# ------------------------------------------------------------------ the wheels themselves


def of_header(text: str, names: Any) -> dict[str, list[str]]:
    """The types of arguments of some functions, without their names."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found = {}
    for name, arguments in re.findall(r"_t\s+CU\w+\s+(\w+)\s*\(([^)]*)\)", text):
        if name in names:
            types = [re.sub(r"\w+$", "", one.strip()) for one in arguments.split(",")]
            found[name] = ["".join(kind.replace("const ", "").split()) for kind in types]
    return found


def member(wheel: ZipFile, pattern: str) -> str:
    (name,) = [name for name in wheel.namelist() if re.search(pattern, name)]
    return name


def said(tool: str, *arguments: str) -> str:
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on this machine")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not WHEELS, reason="BLOCKLEARN_WHEELS names no folder of wheels")
def test_wheels_have_the_functions(tmp_path: Path) -> None:
    """Each library exports them, as its header says, and CuPy's extension links it by its name."""
    sonames, linked = set(), {}
    for path in WHEELS:
        name, version, *_ = path.name.split("-")
        with ZipFile(path) as wheel:
            if name.startswith(("nvidia_cublas", "nvidia_cusolver")):
                library = of_library(name)
                header, called = LIBRARIES[library]
                text = wheel.read(member(wheel, f"/{header}$")).decode()
                declared = DECLARED[f"{name.replace('_', '-')} {version}"]
                assert of_header(text, called) == declared, path.name
                file = wheel.extract(member(wheel, rf"/lib{library}\.so\.\d+$"), tmp_path)
                sonames.add(Path(file).name)
                symbols = said("nm", "-D", "--defined-only", file)
                exported = {line.split()[-1].partition("@")[0] for line in symbols.splitlines()}
                Path(file).unlink()
                assert called.keys() <= exported, path.name
            elif name.startswith("cupy_cuda"):
                for library in LIBRARIES:
                    file = wheel.extract(
                        member(wheel, rf"/libs/{library}\.cpython.*\.so$"), tmp_path
                    )
                    needed = re.findall(r"\[(lib.*?)\]", said("readelf", "-d", file))
                    linked[path.name, library] = {one for one in needed if library in one}
    for by, names in linked.items():
        assert len(names) == 1 and names <= sonames, by
