"""Latent Dirichlet allocation.

`inference.py` has row programs. The sampler is kernels written by hand: `matcache/cpu/topics/`, and
`kept.cu`, `lists.cu` and `gibbs.cu` of `matcache/cuda/kernels/`.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import LDA as LDA
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
