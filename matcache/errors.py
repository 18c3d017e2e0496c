"""What can go wrong, by name. Every error of the package derives from `BlocklearnError`."""


class BlocklearnError(Exception):
    """Base of all errors that this package raises on purpose."""


class ShapeError(BlocklearnError, ValueError):
    """Operands whose shapes, kinds or dtypes do not fit together."""


class StaleValueError(BlocklearnError, RuntimeError):
    """A handle was read after its container had received a newer value."""


class AllocationAfterWarmupError(BlocklearnError, RuntimeError):
    """A frozen cache was asked for memory that it had not reserved."""


class ReadDuringPlanError(BlocklearnError, RuntimeError):
    """The reserve phase met code that reads numbers before any data exist."""


class MemoryPlanError(BlocklearnError, MemoryError):
    """The planned memory does not fit the machine."""


class MissingKernelError(BlocklearnError):
    """An operation has no kernel for the device that it was asked to run on."""


class DeviceError(BlocklearnError):
    """A device that is not there, or whose name nobody knows."""
