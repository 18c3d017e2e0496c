"""The kernels' text on the host, where g++'s sanitizers watch every access to memory as a card's
memory checker would: outside of an array, or at an address that a wide access cannot have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from scripts.gpu_check.tests import installed
from tests.support import cuda_host
from tests.support.often import rarely

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g1"
ROOT = Path(__file__).parents[2]
KERNELS = [
    "cuda_kernels",
    "cuda_text",
    "cuda_row_steps",
    "cuda_index",
    "cuda_topics",
    "cuda_states",
]
PLANTED = """
import numpy as np
from tests.support import cuda_host

text = '''
struct alignas(16) four { float x[4]; };
extern "C" __global__ void planted(float* out, i64 at) { BODY }
'''
out = np.zeros(4096, np.float32)
module = cuda_host.HostModule("typedef long long i64;" + text.replace("BODY", BODY), THREADS)
module.call("planted", out, 0)
print("nothing is wrong", flush=True)
module.call("planted", out, AT)
print("not found")
"""


def watched(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in which what g++ compiles is watched."""
    if not cuda_host.available():
        pytest.skip("no g++ on this machine")
    libraries = []
    for name in ("libasan.so", "libubsan.so"):
        command = ["g++", f"-print-file-name={name}"]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(found).is_absolute():
            pytest.skip(f"g++ has no {name} on this machine")
        libraries.append(found)
    watching = {
        "HOST_SANITIZERS": FLAGS,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0",
    }
    if installed("nvidia.cuda_nvrtc"):  # its parts are not found beside it then
        (folder,) = import_module("nvidia.cuda_nvrtc").__path__
        watching["LD_LIBRARY_PATH"] = str(Path(folder, "lib"))
    command = [sys.executable, *arguments]
    env = os.environ | watching
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("body", "at", "message"),
    [
        ("out[4095 + at] = 1;", 1, "AddressSanitizer: heap-buffer-overflow"),
        *rarely(
            ("out[0] = out[-at];", 1, "AddressSanitizer: heap-buffer-overflow"),
            ("*(four*)(out + at) = four{};", 2, "misaligned address"),
            ("__shared__ float held[8]; held[7 + at] = 1; out[0] = held[7];", 1, "out of bounds"),
        ),
    ],
)
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 64])
def test_what_is_planted_is_found(body: str, at: int, message: str, threads: int) -> None:
    text = PLANTED.replace("BODY)", f"{body!r})").replace("AT)", f"{at})")
    done = watched("-c", text.replace("THREADS", str(threads)))
    assert done.stdout == "nothing is wrong\n", done.stderr
    assert message in done.stderr


@pytest.mark.slow
def test_kernels_keep_to_their_arrays() -> None:
    files = [f"tests/cuda/test_{name}.py" for name in KERNELS]
    others = "not compile and not registers and not read_16_bytes"  # these run no kernel
    others += " and not a_device_keeps and not of_states and not blocks_end and not where_they_fit"
    options = ["-q", "-p", "no:cacheprovider", "-m", "not gpu", "-k", others]
    done = watched("-m", "pytest", *options, *files)
    assert not done.returncode, done.stdout[-5000:] + done.stderr[-5000:]
