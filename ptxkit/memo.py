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

DUE = 1_000_000
"""So many objects more than after the last collection are worth one; they take some 100 MB."""

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


MUCH = 10_000
"""So many new objects are worth not being looked at."""

_grown = 0
"""Objects that count as old since all were last looked at."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cyclic garbage collector, which would look at every new node in vain: trees and tables of them have no cycles.

    If much was made it counts as old afterwards, or the collector would look at all of it as soon as it is on again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            _grow_old()
            gc.enable()


def _grow_old() -> None:
    """Makes new objects old ones, if they are many; from time to time all are looked at."""
    global _grown
    made = gc.get_count()[0]
    if made < MUCH or gc.get_freeze_count():
        return
    _grown += made
    if _grown > DUE:
        _grown = 0
        gc.collect()
        return
    # what is frozen and thawed is in the oldest generation
    gc.freeze()
    gc.unfreeze()


def collect_when_due() -> None:
    """Collects cyclic garbage where the collector is off, if there may be much: for where most of what was made is not needed any more."""
    if not gc.isenabled() and gc.get_count()[0] > DUE:
        gc.collect()
