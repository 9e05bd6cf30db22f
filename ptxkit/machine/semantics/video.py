"""Video instructions (ISA 9.7.18): on bytes and halves picked from registers (`op.parts`). Everything is computed in 64-bit integers.

From sm_30 on ptxas makes them of other instructions. Where that differs from the manual consistently (`.sat`), so does this.
It is not followed where it contradicts itself: a second `.min` or `.max` after an unsigned sum or difference if both words have the
highest bit set, results in `.h1` that are lost, unsigned `vmad` with a scale, some saturated shifts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics

Function = Callable[..., Any]

_COMPARE: dict[str, Function] = {
    ".eq": np.equal,
    ".ne": np.not_equal,
    ".lt": np.less,
    ".le": np.less_equal,
    ".gt": np.greater,
    ".ge": np.greater_equal,
}
_SECOND: dict[str, Function] = {".add": np.add, ".min": np.minimum, ".max": np.maximum}


def _average(a: Any, b: Any) -> Any:
    """Half the sum; what is halfway between integers is rounded away from minus infinity if it is not negative, towards it if it is."""
    total = a + b
    return (total + (total >= 0)) >> 1


def _absolute_difference(a: Any, b: Any) -> Any:
    return np.absolute(a - b)


_FROM_BELOW: tuple[Function, ...] = (np.add, np.subtract, _absolute_difference)


def _part(x: Any, selector: str, signed: bool) -> Any:
    """The byte, half or word that a selector names, extended."""
    bits, place = {"b": 8, "h": 16}.get(selector[1:2], 32), int(selector[2:] or 0)
    part = (x.view(np.uint32).astype(np.int64) >> (bits * place)) & ((1 << bits) - 1)
    return _extended(part, bits) if signed else part


def _extended(x: Any, bits: int) -> Any:
    return (x ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _limited(x: Any, bits: int, signed: bool) -> Any:
    return np.clip(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else np.clip(x, 0, (1 << bits) - 1)


def _word(x: Any) -> Any:
    return (x & 0xFFFFFFFF).astype(np.uint32)


def _operand_types(op: Operation) -> tuple[bool, bool, bool]:
    """Which of d, a and b are signed."""
    # vset has no type of its own for d: c counts as signed if a is.
    dtype = (op.slot(".dtype") or op.slot(".atype")) == ".s32"
    btype = op.slot(".btype") == ".s32"
    return dtype, op.slot(".atype") == ".s32", btype


def _saturated(x: Any, bits: int, signed: bool, function: Function) -> Any:
    """A first result limited by .sat, as the code does that ptxas makes: unsigned sums and differences from below, parts from above."""
    if bits < 32:
        return np.minimum(x & 0xFFFFFFFF, (1 << (bits - signed)) - 1)
    return np.maximum(x, 0) if not signed and function in _FROM_BELOW else _limited(x, 32, signed)


def _intermediate(x: Any, signed: bool, word: bool) -> Any:
    """The first operand of a second operation: not cut to a word, or (on sm_90, of sums and differences) of 32, with the sign of d."""
    return _part(_word(x), "", signed) if word else x if signed else x & ((1 << 63) - 1)


def _scalar(op: Operation, function: Function, word: bool = False) -> Semantics:
    """One operation, then a second one with c, or the result in a part of c."""
    d_signed, a_signed, b_signed = _operand_types(op)
    a_part, b_part, d_part = (op.parts.get(name, "") for name in "abd")
    bits = {"b": 8, "h": 16}.get(d_part[1:2], 32)
    second = _SECOND.get(op.slot(".op2"))
    sat = op.has(".sat")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        result = function(_part(a, a_part, a_signed), _part(b, b_part, b_signed))
        if sat:
            result = _saturated(result, bits, d_signed, function)
        if second is not None:
            result = second(_intermediate(result, d_signed, word), _part(c, "", d_signed))
        if bits == 32 or c is None:
            return _word(result)
        place = bits * int(d_part[2:])
        mask = ((1 << bits) - 1) << place
        return _word((result << place) & mask | _part(c, "", False) & ~mask)

    return Semantics(run)


def vadd(op: Operation) -> Semantics:
    """§ 9.7.18.1.1"""
    return _scalar(op, np.add, word=True)


def vsub(op: Operation) -> Semantics:
    """§ 9.7.18.1.1"""
    return _scalar(op, np.subtract, word=True)


def vabsdiff(op: Operation) -> Semantics:
    """§ 9.7.18.1.1"""
    return _scalar(op, _absolute_difference)


def vmin(op: Operation) -> Semantics:
    """§ 9.7.18.1.1"""
    return _scalar(op, np.minimum)


def vmax(op: Operation) -> Semantics:
    """§ 9.7.18.1.1"""
    return _scalar(op, np.maximum)


def _count(op: Operation) -> Function:
    return (lambda b: b & 31) if op.has(".wrap") else (lambda b: np.minimum(b, 32))


def vshl(op: Operation) -> Semantics:
    """§ 9.7.18.1.2"""
    count = _count(op)
    return _scalar(op, lambda a, b: a << count(b))


def vshr(op: Operation) -> Semantics:
    """§ 9.7.18.1.2"""
    count = _count(op)
    return _scalar(op, lambda a, b: a >> count(b))


def vmad(op: Operation) -> Semantics:
    """§ 9.7.18.1.3: the product, or c, may be negated."""
    _, a_signed, b_signed = _operand_types(op)
    a_part, b_part = op.parts.get("a", ""), op.parts.get("b", "")
    of_product, of_c = ("a" in op.negated) != ("b" in op.negated), "c" in op.negated
    signed = a_signed or b_signed or of_product or of_c
    c_signed = a_signed or b_signed or of_product
    shift = {".shr7": 7, ".shr15": 15}.get(op.slot(".scale"), 0)
    one, sat = op.has(".po"), op.has(".sat")
    least, most = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)

    def run(a: Any, b: Any, c: Any) -> Any:
        # Python's integers: the product of two unsigned words and what is added do not fit into 64 bits with a sign.
        product = _python(_part(a, a_part, a_signed)) * _python(_part(b, b_part, b_signed))
        addend = _python(_part(c, "", c_signed))
        total = (-product if of_product else product) + (-addend if of_c else addend) + int(one)
        result = total >> shift
        if sat:
            result = np.minimum(np.maximum(result, least), most)
        return (result & 0xFFFFFFFF).astype(np.uint32).reshape(np.broadcast(a, b, c).shape)[()]

    return Semantics(run)


def _python(x: Any) -> Any:
    return np.array(x.tolist(), object, ndmin=1)


def vset(op: Operation) -> Semantics:
    """§ 9.7.18.1.4"""
    compare = _COMPARE[op.slot(".cmp")]
    return _scalar(op, lambda a, b: compare(a, b).astype(np.int64))


def _packed(op: Operation, count: int, function: Function) -> Semantics:
    """An operation for each pair of elements picked from a and b, then its results in the elements of c, or added to c."""
    d_signed, a_signed, b_signed = _operand_types(op)
    bits = 32 // count
    letter = "h" if count == 2 else "b"
    highest_first = range(count - 1, -1, -1)
    # a's own elements, and b's, which are numbered after those of a.
    a_picked = _picked(op.parts.get("a", "." + letter + "".join(str(i) for i in highest_first)))
    b_picked = _picked(op.parts.get("b", "." + letter + "".join(str(i + count) for i in highest_first)))
    written = _picked(op.parts.get("d", "." + letter + "".join(str(i) for i in highest_first)))
    sat, accumulate = op.has(".sat"), op.has(".add")
    ones = (1 << bits) - 1

    def element(a: Any, b: Any, place: int, signed: bool) -> Any:
        return _part(a if place < count else b, f".{letter}{place % count}", signed)

    def run(a: Any, b: Any, c: Any) -> Any:
        result = _part(c, "", False)
        for place in range(count):
            if place not in written:
                continue
            value = function(element(a, b, a_picked[place], a_signed), element(a, b, b_picked[place], b_signed))
            if sat:
                value = _limited(value, bits, d_signed)
            if accumulate:
                result = result + value
            else:
                result = result & ~(ones << (bits * place)) | (value & ones) << (bits * place)
        return _word(result)

    return Semantics(run)


def _picked(selector: str) -> list[int]:
    """The indices in a selector, that of the lowest element first: `.h10` as 0, 1."""
    return [int(digit) for digit in reversed(selector[2:])]


def vadd2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, np.add)


def vsub2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, np.subtract)


def vavrg2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, _average)


def vabsdiff2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, _absolute_difference)


def vmin2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, np.minimum)


def vmax2(op: Operation) -> Semantics:
    """§ 9.7.18.2.1"""
    return _packed(op, 2, np.maximum)


def vset2(op: Operation) -> Semantics:
    """§ 9.7.18.2.2"""
    return _packed_set(op, 2)


def vadd4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, np.add)


def vsub4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, np.subtract)


def vavrg4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, _average)


def vabsdiff4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, _absolute_difference)


def vmin4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, np.minimum)


def vmax4(op: Operation) -> Semantics:
    """§ 9.7.18.2.3"""
    return _packed(op, 4, np.maximum)


def vset4(op: Operation) -> Semantics:
    """§ 9.7.18.2.4"""
    return _packed_set(op, 4)


def _packed_set(op: Operation, count: int) -> Semantics:
    compare = _COMPARE[op.slot(".cmp")]
    return _packed(op, count, lambda a, b: compare(a, b).astype(np.int64))
