"""Work as a count that no load changes: how many functions a piece of code calls, of Python or of C.

It stands for time where a test says how time grows. What C code does within one call is not seen: `benchmarks/hostile.py` measures that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(work: Callable[[], object]) -> int:
    """How many calls `work` makes in this thread, itself among them."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
