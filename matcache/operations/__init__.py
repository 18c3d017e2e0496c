"""The operations on any device. Importing this registers them."""

from . import adding as adding
from . import build as build
from . import indexing as indexing
from . import selection as selection
