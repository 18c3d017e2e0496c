"""The launches of a CUDA device. Importing this registers all of them."""

from . import algebra as algebra
from . import dense as dense
from . import draws as draws
from . import products as products
from . import rows as rows
from . import selection as selection
from . import solve as solve
from . import topics as topics
