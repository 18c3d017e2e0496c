"""Tell what an error of CUDA means for a user: which device failed, and what helps.

The numbers are those of `cudaError_t`, in driver_types.h; errors of the driver have the same ones.
"""

from __future__ import annotations

from ..errors import DeviceError, DeviceLostError, MemoryPlanError

OUT_OF_MEMORY = 2
OLD_DRIVER = {34, 35, 36, 222, 803, 804}
"""StubLibrary, InsufficientDriver, CallRequiresNewerDriver, UnsupportedPtxVersion,
SystemDriverMismatch, CompatNotSupportedOnDevice."""
TAKEN = {46, 805, 806, 807, 808, 809}
"""DevicesUnavailable, and connections to MPS, which shares a device."""
LOST = {100, 101, 214, 220, 226, 802, 999}
"""NoDevice, InvalidDevice, ECCUncorrectable, NvlinkUncorrectable, Contained, SystemNotReady,
Unknown."""
KERNEL = {700, 702, 710, 714, 715, 716, 717, 718, 719}
"""A kernel failed: IllegalAddress, LaunchTimeout, Assert, and what its instructions may not do."""


def ends_work(status: int) -> bool:
    """Return whether the memory and the work of this process on the device are lost."""
    return status in LOST or status in KERNEL


def told(error: RuntimeError, device: str, versions: tuple[int, int]) -> Exception | None:
    """Return the error to raise in place of one of CUDA; None: that one says enough.

    device: its name.
    versions: of CUDA, as the driver and CuPy's libraries report them: 12090 is 12.9.
    """
    status = getattr(error, "status", None)
    said = f"{device}: {first_line(error)}"
    if status == OUT_OF_MEMORY:
        return MemoryPlanError(
            f"{said}. Other programs may have taken the device's memory since the plan was made: "
            "nvidia-smi lists them. End them, lower block_rows, or choose another device."
        )
    if status in OLD_DRIVER:
        return DeviceError(f"{said}. {newer_driver(*versions)}")
    if status in TAKEN:
        return DeviceError(
            f"{said}. Another program has reserved the device: nvidia-smi shows the compute mode "
            "and the programs."
        )
    if status in LOST:
        return DeviceLostError(
            f"{said}. The device stopped working, or was taken away, and its work is lost. "
            "nvidia-smi and the kernel's log (dmesg, lines with Xid) may say why."
        )
    if status in KERNEL:
        error.add_note(
            f"A kernel failed on {device}, and the device's work is lost. If the kernel's log "
            "(dmesg) has a line with Xid and a number other than 13, 31 or 43, the hardware may "
            "have failed."
        )
    return None


def newer_driver(driver: int, libraries: int) -> str:
    """Return what to install, given the versions of CUDA of the driver and of CuPy's libraries.

    >>> newer_driver(12040, 13000)
    "The NVIDIA driver is of CUDA 12.4, CuPy's libraries of 13.0. Install a newer driver, or CuPy \
for CUDA 12 (pip install cupy-cuda12x[ctk])."
    >>> newer_driver(11040, 12090)
    "The NVIDIA driver is of CUDA 11.4, CuPy's libraries of 12.9. Install a newer driver."
    """
    have = f"The NVIDIA driver is of CUDA {_version(driver)}, "
    have += f"CuPy's libraries of {_version(libraries)}."
    if 12 <= driver // 1000 < libraries // 1000:
        cuda = driver // 1000
        other = f", or CuPy for CUDA {cuda} (pip install cupy-cuda{cuda}x[ctk])"
    else:
        other = ""
    return f"{have} Install a newer driver{other}."


def first_line(error: Exception) -> str:
    """Return the first line of a message; CuPy adds details, such as file names."""
    return str(error).partition("\n")[0].rstrip(".")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
