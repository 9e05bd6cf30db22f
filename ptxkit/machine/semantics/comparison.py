"""Comparison and selection (ISA 9.7.7), also of half precision (9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.types import dtype_of
from ptxkit.machine.values.floats import bfloat_to_single, flush, flush_below, half_to_single
from ptxkit.machine.values.integers import select, unsigned
from ptxkit.machine.values.packed import join, split

Test = Callable[[Any, Any], Any]

_ORDERED: dict[str, np.ufunc] = {
    ".eq": np.equal,
    ".lt": np.less,
    ".le": np.less_equal,
    ".gt": np.greater,
    ".ge": np.greater_equal,
    ".lo": np.less,
    ".ls": np.less_equal,
    ".hi": np.greater,
    ".hs": np.greater_equal,
}
_UNORDERED: dict[str, np.ufunc] = {".ltu": np.greater_equal, ".leu": np.greater, ".gtu": np.less_equal, ".geu": np.less}
"""Comparisons that are true exactly if these are false."""

_COMBINE: dict[str, np.ufunc] = {".and": np.logical_and, ".or": np.logical_or, ".xor": np.logical_xor}


def _differs(a: Any, b: Any) -> Any:
    return (a < b) | (a > b)


def _is_number(a: Any, b: Any) -> Any:
    return (a == a) & (b == b)


def _test(comparison: str, of_floats: bool) -> Test:
    if comparison in _ORDERED:
        return _ORDERED[comparison]
    if comparison in _UNORDERED:
        opposite = _UNORDERED[comparison]
        return lambda a, b: ~opposite(a, b)
    if comparison == ".ne":
        return _differs if of_floats else np.not_equal
    others: dict[str, Test] = {
        ".equ": lambda a, b: ~_differs(a, b),
        ".neu": np.not_equal,
        ".num": _is_number,
        ".nan": lambda a, b: ~_is_number(a, b),
    }
    return others[comparison]


_PACKED_INTEGERS = {".u8x4": "u1", ".s8x4": "i1", ".u16x2": "u2", ".s16x2": "i2"}


def _readable(type: str, ftz: bool) -> Callable[[Any], Any] | None:
    """Converts a register value to numbers that NumPy compares, packed elements along a last axis; None if no conversion is needed."""
    if type in _PACKED_INTEGERS:
        return lambda x: split(x, _PACKED_INTEGERS[type])
    base = type.removesuffix("x2")
    if base not in (".f16", ".bf16"):
        return flush if ftz else None
    convert = half_to_single if base == ".f16" else bfloat_to_single
    numbers = convert if base == type else lambda x: convert(split(x, np.uint16))
    return (lambda x: flush_below(numbers(x), 2.0**-14)) if ftz else numbers


def _tested(op: Operation, type: str) -> Test:
    test = _test(op.slot(".cmp"), "f" in type)
    numbers = _readable(type, op.has(".ftz"))
    return test if numbers is None else lambda a, b: test(numbers(a), numbers(b))


_ONES = {".f16": 0x3C00, ".bf16": 0x3F80, ".f16x2": 0x3C00, ".bf16x2": 0x3F80}


def set(op: Operation) -> Semantics:
    """§ 9.7.7.1, 9.7.8.1: all ones for integers, 1.0 for floats; for packed types, each element."""
    dtype, stype = op.slot(".dtype") or op.type, op.slot(".stype") or op.type
    tested = _tested(op, stype)
    combine = _COMBINE[op.slot(".bool")] if op.slot(".bool") else None
    packed = "x" in stype
    bits = {"x2": 16, "x4": 8}[stype[-2:]] if packed else 8 * dtype_of(dtype).itemsize
    element = np.dtype(f"u{bits // 8}")
    one = 0x3F800000 if dtype == ".f32" else _ONES.get(dtype, (1 << bits) - 1)
    true, false = element.type(one), element.type(0)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        result = tested(a, b)
        if combine is not None:
            result = combine(result, np.asarray(c)[..., None] if packed else c)
        result = select(result, true, false)
        return join(result, np.uint32) if packed else result

    return Semantics(run)


def setp(op: Operation) -> Semantics:
    """§ 9.7.7.2, 9.7.8.2: q is the negated comparison, or that of the upper elements."""
    tested = _tested(op, op.type)
    combine = _COMBINE[op.slot(".bool")] if op.slot(".bool") else None
    two = len(op.writes) == 2
    if op.type in (".f16x2", ".bf16x2"):

        def both(a: Any, b: Any, c: Any = None) -> Any:
            result = tested(a, b)
            p, q = (result[..., i][()] if combine is None else combine(result[..., i], c) for i in range(2))
            return (p, q) if two else p

        return Semantics(both)
    if not two:
        return Semantics(tested) if combine is None else Semantics(lambda a, b, c: combine(tested(a, b), c))

    def with_opposite(a: Any, b: Any, c: Any = None) -> Any:
        result = tested(a, b)
        return (result, ~result) if combine is None else (combine(result, c), combine(~result, c))

    return Semantics(with_opposite)


def selp(op: Operation) -> Semantics:
    """§ 9.7.7.3: bitwise, which takes the same time for all predicates."""
    bits = unsigned(op.dtype("d"))
    return Semantics(lambda a, b, c: ((a ^ b) * c) ^ b, {"a": bits, "b": bits})


def slct(op: Operation) -> Semantics:
    """§ 9.7.7.4: with .ftz, a subnormal c of either sign selects a."""
    if op.has(".ftz"):
        return Semantics(lambda a, b, c: select(flush(c) >= 0, a, b))
    return Semantics(lambda a, b, c: select(c >= 0, a, b))
