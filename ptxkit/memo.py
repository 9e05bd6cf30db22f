"""Remembering what was computed for the last few objects; and building large things undisturbed."""

from __future__ import annotations

import functools
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


KEPT = 4
"""So many objects have what was computed for them remembered; results may refer to their object, so keeping more would keep those alive."""


def per_object(function: Callable[[T], R]) -> Callable[[T], R]:
    """A function of an immutable object, remembered for the last few objects; by identity, since comparing trees would cost too much."""
    known: OrderedDict[int, tuple[T, R]] = OrderedDict()

    @functools.wraps(function)
    def remembered(subject: T) -> R:
        key = id(subject)
        found = known.get(key)
        if found is not None and found[0] is subject:
            return found[1]
        result = function(subject)
        known[key] = (subject, result)
        while len(known) > KEPT:
            known.popitem(last=False)
        return result

    return remembered


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cyclic garbage collector, which would look at every new node in vain: trees and tables of them have no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
