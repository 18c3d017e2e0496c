"""Findings on an installation: libraries, processors, memory, devices, files."""

from __future__ import annotations

import fcntl
import importlib.util
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from threadpoolctl import threadpool_info

from blocklearn.datasources.remote import Patience, resolve
from blocklearn.datasources.remote.schemes import libhdfs_is_set_up
from blocklearn.matcache.cpu.processors import thread_limits
from blocklearn.matcache.cuda import devices
from blocklearn.matcache.emit.source import cache_folder, kernel_folder

from ..exit_codes import message
from ..figures import size
from ..memory import memory_limits
from .accelerators import find_driver
from .machine import cpu_name

Level = Literal["ok", "note", "fault"]
"""ok: fine; note: optional, works without it; fault: must be repaired."""

CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
NOT_LISTED = ("test", "docs", "services", "bench", "gpu", "gpu13")  # extras; CuPy has its own line


class Finding(NamedTuple):
    """One line of the report."""

    subject: str
    text: str
    level: Level = "ok"


def versions() -> Iterator[Finding]:
    """Yield versions of Python and of libraries."""
    yield Finding("Python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding("blocklearn", version("blocklearn"))
    for requirement in requires("blocklearn") or ():
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == ['\"](\w+)", requirement)
        found = _version(name)
        if extra is None:
            yield Finding(name, found or "not installed", "ok" if found else "fault")
        elif extra[1] not in NOT_LISTED:
            how = f"not installed: pip install 'blocklearn[{extra[1]}]'"
            yield Finding(name, found or how, "ok" if found else "note")


def processors() -> Iterator[Finding]:
    """Yield the processor, usable threads, and BLAS libraries."""
    yield Finding("processor", cpu_name())
    limits = thread_limits()
    threads = max(1, min(limits.values()))
    why = ", ".join(f"{name} {count}" for name, count in limits.items())
    yield Finding("threads", f"{threads}, the least of: {why}")
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    for library in blas:
        kind = library.get("architecture", "")
        yield Finding("BLAS", f"{library['internal_api']} {library['version']} {kind}".strip())
    if not blas:
        yield Finding(
            "BLAS",
            "none that threadpoolctl knows: products may take more threads than they should",
            "note",
        )


def memory() -> Iterator[Finding]:
    """Yield limits of memory."""
    limits = memory_limits()
    for name, count in limits.items():
        yield Finding("memory", f"{size(count)} {name}")
    if not limits:
        yield Finding("memory", "the free amount is unknown", "note")


def accelerators() -> Iterator[Finding]:
    """Yield GPUs and the libraries that they need."""
    try:
        driver = find_driver()
    except OSError as error:
        yield Finding("NVIDIA driver", f"none: {error}")
        return
    yield Finding("NVIDIA driver", f"for CUDA {driver.version}, {len(driver.devices)} devices")
    for number, (name, total) in enumerate(driver.devices):
        yield Finding(f"device {number}", f"{name}, {size(total)}")
    cupy = next((f"{name} {found}" for name in CUPY if (found := _version(name))), None)
    if cupy is None:
        yield Finding("CuPy", "not installed: pip install 'blocklearn[gpu]'", "note")
        return
    try:
        import cupy as cp

        works = int(cp.arange(4).sum()) == 6
    except Exception as error:  # CuPy and its libraries raise errors of many kinds
        yield Finding("CuPy", f"{cupy}, but it does not work: {error}", "fault")
    else:
        yield Finding(
            "CuPy", cupy if works else f"{cupy} computes wrongly", "ok" if works else "fault"
        )
        if len(driver.devices) > 1:
            library = devices.nccl()
            missing = "none, replicas merge by copies: pip install nvidia-nccl-cu12, or -cu13"
            yield Finding("NCCL", missing if library is None else devices.nccl_version(library))


def file_systems() -> Iterator[Finding]:
    """Yield the file systems that data may come from."""
    import pyarrow.fs

    yield Finding("files, http, webhdfs", "built in")
    for scheme, name in [
        ("s3", "S3FileSystem"),
        ("gs", "GcsFileSystem"),
        ("az", "AzureFileSystem"),
    ]:
        there = hasattr(pyarrow.fs, name)
        text = "by pyarrow" if there else "this pyarrow was built without it"
        yield Finding(f"{scheme}://", text, "ok" if there else "note")
    drivers = ["libhdfs"] if libhdfs_is_set_up() else []
    if importlib.util.find_spec("hdfs_native") is not None:
        drivers.append(f"hdfs-native {_version('hdfs-native')}")
    text = ", ".join(drivers) or "no driver: pip install 'blocklearn[hdfs]', or use webhdfs://"
    yield Finding("hdfs://", text, "ok" if drivers else "note")


def folders() -> Iterator[Finding]:
    """Yield the folder of compiled kernels and the current one."""
    wanted, found = cache_folder(), kernel_folder()
    if found == wanted:
        yield Finding("kernels", f"{found}, {_free(found)}")
    else:
        yield Finding(
            "kernels",
            f"{wanted} cannot be written to, so they are in {found}, which may be emptied; set "
            "BLOCKLEARN_CACHE to a folder that is kept",
            "note",
        )
    yield _here()


def _here() -> Finding:
    here = Path.cwd()
    try:
        with tempfile.TemporaryFile(dir=here) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"{here} has no locks ({error}); never start two runs with the same --out"
                return Finding("this folder", text, "note")
    except OSError as error:
        return Finding("this folder", f"{here} cannot be written to ({error.strerror})", "note")
    return Finding("this folder", f"{here}, {_free(here)}")


def place(url: str) -> Iterator[Finding]:
    """Try to list `url` and to read up to a megabyte of it."""
    try:
        files, path, _ = resolve(url, Patience(timeout=10, attempts=2))
        status = files.status(path)
        inside = files.children(path) if status.folder else [status]
        yield Finding(url, f"{type(files).__name__}: {'folder' if status.folder else 'file'}")
        largest = max((f for f in inside if not f.folder), key=lambda f: f.size, default=None)
        if largest is None:
            yield Finding(url, f"{len(inside)} entries, no file to try", "note")
            return
        begun = time.perf_counter()
        with files.open(largest) as file:
            count = len(file.read(min(2**20, largest.size)))
        took = time.perf_counter() - begun
        yield Finding(url, f"{size(count)} of {files.name(largest.path)} in {took * 1000:,.0f} ms")
    except (OSError, ValueError, ImportError) as error:
        yield Finding(url, message(error), "fault")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _free(folder: Path) -> str:
    return f"{size(shutil.disk_usage(folder).free)} free"
