"""A limit on the address space (`ulimit -v`), which the libraries alone may exceed.

They then end the process, or fail in ways of their own, so the limit is looked at before they load.
Nothing heavy is imported here.
"""

import resource

LEAST = 512 << 20
"""Bytes without which the libraries do not load, on any machine; with many processors more."""


def limit() -> int | None:
    """Return the bytes of address space that this process may have; None: it is not limited."""
    found, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if found == resource.RLIM_INFINITY else found


def too_small() -> bool:
    """Return whether the limit leaves no room for the libraries."""
    found = limit()
    return found is not None and found < LEAST


def advice() -> str:
    """Return what to do where memory is out; empty if the address space is not limited."""
    found = limit()
    if found is None:
        return ""
    return (
        f"ulimit -v is {found >> 10:,} KiB, and the libraries take much of it. Raise it (ulimit -v "
        "unlimited); 2,000,000 is enough for small data."
    )
