"""Whether kernels can be executed here."""

from __future__ import annotations

import functools
import importlib.util


@functools.cache
def is_available() -> bool:
    """Whether NumPy, with which the machine computes, is installed: it is not in every browser that runs Python."""
    return importlib.util.find_spec("numpy") is not None
