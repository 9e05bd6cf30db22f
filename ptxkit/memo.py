"""Remembering what was computed for an object, for as long as the object lives; and building large things undisturbed."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def per_object(function: Callable[[T], R]) -> Callable[[T], R]:
    """A function of one immutable object, computed once for each object (by identity: comparing trees would cost more than most facts)."""
    known: dict[int, tuple[weakref.ref[T], R]] = {}

    @functools.wraps(function)
    def remembered(subject: T) -> R:
        key = id(subject)
        found = known.get(key)
        if found is not None and found[0]() is subject:
            return found[1]
        result = function(subject)
        known[key] = (weakref.ref(subject, lambda _: known.pop(key, None)), result)
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
