"""The effect of atomic operations and reductions on a value in memory, by operation and type (ISA 9.7.14.5)."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.memory.updates import Update, folding
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]


@frozen(eq=False)
class Combining:
    """An update of elements of a type. A packed register value has several `dtype` elements, each updated separately."""

    update: Update
    dtype: np.dtype[Any]


@cache
def combining(op: str, type: str, noftz: bool = False) -> Combining:
    """The update for a modifier (`.add`, `.cas`, …) and a PTX type. Raises KeyError if there is none.

    Unless `noftz`, adding `.f32` in global memory flushes subnormals. Adding `.f64` in global memory preserves the bits of NaNs, including
    signaling ones, and of two NaNs returns the operand; in shared memory it returns the old value, made quiet (measured on sm_90).
    """
    element = type.removesuffix("x2")
    if op == ".exch":
        return Combining(Update(lambda old, b: b, _exchanged), dtype_of(type))
    if op == ".cas":
        return Combining(Update(_swap, _swapped), dtype_of(type))
    if op in (".inc", ".dec"):
        return Combining(_COUNTING[op], dtype_of(type))
    if element in (".f16", ".bf16"):
        return Combining(_halves(op, element), np.dtype(np.float16 if element == ".f16" else np.uint16))
    if type in (".f32", ".f64") and op == ".add":
        if type == ".f64":
            return Combining(attrs.evolve(_adding(np.float64), in_global=_DOUBLE_IN_GLOBAL), dtype_of(type))
        return Combining(_SINGLE if noftz else attrs.evolve(_SINGLE, in_global=_FLUSHING), dtype_of(type))
    return Combining(folding(_WHOLE[op]), dtype_of(type))


_WHOLE = {
    ".add": np.add,
    ".min": np.minimum,
    ".max": np.maximum,
    ".and": np.bitwise_and,
    ".or": np.bitwise_or,
    ".xor": np.bitwise_xor,
}


def _exchanged(start: Any, b: Array) -> Array:
    return np.concatenate([np.asarray(start)[None], b])


def _swap(old: Any, expected: Any, new: Any) -> Any:
    return np.where(_same(old, expected), new, old)


def _same(a: Any, b: Any) -> Any:
    return (a["lo"] == b["lo"]) & (a["hi"] == b["hi"]) if a.dtype.names else a == b


def _swapped(start: Any, expected: Array, new: Array) -> Array:
    """All states of a location. It only changes at the next lane whose expected value matches."""
    count = len(expected)
    states = np.empty(count + 1, expected.dtype)
    states[:] = start
    at = 0
    while at < count:
        hits = np.flatnonzero(_same(expected[at:], states[at : at + 1]))
        if not len(hits):
            break
        at += int(hits[0]) + 1
        states[at:] = new[at - 1]
    return states


def _increment(old: Any, limit: Any) -> Any:
    return np.where(old >= limit, np.zeros_like(old), old + np.ones_like(old))


def _decrement(old: Any, limit: Any) -> Any:
    return np.where((old == 0) | (old > limit), limit, old - np.ones_like(old))


def _incremented(start: Any, limit: Array) -> Array:
    if (limit != limit[0]).any():
        return Update(_increment).chain(start, (limit,), len(limit))
    top, first = int(limit[0]), int(start)
    number = np.arange(len(limit) + 1, dtype=np.uint64)
    states = (number + np.uint64(first if first <= top else top)) % np.uint64(top + 1)
    states[0] = first
    return states.astype(limit.dtype)


def _decremented(start: Any, limit: Array) -> Array:
    if (limit != limit[0]).any():
        return Update(_decrement).chain(start, (limit,), len(limit))
    top, first = int(limit[0]), int(start)
    number = np.arange(len(limit) + 1, dtype=np.uint64) % np.uint64(top + 1)
    states = (np.uint64((first if first <= top else 0) + top + 1) - number) % np.uint64(top + 1)
    states[0] = first
    return states.astype(limit.dtype)


_COUNTING = {".inc": Update(_increment, _incremented), ".dec": Update(_decrement, _decremented)}


def _adding(dtype: Any) -> Update:
    def step(old: Any, b: Any) -> Any:
        return canonical(np.add(old, b))

    def states(start: Any, b: Array) -> Any:
        found = canonical(np.add.accumulate(np.concatenate([np.asarray(start, dtype)[None], b])))
        found[0] = start
        return found

    def at(view: Array, index: Array, b: Any) -> None:
        np.add.at(view, index, b)
        if np.isnan(view[index]).any():
            view[index] = canonical(view[index])

    return Update(step, states, at)


def _add_flushed(old: Any, b: Any) -> Any:
    return flushed(canonical(flushed(old) + flushed(b)))


_SMALL = np.float32(2.0**-102)
"""Sums of numbers that are zero or at least this large in magnitude are multiples of 2**-125, so they are never subnormal."""


def _never_subnormal(*values: Any) -> bool:
    return all(bool(((np.abs(x) >= _SMALL) | (x == 0) | np.isnan(x)).all()) for x in values)


def _states_flushed(start: Any, b: Array) -> Any:
    if _never_subnormal(start, b):
        states = _SINGLE.states
        assert states is not None
        return states(start, b)
    return Update(_add_flushed).chain(start, (b,), len(b))


def _many_flushed(view: Array, index: Array, operands: tuple[Any, ...]) -> Array | None:
    """Additions without results where nothing can be subnormal, as in shared memory."""
    if not _never_subnormal(view[index], operands[0]):
        return None
    at = _SINGLE.at
    assert at is not None
    at(view, index, operands[0])
    return np.zeros(0, view.dtype)


_SINGLE = _adding(np.float32)
_FLUSHING = Update(_add_flushed, _states_flushed, many_silent=_many_flushed)


def _add_double(old: Any, b: Any) -> Any:
    return np.where(np.isnan(b), b, np.where(np.isnan(old), old, np.add(old, b)))


def _states_double(start: Any, b: Array) -> Any:
    if np.isnan(start) or np.isnan(b).any():
        return Update(_add_double).chain(start, (b,), len(b))
    return np.add.accumulate(np.concatenate([np.asarray(start, np.float64)[None], b]))


def _many_double(view: Array, index: Array, operands: tuple[Any, ...]) -> Array | None:
    """Additions without results where no operand is a NaN."""
    if np.isnan(view[index]).any() or np.isnan(operands[0]).any():
        return None
    np.add.at(view, index, operands[0])
    return np.zeros(0, view.dtype)


_DOUBLE_IN_GLOBAL = Update(_add_double, _states_double, many_silent=_many_double)


def flushed(x: Any) -> Any:
    """Flushes subnormals to zero with the same sign (ISA 9.7.3)."""
    x = np.asarray(x)
    small = np.abs(x) < np.finfo(x.dtype).tiny
    return np.where(small, np.copysign(np.zeros_like(x), x), x) if small.any() else x


_CANONICAL = {2: np.uint16(0x7FFF), 4: np.uint32(0x7FFFFFFF)}


def canonical(x: Any) -> Any:
    """Replaces NaNs by the canonical one: all bits set except the sign. NaNs of `.f64` keep their payload, as in IEEE 754."""
    x = np.asarray(x)
    if x.dtype.itemsize == 8:
        return x
    nan = np.isnan(x)
    return np.where(nan, np.asarray(_CANONICAL[x.dtype.itemsize]).view(x.dtype), x) if nan.any() else x


def _halves(op: str, type: str) -> Update:
    """Each operation is rounded to nearest even. Computing in single precision is exact, since 24 >= 2 * 11 + 2 bits."""
    wide, narrow = (_wide_bf16, to_bf16) if type == ".bf16" else (_wide_f16, _narrow_f16)
    functions: dict[str, Any] = {".add": np.add, ".min": minimum, ".max": maximum}
    function = functions[op]

    def step(old: Any, b: Any) -> Any:
        return narrow(function(wide(old), wide(b)))

    return Update(step, _adding(np.float16).states if op == ".add" and type == ".f16" else None)


def minimum(a: Any, b: Any) -> Any:
    """The smaller number; NaN only if both are NaN; -0 is smaller than +0 (ISA 9.7.3, min)."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def maximum(a: Any, b: Any) -> Any:
    """The larger number; NaN only if both are NaN; +0 is larger than -0 (ISA 9.7.3, max)."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def _wide_f16(x: Any) -> Any:
    return np.asarray(x).view(np.float16).astype(np.float32)


def _narrow_f16(x: Any) -> Any:
    return canonical(x.astype(np.float16))


def _wide_bf16(x: Any) -> Any:
    return (np.asarray(x).astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(x: Array) -> Any:
    """Rounds single precision to bfloat16, to nearest even, as bits."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    up = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + up) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), rounded)
