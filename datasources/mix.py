"""Numbers that look random, from numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""

import numpy as np
import numpy.typing as npt

from .kernel import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # what the generator adds at each step


def mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer, on uint64 that wrap around."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def mix_one(z: np.uint64) -> np.uint64:
    """`mix` of one number, for kernels."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
