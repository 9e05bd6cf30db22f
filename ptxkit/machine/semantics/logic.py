"""Logic and shifts (ISA 9.7.9). Predicates are `bool` arrays, on which NumPy's bitwise functions are logical operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics


def and_(op: Operation) -> Semantics:
    """§ 9.7.9.1"""
    return Semantics(np.bitwise_and)


def or_(op: Operation) -> Semantics:
    """§ 9.7.9.2"""
    return Semantics(np.bitwise_or)


def xor(op: Operation) -> Semantics:
    """§ 9.7.9.3"""
    return Semantics(np.bitwise_xor)


def not_(op: Operation) -> Semantics:
    """§ 9.7.9.4"""
    return Semantics(np.invert)


def cnot(op: Operation) -> Semantics:
    """§ 9.7.9.5"""
    dtype = op.dtype("d")
    return Semantics(lambda a: (a == 0).astype(dtype))


_OF_TWO: dict[int, Callable[[Any, Any], Any]] = {
    0b0001: lambda b, c: ~(b | c),
    0b0010: lambda b, c: ~b & c,
    0b0011: lambda b, c: ~b,
    0b0100: lambda b, c: b & ~c,
    0b0101: lambda b, c: ~c,
    0b0110: lambda b, c: b ^ c,
    0b0111: lambda b, c: ~(b & c),
    0b1000: lambda b, c: b & c,
    0b1001: lambda b, c: ~(b ^ c),
    0b1010: lambda b, c: c,
    0b1011: lambda b, c: ~b | c,
    0b1100: lambda b, c: b,
    0b1101: lambda b, c: b | ~c,
    0b1110: lambda b, c: b | c,
}
"""The functions of two bits that depend on them, by their truth tables: bit 2 b + c is what they give for b and c."""


def _of_three(table: int) -> Callable[[Any, Any, Any], Any]:
    """A function of three bits, by its truth table: what it is without a, changed by a where that makes a difference."""
    without, difference = table & 15, (table & 15) ^ (table >> 4)
    f, g = _OF_TWO.get(without), _OF_TWO.get(difference)
    constant = np.uint32(0xFFFFFFFF if without else 0)

    def changed_by(a: Any, b: Any, c: Any) -> Any:
        return a & g(b, c) if g else a

    if f is None and difference == 0:
        return lambda a, b, c: constant
    if f is None:
        return (lambda a, b, c: ~changed_by(a, b, c)) if without else changed_by
    if difference == 0:
        return lambda a, b, c: f(b, c)
    return lambda a, b, c: f(b, c) ^ changed_by(a, b, c)


def lop3(op: Operation) -> Semantics:
    """§ 9.7.9.6"""
    function = _of_three(int(op.constants["lut"]) & 255)
    if not op.slot(".bool"):
        return Semantics(lambda a, b, c, lut: function(a, b, c))
    combine = np.logical_or if op.has(".or") else np.logical_and

    def run(a: Any, b: Any, c: Any, lut: Any, q: Any) -> tuple[Any, Any]:
        d = function(a, b, c)
        return d, combine(d != 0, q)

    return Semantics(run)


def shf(op: Operation) -> Semantics:
    """§ 9.7.9.7"""
    wrap, left = op.has(".wrap"), op.has(".l")

    def run(a: Any, b: Any, c: Any) -> Any:
        count = c & 31 if wrap else np.minimum(c, 32)
        # NumPy shifts out everything if the count reaches the width
        return (b << count) | (a >> (32 - count)) if left else (a >> count) | (b << (32 - count))

    return Semantics(run)


def _shift(op: Operation, ufunc: np.ufunc) -> Semantics:
    """NumPy shifts out everything if the count reaches the width, as PTX does. The count must have the dtype of the value."""
    dtype = op.dtype("a")
    if dtype.itemsize == 4:
        # a count from 2^31 on is negative as int32, which NumPy treats as a large one
        return Semantics(ufunc, reads={"b": dtype})
    if "b" in op.constants:
        count = dtype.type(np.minimum(int(op.constants["b"]) & 0xFFFFFFFF, 255))
        return Semantics(lambda a, b: ufunc(a, count))
    if dtype.itemsize == 8:
        return Semantics(lambda a, b: ufunc(a, b.astype(dtype)))
    return Semantics(lambda a, b: ufunc(a, np.minimum(b, 255).astype(dtype)))


def shl(op: Operation) -> Semantics:
    """§ 9.7.9.8"""
    return _shift(op, np.left_shift)


def shr(op: Operation) -> Semantics:
    """§ 9.7.9.9"""
    return _shift(op, np.right_shift)
