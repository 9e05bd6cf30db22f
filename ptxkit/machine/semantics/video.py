"""Video instructions (ISA 9.7.18) on bytes and halves selected from registers (`op.parts`). All computations use 64-bit integers.

From sm_50 on there are no scalar video instructions: ptxas writes others for them, and what these give is not everywhere what the
manual's program gives. The machine returns what a GPU returns. Where the two differ:

* Unsigned sums and differences are saturated from below only (`_saturated`).
* The second operation compares the 64 bits of a first result with c; of a sum, a difference and a saturated shift it has the word alone,
  extended with its sign even if it is unsigned. So `.min` with c takes c where an unsigned sum is 2^31 or more.
* Shifts are saturated as if 34 bits held every result, and to a word where a byte or half is written, too.
* A result in `.h1` is the upper half of the value, not its lower half (`_merged`).
* `vmad` multiplies and adds with signs; only the shift and the saturation of unsigned factors are unsigned.
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
    """Half of the sum. Halfway values are rounded up if not negative, and down otherwise."""
    total = a + b
    return (total + (total >= 0)) >> 1


def _absolute_difference(a: Any, b: Any) -> Any:
    return np.absolute(a - b)


def _part(x: Any, selector: str, signed: bool) -> Any:
    """The byte, half or word that a selector denotes, extended."""
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
    # vset has no type for d: c is signed if a is
    dtype = (op.slot(".dtype") or op.slot(".atype")) == ".s32"
    btype = op.slot(".btype") == ".s32"
    return dtype, op.slot(".atype") == ".s32", btype


def _saturated(x: Any, bits: int, signed: bool) -> Any:
    """A first result limited by .sat to a word, or to the unsigned or non-negative numbers of a byte or half.

    Of an unsigned word only the lower limit holds: a sum of 2^32 or more wraps around.
    """
    if bits < 32:
        most = (1 << (bits - signed)) - 1
        return np.where(x >> 32 != 0, most, np.minimum(x, most))
    return _limited(x, 32, True) if signed else np.maximum(x, 0)


def _saturated_shift(x: Any, bits: int, signed: bool) -> Any:
    """A shifted value limited by .sat to a word, of the 34 bits that ptxas looks at."""
    return _part(_word(_limited(_extended(x & ((1 << 34) - 1), 34), 32, signed)), "", True)


def _word_with_sign(x: Any) -> Any:
    return _part(_word(x), "", True)


def _merged(x: Any, selector: str, c: Any) -> Any:
    """c with the byte or half that a selector names from a value: its lowest bits, but the upper half for `.h1`."""
    bits, place = {"b": 8, "h": 16}[selector[1]], int(selector[2])
    mask = ((1 << bits) - 1) << (bits * place)
    shifted = x if selector == ".h1" else x << (bits * place)
    return _word(shifted & mask | _part(c, "", False) & ~mask)


def _scalar(op: Operation, function: Function, saturated: Function = _saturated, word: bool = False) -> Semantics:
    """One operation, then a second one with c, or the result in a part of c. `word`: the second operation has 32 bits of the first."""
    d_signed, a_signed, b_signed = _operand_types(op)
    a_part, b_part, d_part = (op.parts.get(name, "") for name in "abd")
    bits = {"b": 8, "h": 16}.get(d_part[1:2], 32)
    second = _SECOND.get(op.slot(".op2"))
    compared = np.int64 if d_signed else np.uint64
    sat = op.has(".sat")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        result = function(_part(a, a_part, a_signed), _part(b, b_part, b_signed))
        if sat:
            result = saturated(result, bits, d_signed)
        if word:
            result = _word_with_sign(result)
        if second is not None:
            result = second(result.view(compared), _part(c, "", d_signed).view(compared))
        return _word(result) if bits == 32 or c is None else _merged(result, d_part, c)

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
    return _scalar(op, lambda a, b: a << count(b), _saturated_shift)


def vshr(op: Operation) -> Semantics:
    """§ 9.7.18.1.2"""
    count = _count(op)
    return _scalar(op, lambda a, b: a >> count(b), _saturated_shift)


def vmad(op: Operation) -> Semantics:
    """§ 9.7.18.1.3: the product, or c, may be negated."""
    _, a_signed, b_signed = _operand_types(op)
    a_part, b_part = op.parts.get("a", ""), op.parts.get("b", "")
    of_product, of_c = ("a" in op.negated) != ("b" in op.negated), "c" in op.negated
    signed = a_signed or b_signed or of_product or of_c
    shift = {".shr7": 7, ".shr15": 15}.get(op.slot(".scale"), 0)
    one, sat = op.has(".po"), op.has(".sat")

    def factor(x: Any, selector: str, extended: bool) -> Any:
        return _part(x, selector, extended or not selector)

    def run(a: Any, b: Any, c: Any) -> Any:
        product = factor(a, a_part, a_signed) * factor(b, b_part, b_signed)
        addend = _part(c, "", True)
        total = (-product if of_product else product) + (-addend if of_c else addend) + int(one)
        result = (total if signed else total.view(np.uint64)) >> shift
        return _word(_limited(result.view(np.int64), 32, signed) if sat else result)

    return Semantics(run)


def vset(op: Operation) -> Semantics:
    """§ 9.7.18.1.4"""
    compare = _COMPARE[op.slot(".cmp")]
    return _scalar(op, lambda a, b: compare(a, b).astype(np.int64))


def _packed(op: Operation, count: int, function: Function) -> Semantics:
    """An operation on each pair of elements selected from a and b, with results inserted into elements of c, or added to c."""
    d_signed, a_signed, b_signed = _operand_types(op)
    bits = 32 // count
    letter = "h" if count == 2 else "b"
    highest_first = range(count - 1, -1, -1)
    # by default a's own elements, and b's, which are numbered after those of a
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
