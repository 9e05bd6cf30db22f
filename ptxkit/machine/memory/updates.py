"""Atomic updates by many lanes (ISA 9.7.14.5), with the effect of performing them one after another if addresses coincide.

Lanes with different addresses are updated together. After a few rounds, the remaining addresses are contended by many lanes; for these, all
states of a location are computed at once if the operation supports it (`Update.states`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen

Array = np.ndarray[Any, Any]
ROUNDS = 4


@frozen(eq=False)
class Update:
    """How an atomic operation changes memory.

    `step(old, *operands)` computes the stored values, for arrays. `states(start, *operands)` computes the n + 1 values of a location
    before, between and after n updates. `at(view, index, operand)` updates without returning old values, like `np.add.at`. `in_global`
    replaces the update in global memory if it differs there. `wanted` says whether old values are needed. `many(view, index, operands)`
    updates arbitrary locations at once; if it cannot, it returns None without an effect. `many_silent` is the same without old values.
    """

    step: Callable[..., Any]
    states: Callable[..., Any] | None = None
    at: Callable[..., Any] | None = None
    in_global: Update | None = None
    wanted: bool = True
    many: Callable[[Array, Array, tuple[Any, ...]], Array | None] | None = None
    many_silent: Callable[[Array, Array, tuple[Any, ...]], Array | None] | None = None

    def silent(self) -> Update:
        """The same update without old values."""
        return attrs.evolve(self, wanted=False)

    def chain(self, start: Any, operands: tuple[Any, ...], count: int) -> Array:
        """All values of one location under `count` successive updates."""
        if self.states is not None:
            return np.asarray(self.states(start, *(np.broadcast_to(o, count) for o in operands)))
        start = np.asarray(start)
        found = np.empty(count + 1, start.dtype)
        found[0] = start
        for i in range(count):
            one = tuple(o[i : i + 1] if getattr(o, "ndim", 0) else o for o in operands)
            found[i + 1 : i + 2] = self.step(found[i : i + 1], *one)
        return found


def folding(ufunc: np.ufunc) -> Update:
    """An update by a binary ufunc that NumPy can accumulate in order: add, minimum, bitwise operations."""

    def states(start: Any, operand: Array) -> Array:
        return np.asarray(ufunc.accumulate(np.concatenate([np.asarray(start, operand.dtype)[None], operand]), dtype=operand.dtype))

    return Update(ufunc, states, ufunc.at)


_ALL = 1 << 36
"""Only host memory has this many elements."""


def serially(view: Array, index: Any, update: Update, operands: tuple[Any, ...], count: int, wanted: bool = True) -> Any:
    """Updates `view[index]` for `count` lanes one after another, and returns the old values (None if not `wanted`)."""
    if not isinstance(index, np.ndarray):
        return _one_location(view, int(index), update, operands, count)
    if len(view) >= _ALL:
        # the whole memory of the process: NumPy must not treat it as an array of that size
        first = int(index.min())
        view, index = view[first : int(index.max()) + 1], index - first
    if not wanted and update.at is not None:
        update.at(view, index, operands[0])
        return None
    many = update.many if wanted or update.many is not None else update.many_silent
    done = many(view, index, operands) if many is not None else None
    if done is not None:
        return done
    low, high = int(index.min()), int(index.max())
    if low == high:
        return _one_location(view, low, update, operands, count)
    olds = np.empty(count, view.dtype)
    left = np.arange(count)
    for _ in range(ROUNDS):
        leads = _first(index[left], low, high)
        mine = left[leads]
        olds[mine] = before = view[index[mine]]
        view[index[mine]] = update.step(before, *(_of(o, mine) for o in operands))
        if len(mine) == len(left):
            return olds
        left = left[~leads]
    order = left[np.argsort(index[left], kind="stable")]
    sorted_index = index[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_index[1:] != sorted_index[:-1]]))
    ends = np.append(starts[1:], len(order))
    if len(starts) <= int((ends - starts).max()):
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            mine = order[start:end]
            olds[mine] = _one_location(view, int(sorted_index[start]), update, tuple(_of(o, mine) for o in operands), len(mine))
        return olds
    rank = np.arange(len(order)) - np.repeat(starts, ends - starts)
    by_rank = np.argsort(rank, kind="stable")
    for chunk in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]):
        mine = order[chunk]
        olds[mine] = before = view[index[mine]]
        view[index[mine]] = update.step(before, *(_of(o, mine) for o in operands))
    return olds


def _one_location(view: Array, index: int, update: Update, operands: tuple[Any, ...], count: int) -> Array:
    done = update.many(view, np.full(count, index), operands) if update.many is not None else None
    if done is not None:
        return done
    states = update.chain(view[index], operands, count)
    view[index] = states[-1]
    return states[:-1]


def _first(index: Array, low: int, high: int) -> Array:
    """For each lane, whether it is the first with its index."""
    count = len(index)
    if high - low > 1 << 24:
        keep = np.zeros(count, bool)
        keep[np.unique(index, return_index=True)[1]] = True
        return keep
    first = np.empty(high - low + 1, np.int32)
    place = index - low
    number = np.arange(count, dtype=np.int32)
    first[place[::-1]] = number[::-1]
    return np.asarray(first[place] == number)


def _of(operand: Any, lanes: Array) -> Any:
    return operand[lanes] if getattr(operand, "ndim", 0) else operand
