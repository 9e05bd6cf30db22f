"""Floating-point arithmetic in single and double precision (ISA 9.7.3).

Approximate functions return correctly rounded results, which are within the manual's error bounds, and follow its tables for special
values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.values import double, single
from ptxkit.machine.values.blocks import in_blocks
from ptxkit.machine.values.extremes import extreme
from ptxkit.machine.values.floats import are_small, canonical, flush, flush_below, saturate
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.packed import join, split
from ptxkit.machine.values.reciprocal import reciprocal
from ptxkit.machine.values.rounding import to_single

Function = Callable[..., Any]

_BLOCK = 8192
"""Block size in lanes for functions computed in double precision."""

_LEAST32, _LEAST64 = 2.0**-126, 2.0**-1022
_NAN64 = np.uint64(0x7FFFFFFF00000000).view(np.float64)
"""The NaN returned by approximate functions in double precision."""


def _mode(op: Operation) -> str:
    return next((m[1:] for m in op.bound.modifiers if m in (".rn", ".rz", ".rm", ".rp")), "rn")


def _single(op: Operation, function: Function, exact: Function | None = None, with_any_nan: Function | None = None) -> Semantics:
    """A function of singles, extended by `.ftz` and `.sat`, applied to each element of packed types.

    A result that is subnormal before rounding is flushed even if it rounds up to a normal number: `exact` computes it as a double.
    """

    def whole(function: Function, flushes: bool) -> Function:
        run = _flushing(function, exact, _mode(op), flushes) if op.has(".ftz") else function
        return partial(_saturated, run) if op.has(".sat") else run

    run = whole(function, True)
    if op.type == ".f32x2":
        return Semantics(lambda *values: join(run(*[split(v, np.float32) for v in values]), np.uint64))
    variants = {}
    if op.has(".ftz"):
        variants["normal"] = whole(function, False)
    if with_any_nan is not None:
        variants["any nan"] = whole(with_any_nan, True)
        variants["any nan, normal"] = whole(with_any_nan, False)
    return Semantics(run, variants=variants)


def _flushing(function: Function, exact: Function | None, mode: str, flushes: bool) -> Function:
    """Flushes the results of a function, and its operands unless they are known to be flushed."""

    def run(*values: Any) -> Any:
        if flushes:
            values = tuple([flush(v) for v in values])
        result = function(*values)
        if not are_small(result):
            return result
        result = flush(result)
        if exact is None:
            return result
        least = np.absolute(result) == _LEAST32
        if not some(least):
            return result
        tiny = least & (np.absolute(to_single(exact(*values) * 2.0**24, mode)) < _LEAST32 * 2.0**24)
        return select(tiny, np.copysign(np.float32(0), result), result)

    return run


def _saturated(function: Function, *values: Any) -> Any:
    return saturate(function(*values))


def _rounded(op: Operation, of_single: Function, of_double: Function) -> Semantics:
    """Arithmetic that takes a rounding mode as its last argument."""
    mode = _mode(op)
    if op.type == ".f64":
        return Semantics(lambda *values: of_double(*values, mode))
    exact = single.EXACT.get(of_single)
    if mode != "rn" or of_single not in single.TO_NEAREST:
        return _single(op, partial(of_single, mode=mode), exact)
    run, with_any_nan = single.TO_NEAREST[of_single]
    return _single(op, run, exact, with_any_nan)


def testp(op: Operation) -> Semantics:
    """§ 9.7.3.1: zero counts as normal."""
    least = _LEAST32 if op.type == ".f32" else _LEAST64
    tests: dict[str, Function] = {
        ".finite": np.isfinite,
        ".infinite": np.isinf,
        ".number": lambda a: ~np.isnan(a),
        ".notanumber": np.isnan,
        ".normal": lambda a: np.isfinite(a) & ((np.absolute(a) >= least) | (a == 0)),
        ".subnormal": lambda a: (np.absolute(a) < least) & (a != 0),
    }
    # without an operation, ptxas assumes the first one
    return Semantics(tests[op.slot(".op") or ".finite"])


def copysign(op: Operation) -> Semantics:
    """§ 9.7.3.2: the sign of a, everything else from b."""
    return Semantics(lambda a, b: np.copysign(b, a))


def add(op: Operation) -> Semantics:
    """§ 9.7.3.3"""
    return _rounded(op, single.add, double.add)


def sub(op: Operation) -> Semantics:
    """§ 9.7.3.4"""
    return _rounded(op, single.subtract, double.subtract)


def mul(op: Operation) -> Semantics:
    """§ 9.7.3.5"""
    return _rounded(op, single.multiply, double.multiply)


def fma(op: Operation) -> Semantics:
    """§ 9.7.3.6"""
    return _rounded(op, single.fma, double.fma)


def mad(op: Operation) -> Semantics:
    """§ 9.7.3.7: the same as fma on all targets."""
    return fma(op)


def div(op: Operation) -> Semantics:
    """§ 9.7.3.8"""
    if op.has(".approx"):
        return _single(op, _fast_quotient)
    if op.has(".full"):
        return _single(op, _full_quotient)
    return _rounded(op, single.divide, double.divide)


def _fast_quotient(a: Any, b: Any) -> Any:
    """The product by the approximate reciprocal. If that is subnormal it counts as zero, so the result is zero, or NaN if a is infinite."""
    small = np.absolute(b) < 2.0**-126
    if not some(small):
        return single.multiply(a, reciprocal(b))
    scale = select(small, np.float32(2.0**24), np.float32(1))
    return single.multiply(single.multiply(a, reciprocal(b * scale)), scale)


def _full_quotient(a: Any, b: Any) -> Any:
    """The product by the approximate reciprocal. Both operands are scaled first where b, or its reciprocal, would be subnormal."""
    magnitude = np.absolute(b)
    if some(extreme := (magnitude < 2.0**-126) | (magnitude > 2.0**126)):
        scale = select(extreme, select(magnitude < 1, np.float32(2.0**24), np.float32(0.25)), np.float32(1))
        a, b = single.multiply(a, scale), single.multiply(b, scale)
    return single.multiply(a, reciprocal(b))


def abs(op: Operation) -> Semantics:
    """§ 9.7.3.9"""
    return _sign(np.absolute) if op.type == ".f64" else _single(op, lambda a: canonical(np.absolute(a)))


def neg(op: Operation) -> Semantics:
    """§ 9.7.3.10"""
    return _sign(np.negative) if op.type == ".f64" else _single(op, lambda a: canonical(-a))


def _sign(ufunc: np.ufunc) -> Semantics:
    """For doubles; NaNs keep their sign and are made quiet."""
    return Semantics(lambda a: double.quiet_nans(select(np.isnan(a), a, ufunc(a))))


def min(op: Operation) -> Semantics:
    """§ 9.7.3.11"""
    return _extreme(op, "min")


def max(op: Operation) -> Semantics:
    """§ 9.7.3.12"""
    return _extreme(op, "max")


def _extreme(op: Operation, which: str) -> Semantics:
    nan, xorsign, magnitude = op.has(".NaN"), op.has(".xorsign"), op.has(".abs")
    function = extreme(which, nan=nan, xorsign=xorsign, magnitude=magnitude)
    if op.type == ".f64":
        return Semantics(lambda a, b: double.quiet_nans(function(a, b)))
    return _single(op, lambda *values: canonical(function(*values)))


def rcp(op: Operation) -> Semantics:
    """§ 9.7.3.13, 9.7.3.14"""
    if op.type == ".f64" and op.has(".approx"):
        return Semantics(_coarse(lambda a: 1 / a))
    if op.has(".approx"):
        return _single(op, _fast_reciprocal)
    one32, one64 = np.float32(1), np.float64(1)
    # .ftz with a rounding mode is not in the manual, and has no effect on doubles
    return _rounded(op, lambda a, mode: single.divide(one32, a, mode), lambda a, mode: double.divide(one64, a, mode))


def _fast_reciprocal(a: Any) -> Any:
    """The approximate reciprocal, for which ptxas scales numbers whose reciprocal, or which themselves, are subnormal."""
    magnitude = np.absolute(a)
    if not some(extreme := (magnitude < 2.0**-126) | (magnitude > 2.0**126)):
        return reciprocal(a)
    scale = select(extreme, select(magnitude < 1, np.float32(2.0**24), np.float32(2.0**-24)), np.float32(1))
    return single.multiply(reciprocal(a * scale), scale)


def sqrt(op: Operation) -> Semantics:
    """§ 9.7.3.15"""
    return _rounded(op, single.square_root, double.square_root)


def rsqrt(op: Operation) -> Semantics:
    """§ 9.7.3.16, 9.7.3.17"""
    if op.type == ".f64":
        return Semantics(_coarse(lambda a: 1 / np.sqrt(a)) if op.has(".ftz") else double.reciprocal_square_root)
    return _approximate(op, lambda a: 1 / np.sqrt(a))


def sin(op: Operation) -> Semantics:
    """§ 9.7.3.18"""
    return _approximate(op, np.sin)


def cos(op: Operation) -> Semantics:
    """§ 9.7.3.19"""
    return _approximate(op, np.cos)


def lg2(op: Operation) -> Semantics:
    """§ 9.7.3.20"""
    return _approximate(op, np.log2)


def ex2(op: Operation) -> Semantics:
    """§ 9.7.3.21"""
    return _approximate(op, np.exp2)


def tanh(op: Operation) -> Semantics:
    """§ 9.7.3.22"""
    return _approximate(op, np.tanh)


def _approximate(op: Operation, function: Function) -> Semantics:
    """A function computed in double precision for singles."""

    def of_block(a: Any) -> Any:
        return canonical(function(a.astype(np.float64)).astype(np.float32))

    return _single(op, partial(in_blocks, of_block, _BLOCK))


def _coarse(function: Function) -> Function:
    """A function of the upper words of doubles that returns upper words. Lower words count as zero, as do subnormals."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def run(a: Any) -> Any:
        known = flush_below((a.view(np.uint64) & upper).view(np.float64), _LEAST64)
        result = flush_below((function(known).view(np.uint64) & upper).view(np.float64), _LEAST64)
        return select(np.isnan(result), _NAN64, result)

    return run
