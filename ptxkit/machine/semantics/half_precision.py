"""Half precision and bfloat16 (ISA 9.7.4), mixed precision (9.7.5 of 9.1), and packed small floats (9.7.6 of 9.4).

Operands are converted to singles or doubles, in which products are exact and sums are rounded to odd; the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.values.blocks import in_blocks
from ptxkit.machine.values.elements import Elements, elements_of
from ptxkit.machine.values.extremes import extreme
from ptxkit.machine.values.floats import flush_below, saturate
from ptxkit.machine.values.formats import FORMATS
from ptxkit.machine.values.integers import select
from ptxkit.machine.values.rounding import sum_to_odd, zero_of_sum

Function = Callable[..., Any]

_BLOCK = 8192
"""Block size in lanes."""

_OUT_OF_BOUNDS = np.uint16(0x7FFF)
"""The NaN that fills elements outside a tensor."""


def _elements(op: Operation, name: str) -> Elements:
    """The elements of an operand, whose type may also be given as an integer of the same size."""
    operand = op.operand(name)
    assert operand is not None
    return elements_of(operand.types[0])


def _rounded(op: Operation, function: Function) -> Semantics:
    """Applies a function of numbers and the rounding mode to the operands; then rounds, and clamps as modifiers require."""
    result = _elements(op, "d")
    names = [o.name for o in op.reads]
    operands = [_elements(op, name) for name in names]
    mode = next((m[1:] for m in op.bound.modifiers if m in (".rn", ".rz", ".rm", ".rp")), "rn")
    ftz, sat, relu, oob, finite = (op.has(m) for m in (".ftz", ".sat", ".relu", ".oob", ".satfinite"))

    def numbers_in(codes: list[Any]) -> list[Any]:
        if result.base in (".f16", ".bf16"):
            singles = [kind.singles(c) for kind, c in zip(operands, codes, strict=True)]
            if all(x is not None for x in singles):
                return singles
        return [kind.numbers(c) for kind, c in zip(operands, codes, strict=True)]

    def block(*values: Any) -> Any:
        codes = [kind.codes(v) for kind, v in zip(operands, values, strict=True)]
        numbers = numbers_in(codes)
        if ftz:
            numbers = [flush_below(x, kind.least) for kind, x in zip(operands, numbers, strict=True)]
        exact = function(*numbers, mode)
        # the limits are representable in all types, so clamping before rounding is the same as after
        if sat:
            exact = saturate(exact)
        if relu:
            exact = select(exact <= 0, exact.dtype.type(0), exact)
        rounded = result.rounded(exact, mode, finite=finite)
        if ftz:
            # a result that is subnormal before rounding is flushed even if it rounds up to a normal number
            larger = result.numbers(result.rounded(exact * exact.dtype.type(256), mode))
            rounded = _flushed(rounded, result, np.absolute(larger) < result.least * 256)
        if oob:
            outside = codes[0] == _OUT_OF_BOUNDS
            for other in codes[1:]:
                outside = outside | (other == _OUT_OF_BOUNDS)
            rounded = select(outside, np.uint16(0), rounded)
        return result.joined(rounded)

    reads = {name: kind.register for name, kind in zip(names, operands, strict=True)}
    if any(kind.register != result.register for kind in operands):
        return Semantics(block, reads)
    return Semantics(lambda *values: in_blocks(block, _BLOCK, *values), reads)


def _flushed(codes: Any, kind: Elements, small: Any) -> Any:
    """Codes, with those of small numbers replaced by zero of the same sign."""
    if kind.base == ".f32":
        return select(small, np.copysign(np.float32(0), codes), codes)
    return select(small, codes & codes.dtype.type(FORMATS[kind.base].sign), codes)


def _add(a: Any, b: Any, mode: str) -> Any:
    return zero_of_sum(sum_to_odd(a, b), a, b, mode)


def add(op: Operation) -> Semantics:
    """§ 9.7.4.1"""
    return _rounded(op, _add)


def sub(op: Operation) -> Semantics:
    """§ 9.7.4.2"""
    return _rounded(op, lambda a, b, mode: _add(a, -b, mode))


def mul(op: Operation) -> Semantics:
    """§ 9.7.4.3: the product is exact in double precision."""
    return _rounded(op, lambda a, b, mode: a * b)


def fma(op: Operation) -> Semantics:
    """§ 9.7.4.4"""
    if "bf16" in op.type and not op.has(".rn") and "f32" not in op.bound.opcode:
        raise Unsupported("the manual has only .rn of this form; with another rounding ptxas makes one for operands of .f16")
    return _rounded(op, lambda a, b, c, mode: _add(a * b, c, mode))


def neg(op: Operation) -> Semantics:
    """§ 9.7.4.5"""
    return _rounded(op, lambda a, mode: -a)


def abs(op: Operation) -> Semantics:
    """§ 9.7.4.6"""
    return _rounded(op, lambda a, mode: np.absolute(a))


def min(op: Operation) -> Semantics:
    """§ 9.7.4.7"""
    return _extreme(op, "min")


def max(op: Operation) -> Semantics:
    """§ 9.7.4.8"""
    return _extreme(op, "max")


def _extreme(op: Operation, which: str) -> Semantics:
    nan, xorsign, magnitude = op.has(".NaN"), op.has(".xorsign"), op.has(".abs")
    function = extreme(which, nan=nan, xorsign=xorsign, magnitude=magnitude)
    return _rounded(op, lambda a, b, mode: function(a, b))


def tanh(op: Operation) -> Semantics:
    """§ 9.7.4.9"""
    return _rounded(op, lambda a, mode: np.tanh(a))


def ex2(op: Operation) -> Semantics:
    """§ 9.7.4.10"""
    return _rounded(op, lambda a, mode: np.exp2(a))
