"""Integer arithmetic (ISA 9.7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.values import integers
from ptxkit.machine.values.blocks import in_blocks
from ptxkit.machine.values.integers import WIDER, clamp, high, select, signed, unsigned
from ptxkit.machine.values.packed import join, split

_PACKED: dict[str, np.dtype[Any]] = {
    ".u16x2": np.dtype(np.uint16),
    ".s16x2": np.dtype(np.int16),
    ".u8x4": np.dtype(np.uint8),
    ".s8x4": np.dtype(np.int8),
}


def _each(op: Operation, function: Callable[..., Any]) -> Semantics:
    """A function of elements, applied to those of packed operands."""
    element = _PACKED[op.type]
    return Semantics(lambda *values: join(function(*(split(x, element) for x in values)), np.uint32))


def _saturating(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Callable[[Any, Any], Any]:
    # A difference of unsigned numbers may be negative: twice the size, signed.
    wide = signed(WIDER[dtype])
    return lambda a, b: clamp(ufunc(a, b, dtype=wide), dtype)


def _sum(op: Operation, ufunc: np.ufunc) -> Semantics:
    dtype: np.dtype[Any] = _PACKED.get(op.type, op.dtype("d"))
    function = _saturating(ufunc, dtype) if op.has(".sat") else ufunc
    return _each(op, function) if op.type in _PACKED else Semantics(function)


def add(op: Operation) -> Semantics:
    """§ 9.7.1.1"""
    return _sum(op, np.add)


def sub(op: Operation) -> Semantics:
    """§ 9.7.1.2"""
    return _sum(op, np.subtract)


def mul(op: Operation) -> Semantics:
    """§ 9.7.1.3"""
    if op.has(".wide"):
        wide = WIDER[op.dtype("a")]
        return Semantics(lambda a, b: np.multiply(a, b, dtype=wide))
    if op.has(".lo"):
        return Semantics(np.multiply)
    dtype = op.dtype("d")
    return Semantics(lambda a, b: high(a, b, dtype))


def mad(op: Operation) -> Semantics:
    """§ 9.7.1.4"""
    if op.has(".wide"):
        wide = WIDER[op.dtype("a")]
        return Semantics(lambda a, b, c: np.multiply(a, b, dtype=wide) + c)
    if op.has(".lo"):
        return Semantics(lambda a, b, c: a * b + c)
    dtype = op.dtype("d")
    if op.has(".sat"):
        return Semantics(lambda a, b, c: clamp((np.multiply(a, b, dtype=np.int64) >> 32) + c, np.int32))
    return Semantics(lambda a, b, c: high(a, b, dtype) + c)


def clmad(op: Operation) -> Semantics:
    """§ 9.7.1.5 of 9.4: a product without carries, a bit of b at a time."""
    high_half = op.has(".hi")

    def run(a: Any, b: Any, c: Any) -> Any:
        d = c
        for bit in range(high_half, 64):
            part = a >> (64 - bit) if high_half else a << bit
            d = d ^ select((b >> bit) & 1 != 0, part, np.uint64(0))
        return d

    return Semantics(run, reads=dict.fromkeys("abc", np.uint64))


def _product24(op: Operation) -> Callable[[Any, Any], Any]:
    dtype = op.dtype("d")
    shift = 16 if op.has(".hi") else 0

    def low24(x: Any) -> Any:
        return (x << 8) >> 8

    return lambda a, b: np.multiply(low24(a), low24(b), dtype=WIDER[dtype]) >> shift


def mul24(op: Operation) -> Semantics:
    """§ 9.7.1.5"""
    dtype, product = op.dtype("d"), _product24(op)
    return Semantics(lambda a, b: product(a, b).astype(dtype))


def mad24(op: Operation) -> Semantics:
    """§ 9.7.1.6"""
    dtype, product = op.dtype("d"), _product24(op)
    if op.has(".sat"):
        return Semantics(lambda a, b, c: clamp(product(a, b) + c, dtype))
    return Semantics(lambda a, b, c: product(a, b).astype(dtype) + c)


def sad(op: Operation) -> Semantics:
    """§ 9.7.1.7"""
    return Semantics(lambda a, b, c: c + select(a < b, b - a, a - b))


def div(op: Operation) -> Semantics:
    """§ 9.7.1.8: towards zero. By zero the result is unspecified: all ones, as the code gives that ptxas makes."""
    dtype = op.dtype("d")
    ones = dtype.type(-1) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max)
    if dtype.kind == "u":
        return Semantics(lambda a, b: select(b == 0, ones, a // b))
    return Semantics(lambda a, b: select(b == 0, ones, (a - np.fmod(a, b)) // b))


def rem(op: Operation) -> Semantics:
    """§ 9.7.1.9: the sign is that of the dividend. By zero the result is unspecified: all ones, as the code gives that ptxas makes."""
    dtype = op.dtype("d")
    ones = dtype.type(-1) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max)
    return Semantics(lambda a, b: select(b == 0, ones, np.fmod(a, b)))


def abs(op: Operation) -> Semantics:
    """§ 9.7.1.10"""
    return Semantics(np.absolute)


def neg(op: Operation) -> Semantics:
    """§ 9.7.1.11"""
    return _each(op, np.negative) if op.type in _PACKED else Semantics(np.negative)


def _extreme(op: Operation, ufunc: np.ufunc) -> Semantics:
    function: Callable[..., Any] = (lambda a, b: np.maximum(ufunc(a, b), 0)) if op.has(".relu") else ufunc
    return _each(op, function) if op.type in _PACKED else Semantics(function)


def min(op: Operation) -> Semantics:
    """§ 9.7.1.12"""
    return _extreme(op, np.minimum)


def max(op: Operation) -> Semantics:
    """§ 9.7.1.13"""
    return _extreme(op, np.maximum)


def popc(op: Operation) -> Semantics:
    """§ 9.7.1.14"""
    return Semantics(lambda a: np.bitwise_count(a).astype(np.uint32))


def clz(op: Operation) -> Semantics:
    """§ 9.7.1.15"""
    bits = np.uint32(8 * op.dtype("a").itemsize)
    return Semantics(lambda a: bits - integers.bit_length(a))


def bfind(op: Operation) -> Semantics:
    """§ 9.7.1.16"""
    dtype = op.dtype("a")
    top = np.uint32(8 * dtype.itemsize - 1)
    shift_amount = op.has(".shiftamt")

    def run(a: Any) -> Any:
        if dtype.kind == "i":
            a = (a ^ (a >> top.astype(dtype))).view(unsigned(dtype))
        found = integers.bit_length(a) - np.uint32(1)
        return select(a != 0, top - found, found) if shift_amount else found

    return Semantics(run)


def fns(op: Operation) -> Semantics:
    """§ 9.7.1.17: a position of the mask at a time, from the base upwards and downwards.

    A base above 31 is undefined; on sm_90 nothing is found. An offset without an absolute value gives 0 there.
    """

    def run(mask: Any, base: Any, offset: Any) -> Any:
        start, step = base.astype(np.int64), np.sign(offset).astype(np.int64)
        left = select((offset == 0) | (start > 31), 32 * (start > 31), np.absolute(offset.astype(np.int64)) - 1)
        found = np.full(np.broadcast(mask, base, offset).shape, 0xFFFFFFFF, np.uint32)
        for count in range(32):
            position = start + step * count
            inside = (position >= 0) & (position < 32)
            is_set = inside & ((mask >> np.clip(position, 0, 31).astype(np.uint32)) & 1 != 0) & ((step != 0) | (count == 0))
            found = np.where(is_set & (left == 0), position.astype(np.uint32), found)
            left = left - is_set
        return select(offset == np.iinfo(np.int32).min, np.uint32(0), found)

    return Semantics(run, reads={"mask": np.uint32, "base": np.uint32, "offset": np.int32})


def brev(op: Operation) -> Semantics:
    """§ 9.7.1.18"""
    return Semantics(integers.reverse)


def _low_bits(count: Any, dtype: np.dtype[Any]) -> Any:
    """As many ones from the lowest bit on; NumPy shifts everything out when the count reaches the width."""
    return ~(~dtype.type(0) << count.astype(dtype))


def _field_mask(dtype: np.dtype[Any]) -> Any:
    """The bits of a position or length that count."""
    return np.uint32(0xFF if dtype.itemsize == 4 else 0xFFFFFFFF)


def bfe(op: Operation) -> Semantics:
    """§ 9.7.1.19: position and length are 0 to 255; of larger ones the low eight bits count with 32-bit types (on sm_90)."""
    dtype = op.dtype("a")
    bits = 8 * dtype.itemsize
    mask = _field_mask(dtype)
    if dtype.kind == "u":
        return Semantics(lambda a, pos, len: (a >> (pos & mask).astype(dtype)) & _low_bits(len & mask, dtype))

    def run(a: Any, pos: Any, len: Any) -> Any:
        # Beyond the top there are copies of the sign, which the arithmetic shift brings.
        unused = bits - np.minimum(len & mask, bits).astype(dtype)
        field = (a >> np.minimum(pos & mask, bits - 1).astype(dtype)) << unused >> unused
        return select(len & mask == 0, dtype.type(0), field)

    return Semantics(run)


def bfi(op: Operation) -> Semantics:
    """§ 9.7.1.20: position and length as for bfe."""
    dtype = op.dtype("d")
    counted = _field_mask(dtype)

    def run(a: Any, b: Any, pos: Any, len: Any) -> Any:
        at = (pos & counted).astype(dtype)
        mask = _low_bits(len & counted, dtype) << at
        return (b & ~mask) | ((a << at) & mask)

    return Semantics(run)


def szext(op: Operation) -> Semantics:
    """§ 9.7.1.21"""
    dtype = op.dtype("d")
    wrap = op.has(".wrap")

    def run(a: Any, b: Any) -> Any:
        count = (b & 31) if wrap else np.minimum(b, 32)
        unused = (32 - count).astype(dtype)
        return select(count == 0, dtype.type(0), (a << unused) >> unused)

    return Semantics(run)


def bmsk(op: Operation) -> Semantics:
    """§ 9.7.1.22"""
    dtype = np.dtype(np.uint32)
    if op.has(".wrap"):
        return Semantics(lambda a, b: _low_bits(b & 31, dtype) << (a & 31))
    return Semantics(lambda a, b: _low_bits(b, dtype) << a)


def _parts(x: Any, bits: int, signed: bool) -> list[Any]:
    """The bytes or halves of words, extended to `int32`."""
    words = x.view(np.int32 if signed else np.uint32)
    return [((words << (32 - bits - place)) >> (32 - bits)).view(np.int32) for place in range(0, 32, bits)]


def _dot(op: Operation, a_bits: int, half: slice) -> Semantics:
    a_signed, b_signed = op.slot(".atype") == ".s32", op.slot(".btype") == ".s32"

    def run(a: Any, b: Any, c: Any) -> Any:
        total = c.view(np.int32)
        for x, y in zip(_parts(a, a_bits, a_signed), _parts(b, 8, b_signed)[half], strict=True):
            total = total + x * y
        return total.view(np.uint32)

    return Semantics(lambda a, b, c: in_blocks(run, 16384, a, b, c))


def dp4a(op: Operation) -> Semantics:
    """§ 9.7.1.23"""
    return _dot(op, 8, slice(4))


def dp2a(op: Operation) -> Semantics:
    """§ 9.7.1.24"""
    return _dot(op, 16, slice(2, 4) if op.has(".hi") else slice(2))
