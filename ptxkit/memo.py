"""Caches of results for the last few objects, regular expressions that are compiled when they are first used, and pausing the garbage
collector while large structures are built."""

from __future__ import annotations

import functools
import gc
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

DUE = 1_000_000
"""Number of new objects since the last collection that justify another; they take some 100 MB."""

KEPT = 4
"""Number of objects whose results are cached; results may refer to their object, so a larger cache would keep more of them alive."""


def per_object(function: Callable[[T], R]) -> Callable[[T], R]:
    """Caches a function of an immutable object for the last few objects; by identity, since comparing trees would be too expensive."""
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


def expression(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression like `re.compile(pattern, flags)`, which is compiled when it is first used: most commands use few of them."""
    return _Expression(pattern, flags)  # type: ignore[return-value]


class _Expression:
    """The attributes of a regular expression, each taken over from it when it is first read."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


MUCH = 10_000
"""Number of new objects worth excluding from collection, or examining for garbage: few of a launch may hold much memory."""

_grown = 0
"""Objects made before the last collection of new ones, since the last full collection."""

_overlooked = 0, 0
"""New objects that are no reason to collect, and the collections before."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses the cyclic garbage collector, which would examine every new node in vain: trees and their tables have no cycles.

    If many objects were made, they are moved to the oldest generation afterwards; otherwise, the collector would examine all of them as
    soon as it resumes.
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
    """Moves new objects to the oldest generation, if they are many; now and then, all are collected."""
    global _grown
    made = gc.get_count()[0]
    if made < MUCH or gc.get_freeze_count():
        return
    _grown += made
    if _grown > DUE:
        _grown = 0
        gc.collect()
        return
    # freezing and unfreezing moves objects to the oldest generation
    gc.freeze()
    gc.unfreeze()


def collect_when_due() -> None:
    """Collects cyclic garbage while the collector is paused, if there may be much: for code after which most objects are unused."""
    global _grown
    if not gc.isenabled() and _grown + gc.get_count()[0] > DUE:
        _grown = 0
        gc.collect()


def collect_new(age: int = 0) -> None:
    """Collects cyclic garbage among the objects made since the last such collection while the collector is paused, if there may be much:
    what was there before, such as a large tree, is not examined again.

    At age 1, what has survived collections of age 0 since the last one of age 1 is examined too: for the end of what many shorter steps
    were part of.
    """
    global _grown
    made, *collections = gc.get_count()
    overlooked = _overlooked[0] if _overlooked[1] == _collections() else 0
    if gc.isenabled() or (made - overlooked <= MUCH and not any(collections[:age])):
        return
    _grown += made
    gc.collect(age)


def overlook_new() -> None:
    """The objects made so far are no reason for `collect_new` to collect: for the beginning of steps that make garbage, after what is still
    used has been made. To examine that would take longer than the steps."""
    global _overlooked
    _overlooked = gc.get_count()[0], _collections()


def _collections() -> int:
    """How often the collector has run."""
    return sum([generation["collections"] for generation in gc.get_stats()])
