"""Whether kernels can be executed in this environment."""

from __future__ import annotations

import functools
import importlib.util


@functools.cache
def is_available() -> bool:
    """Whether NumPy, on which the machine is built, is installed. Some Python builds for browsers lack it."""
    return importlib.util.find_spec("numpy") is not None
