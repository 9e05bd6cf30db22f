"""Extended-precision integer arithmetic (ISA 9.7.2).

The carry flag is the last argument if it is read, and the last result if it is written. Arithmetic is on bits, so operands of all types are
read as unsigned; after a subtraction, the flag is the borrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.values.integers import clamp, high, unsigned

_ZERO = np.False_


def _chain(op: Operation, step: Callable[[Any, Any, Any], tuple[Any, Any]], *, wide: Callable[[Any, Any, Any], Any]) -> Semantics:
    """One step of a carry chain: `step(a, b, carry)` returns the result and the carry; `wide`, without wrapping, is what `.sat` clamps."""
    if op.has(".sat"):
        return Semantics(lambda a, b, carry: clamp(wide(a.astype(np.int64), b.astype(np.int64), carry), np.int32))
    reads = dict.fromkeys("ab", unsigned(op.dtype("d")))
    if op.bound.carry == "w":
        return Semantics(lambda a, b: step(a, b, _ZERO), reads)
    if op.bound.carry == "rw":
        return Semantics(step, reads)
    return Semantics(lambda a, b, carry: step(a, b, carry)[0], reads)


def _add(a: Any, b: Any, carry: Any) -> tuple[Any, Any]:
    partial = a + b
    result = partial + carry
    return result, (partial < a) | (result < partial)


def _subtract(a: Any, b: Any, borrow: Any) -> tuple[Any, Any]:
    partial = a - b
    result = partial - borrow.astype(partial.dtype)
    return result, (a < b) | (partial < result)


def add(op: Operation) -> Semantics:
    """§ 9.7.2.1"""
    return addc(op)


def addc(op: Operation) -> Semantics:
    """§ 9.7.2.2"""
    return _chain(op, _add, wide=lambda a, b, carry: a + b + carry)


def sub(op: Operation) -> Semantics:
    """§ 9.7.2.3"""
    return subc(op)


def subc(op: Operation) -> Semantics:
    """§ 9.7.2.4"""
    return _chain(op, _subtract, wide=lambda a, b, borrow: a - b - borrow.astype(np.int64))


def mad(op: Operation) -> Semantics:
    """§ 9.7.2.5"""
    return madc(op)


def madc(op: Operation) -> Semantics:
    """§ 9.7.2.6: .sat is not in the manual here, and ptxas ignores it."""
    dtype = op.dtype("d")
    bits = unsigned(dtype)

    def half(a: Any, b: Any) -> Any:
        if not op.has(".hi"):
            return (a * b).view(bits)
        # 16-bit types are not in the manual here; they are extended to 32 bits, as by ptxas
        return (high(a, b, dtype) if dtype.itemsize > 2 else np.multiply(a, b, dtype=np.int64) >> 32).astype(bits)

    reads = {"c": bits}
    if op.bound.carry == "w":
        return Semantics(lambda a, b, c: _add(half(a, b), c, _ZERO), reads)
    if op.bound.carry == "rw":
        return Semantics(lambda a, b, c, carry: _add(half(a, b), c, carry), reads)
    return Semantics(lambda a, b, c, carry: _add(half(a, b), c, carry)[0], reads)
