"""How the CPU does each operation. Importing this registers every launch."""

from . import dense as dense
from . import products as products
from . import rows as rows
from . import solve as solve
from . import topics as topics
