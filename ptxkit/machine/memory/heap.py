"""Memory of freed arrays stays with the process, for the arrays that are made next."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of parameters of `mallopt` in the C library."""
LARGE, MOST = 16 << 20, 64 << 20
"""Arrays of at least LARGE bytes get pages of their own; of the other memory, up to MOST bytes are kept once they are free."""


@cache
def keep_freed_memory() -> None:
    """Lets the C library keep freed memory, instead of returning it to the system.

    By default, each array of more than 128 KiB gets new pages, which the system clears on first access: monitors, which make many such
    arrays and soon drop them, spent a quarter of their time on that. Only for glibc; elsewhere nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(MMAP_THRESHOLD, LARGE)
    mallopt(TRIM_THRESHOLD, MOST)
