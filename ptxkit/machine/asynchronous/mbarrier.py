"""The 64 bits of an mbarrier, and the operations on them (ISA 9.7.14.15).

From the lowest bit: 20 bits of pending arrivals, 20 of expected arrivals in later phases, 21 of the transaction count (signed), 1 for the
parity of the phase, and 2 that distinguish an mbarrier from other data. The state that an arrival returns is the whole word before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.memory.updates import Update

Array = np.ndarray[Any, Any]

_WORD = np.dtype(np.uint64)
COUNT_BITS = 20
MOST = (1 << COUNT_BITS) - 1
"""Maximum number of arrivals, and maximum absolute value of the transaction count."""

_EXPECTED, _TX, _PHASE, _MARK = np.uint64(20), np.uint64(40), np.uint64(61), np.uint64(62)
_COUNT = np.uint64(MOST)
_TX_MASK = np.uint64((1 << 21) - 1)
_MARKS = {"v0": np.uint64(1), "v1": np.uint64(2)}
_ONE = np.uint64(1)


def made(count: Any, layout: str = "v0") -> Any:
    """An mbarrier in phase 0 that expects `count` arrivals."""
    count = np.asarray(count, np.uint64)
    return (count | count << _EXPECTED | _MARKS[layout] << _MARK)[()]


def pending(word: Any) -> Any:
    """Number of pending arrivals."""
    return np.asarray(word & _COUNT).astype(np.int64)[()]


def expected(word: Any) -> Any:
    """Number of arrivals that the next phase expects."""
    return np.asarray(word >> _EXPECTED & _COUNT).astype(np.int64)[()]


def transactions(word: Any) -> Any:
    """The transaction count: expect-tx bytes that have not arrived; negative if more have arrived than are expected so far."""
    raw = np.asarray(word >> _TX & _TX_MASK).astype(np.int64)
    return (raw - ((raw >> 20) << 21))[()]


def parity(word: Any) -> Any:
    """The parity of the current, incomplete phase."""
    return word >> _PHASE & _ONE


def is_one(word: Any) -> Any:
    """Whether these bits are an mbarrier."""
    mark = word >> _MARK
    return (mark == _MARKS["v0"]) | (mark == _MARKS["v1"])


def has_layout(word: Any, layout: str) -> Any:
    """Whether an mbarrier has this layout."""
    return word >> _MARK == _MARKS[layout]


def _step(old: Any, count: Any, tx: Any, drop: Any) -> Any:
    """The word after `count` arrivals, `tx` more expected transactions (fewer if negative), and `drop` fewer arrivals in later phases;
    this may complete the phase."""
    left = pending(old) - count
    more = transactions(old) + tx
    later = expected(old) - drop
    complete = (left == 0) & (more == 0)
    left = np.where(complete, later, left)
    fields = (left & MOST) | (later & MOST) << 20 | (more & ((1 << 21) - 1)) << 40
    phase = np.asarray(parity(old)) ^ np.asarray(complete, np.uint64)
    return np.asarray(fields).astype(np.uint64) | phase << _PHASE | (old >> _MARK) << _MARK


def _many(view: Array, index: Array, operands: tuple[Any, ...]) -> Array | None:
    """Arrivals of many lanes at once, if only the last one may complete the phase; None otherwise."""
    count, tx, drop = operands
    if np.any(tx) or np.any(drop):
        return None
    lanes = len(index)
    order = np.argsort(index, kind="stable")
    place = index[order]
    first = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
    lengths = np.diff(np.append(first, lanes))
    each = np.broadcast_to(np.asarray(count, np.int64), lanes)[order]
    total = np.cumsum(each)
    before = total - each
    before = before - np.repeat(before[first], lengths)
    start = np.repeat(view[place[first]], lengths)
    if (before + each > pending(start)).any():
        return None
    found = start - before.astype(np.uint64)
    last = first + lengths - 1
    view[place[last]] = _step(found[last], each[last], 0, 0)
    olds = np.empty_like(found)
    olds[order] = found
    return olds


CHANGE = Update(_step, many=_many)
"""An operation on an mbarrier. The operands are arrivals, transactions and dropped arrivals, all int64."""


def wrong(old: Any, count: Any = 0, tx: Any = 0, drop: Any = 0) -> tuple[Any, str, str] | None:
    """The lanes for which an operation on an mbarrier is undefined, the reason, and its word as in `Fault.why`; None if it is defined for
    all."""
    for bad, reason, why in (
        (~is_one(old), "no mbarrier is there: mbarrier.init has not been executed, or the mbarrier was invalidated or overwritten", ""),
        (pending(old) - count < 0, "more arrivals at an mbarrier than its phase has pending", "arrivals"),
        (np.abs(transactions(old) + tx) > MOST, f"the transaction count of an mbarrier leaves the range of {-MOST} to {MOST}", "bytes"),
        (expected(old) - drop < 0, "more arrivals dropped from an mbarrier than it expects", "arrivals"),
    ):  # fmt: skip
        if np.any(bad):
            return bad, reason, why
    return None


def change(lanes: Any, space: str, address: Any, count: Any, tx: Any, drop: Any = 0) -> Any:
    """Performs an operation on the mbarriers at some addresses, and returns their previous words. Faults if it is undefined."""
    operands = tuple(np.asarray(x, np.int64)[()] for x in (count, tx, drop))
    old = lanes.update(space, address, CHANGE, _WORD, *operands)
    check(lanes, old, *operands)
    return old


def check(lanes: Any, old: Any, count: Any = 0, tx: Any = 0, drop: Any = 0) -> None:
    """Faults if an operation on an mbarrier is undefined."""
    found = wrong(old, count, tx, drop)
    if found is not None:
        bad, reason, why = found
        lanes.fault(np.broadcast_to(bad, lanes.count), reason, "mbarrier", why)
