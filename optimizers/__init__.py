"""How updates change parameters. Configuration files name optimizers by `kind`."""

from .base import Optimizer as Optimizer
from .streaming_average import StreamingAverage as StreamingAverage

OPTIMIZERS: dict[str, type[Optimizer]] = {"streaming-average": StreamingAverage}
