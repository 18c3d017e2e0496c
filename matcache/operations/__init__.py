"""What each operation computes, for any device. Importing this enters the operations."""

from . import build as build
from . import indexing as indexing
