"""Simplification: for each operator, the simpler term that an application of it equals.

`Terms.apply` asks for it once it has computed what is constant. None leaves the operator as it is. The result of a simplification has the
same value for all values of the leaves; `tests/analyses/symbolic` evaluates both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ptxkit.analyses.numbers.arithmetic import compute
from ptxkit.analyses.numbers.known_bits import Known, signed_bounds, unsigned_bounds
from ptxkit.analyses.symbolic.terms import SUM, Simplification, Term, Terms


def _add(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    return terms.add(*args)


def _mul(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a.constant is not None:
        return terms.scale(b, a.constant)
    if b.constant is not None:
        return terms.scale(a, b.constant)
    return terms.atom("mul", width, (a, b) if a.serial < b.serial else (b, a))


def _mulhi_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a.constant is not None:
        a, b = b, a
    if b.constant is None or width > 32:
        return None
    product = terms.scale(terms.extend(a, 2 * width, False), b.constant)
    return terms.extend(terms.apply("shr.u", 2 * width, (product, terms.constant(width, 32))), width, False)


def _as_unsigned(operator: str) -> Simplification:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        if any(arg.bounds[1] >> (arg.width - 1) for arg in args):
            return None
        return terms.apply(operator, width, args)

    return simplify


def _div_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, divisor = args[0], args[1].constant
    if not divisor:
        return None
    if divisor & (divisor - 1) == 0:
        return terms.apply("shr.u", width, (a, terms.constant(divisor.bit_length() - 1, 32)))
    return terms.divide(a, divisor, False)


def _rem_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, divisor = args[0], args[1].constant
    if not divisor:
        return None
    if divisor & (divisor - 1) == 0:
        return terms.apply("and", width, (a, terms.constant(divisor - 1, width)))
    return terms.modulo(a, divisor)


def _and(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return a
    if a.constant is not None:
        a, b = b, a
    mask = b.constant
    if mask is None:
        return terms.atom("and", width, (a, b) if a.serial < b.serial else (b, a))
    full = (1 << width) - 1
    if full & ~mask & ~a.known.zeros == 0:
        return a
    if a.operator == "and" and (inner := a.args[1].constant) is not None:
        return terms.apply("and", width, (a.args[0], terms.constant(mask & inner, width)))
    if a.operator == "shr.u" and (amount := a.args[1].constant) is not None:
        # drop the bits that come from below a sufficiently aligned multiple
        high, rest = _split(terms, a.args[0], mask.bit_length() + amount)
        if high is not None:
            return terms.apply("and", width, (terms.apply("shr.u", width, (rest, a.args[1])), b))
    if mask & (mask + 1):
        return terms.atom("and", width, (a, b))
    found = terms.modulo(a, mask + 1)
    if found is not None:
        return found
    if a.operator == SUM:
        reduced = terms.of_whole(width, a.offset & mask, [(atom, factor & mask) for atom, factor in a.parts])
        if reduced is not a:
            return terms.apply("and", width, (reduced, b))
    return terms.atom("and", width, (a, b))


def _or(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return a
    if a.known.zeros | b.known.zeros == (1 << width) - 1:
        return terms.add(a, b)
    return terms.atom("or", width, (a, b) if a.serial < b.serial else (b, a))


def _split(terms: Terms, a: Term, low: int) -> tuple[Term | None, Term]:
    """A sum split in two: the multiple of two to the power of `low` (None if there is none, or all is), and the rest."""
    if a.operator != SUM or low >= a.width:
        return None, a
    mask = (1 << low) - 1
    high = [(atom, factor) for atom, factor in a.parts if not atom.alignment * factor & mask]
    offset = a.offset & ~mask
    if not (high or offset) or (len(high) == len(a.parts) and not a.offset & mask):
        return None, a
    found = terms.sum(a.width, offset, tuple(high))
    return found, terms.sub(a, found)


def _xor(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return terms.constant(0, width)
    full = (1 << width) - 1
    if width == 1 or a.known.zeros | b.known.zeros == full:
        return terms.add(a, b)
    if a.constant == full or b.constant == full:
        return terms.invert(b if a.constant == full else a)
    for one, other in ((a, b), (b, a)):
        # a sufficiently aligned multiple has none of the bits that are inverted
        high, rest = _split(terms, one, other.bounds[1].bit_length())
        if high is not None:
            return terms.add(high, terms.apply("xor", width, (rest, other)))
    return terms.atom("xor", width, (a, b) if a.serial < b.serial else (b, a))


def _lop3(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b, c, table = args
    if table.constant is None or table.constant < 256:
        return None
    return terms.apply("lop3", width, (a, b, c, terms.constant(table.constant & 255, table.width)))


def _shl(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    amount = args[1].constant
    if amount is None:
        return None
    return terms.scale(args[0], 1 << amount) if amount < width else terms.constant(0, width)


def _shr_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, amount = args[0], args[1].constant
    if not amount:
        return a if amount == 0 else None
    if amount >= width:
        return terms.constant(0, width)
    found = terms.divide(a, 1 << amount, False)
    if found is not None:
        return found
    if a.operator == "shr.u" and (inner := a.args[1].constant) is not None:
        return terms.apply("shr.u", width, (a.args[0], terms.constant(min(inner + amount, 255), 32)))
    if a.operator == "trunc" and a.args[0].bounds[1] >> a.width == 0:
        wide = a.args[0]
        return terms.extend(terms.apply("shr.u", wide.width, (wide, args[1])), width, False)
    return _magic(terms, a, amount)


def _magic(terms: Terms, a: Term, amount: int) -> Term | None:
    """The division behind a multiplication and a shift: `x * 0xAAAAAAAB >> 33` is `x / 3`."""
    whole = terms.exact(a, False)
    if whole is None or a.operator != SUM:
        return None
    offset, parts, _, high = whole
    factor = math.gcd(offset, *[factor for _, factor in parts])
    if factor < 3 or offset < 0:
        return None
    divisor = ((1 << amount) + factor - 1) // factor
    excess = factor * divisor - (1 << amount)
    most = (offset + high) // factor
    if divisor < 3 or divisor & (divisor - 1) == 0 or most * excess >= 1 << amount:
        return None
    dividend = terms.of_whole(a.width, offset // factor, [(atom, count // factor) for atom, count in parts])
    return terms.apply("div.u", a.width, (dividend, terms.constant(divisor, a.width)))


def _shr_s(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, amount = args[0], args[1].constant
    if not amount:
        return a if amount == 0 else None
    if not a.bounds[1] >> (width - 1):
        return terms.apply("shr.u", width, args)
    return terms.divide(a, 1 << min(amount, width), True)


def _funnel(left: bool) -> Simplification:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        upper, lower, amount = args[0], args[1], args[2].constant
        if amount is None:
            return None
        amount = min(amount, width)
        right = width - amount if left else amount
        low = terms.apply("shr.u", width, (lower, terms.constant(right, 32)))
        return terms.apply("or", width, (terms.scale(upper, 1 << (width - right)), low)) if right else lower

    return simplify


def _bfe(operator: str) -> Simplification:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        a, position, length = args[0], args[1].constant, args[2].constant
        if position is None or length is None:
            return None
        position, length = position & 255, length & 255
        if operator == "bfe.u":
            shifted = terms.apply("shr.u", width, (a, terms.constant(position, 32)))
            return terms.apply("and", width, (shifted, terms.constant((1 << min(length, width)) - 1, width)))
        if not length or position + length > width:
            return None
        lifted = terms.scale(a, 1 << (width - position - length))
        return terms.apply("shr.s", width, (lifted, terms.constant(width - length, 32)))

    return simplify


def _bfi(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b, position, length = args[0], args[1], args[2].constant, args[3].constant
    if position is None or length is None:
        return None
    position, length = position & 255, length & 255
    mask = ((1 << length) - 1) << position & ((1 << width) - 1)
    kept = terms.apply("and", width, (b, terms.constant(~mask, width)))
    field = terms.apply("and", width, (terms.scale(a, 1 << position), terms.constant(mask, width)))
    return terms.apply("or", width, (kept, field))


def _prmt(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    digits = args[2].constant
    if digits is None or digits & 0x8888:
        return None
    picked = [digits >> (4 * index) & 7 for index in range(4)]
    found = terms.constant(0, 32)
    start = 0
    for index in range(1, 5):
        # adjacent bytes are moved together
        if index < 4 and picked[index] == picked[index - 1] + 1 and picked[index] != 4:
            continue
        first, count = picked[start], index - start
        moved = terms.apply("shr.u", 32, (args[first >> 2], terms.constant(8 * (first & 3), 32)))
        field = terms.apply("and", 32, (moved, terms.constant((1 << (8 * count)) - 1, 32)))
        found = terms.add(found, terms.scale(field, 1 << (8 * start)))
        start = index
    return found


def _zext(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a = args[0]
    positive = a.negated if a.width == 1 else None
    if positive is not None:
        return terms.sub(terms.constant(1, width), terms.apply("zext", width, (positive,)))
    if a.operator == SUM:
        whole = terms.exact(a, False)
        if whole is None:
            return None
        return terms.of_whole(width, whole[0], [(terms.apply("zext", width, (atom,)), factor) for atom, factor in whole[1]])
    if a.operator == "zext":
        return terms.apply("zext", width, a.args)
    if a.operator == "trunc" and a.args[0].bounds[1] >> a.width == 0:
        return terms.extend(a.args[0], width, False)
    return None


def _sext(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a = args[0]
    whole = terms.exact(a, True)
    if whole is not None:
        return terms.of_whole(width, whole[0], [(terms.apply("zext", width, (atom,)), factor) for atom, factor in whole[1]])
    return terms.apply("sext", width, a.args) if a.operator == "sext" else None


def _trunc(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a = args[0]
    mask = (1 << width) - 1
    if a.operator == SUM:
        found = terms.constant(a.offset, width)
        for atom, factor in a.parts:
            if factor & mask:
                found = terms.add(found, terms.scale(terms.apply("trunc", width, (atom,)), factor))
        return found
    if a.operator in ("zext", "sext"):
        return terms.extend(a.args[0], width, a.operator == "sext")
    if a.operator == "trunc":
        return terms.apply("trunc", width, a.args)
    if a.operator in ("div.u", "rem.u") and a.args[0].operator != a.operator and not (a.args[0].bounds[1] | a.args[1].bounds[1]) >> width:
        return terms.apply(a.operator, width, tuple([terms.apply("trunc", width, (arg,)) for arg in a.args]))
    return None


def _select(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    condition, a, b = args
    if condition.constant is not None:
        return a if condition.constant else b
    positive = condition.negated
    if positive is not None:
        condition, a, b = positive, b, a
    if a.operator == "select" and a.args[0] is condition:
        a = a.args[1]
    if b.operator == "select" and b.args[0] is condition:
        b = b.args[2]
    if a is b:
        return a
    if a.constant == 1 and b.constant == 0:
        return terms.extend(condition, width, False)
    return terms.atom("select", width, (condition, a, b))


def _truth_of_flag(terms: Terms, operator: str, a: Term, b: Term) -> Term | None:
    """A comparison of a term over one predicate with a constant, as that predicate, its negation, or a constant."""
    offset, parts = a.linear
    if b.constant is None or len(parts) != 1 or parts[0][0].operator not in ("zext", "sext") or parts[0][0].args[0].width != 1:
        return None
    (atom, factor), mask = parts[0], (1 << a.width) - 1
    flag = atom.args[0]
    outcomes = []
    for bit in (0, 1):
        extended = compute(atom.operator, a.width, (bit,), (1,)) or 0
        outcomes.append(compute(operator, 1, [offset + factor * extended & mask, b.constant], [a.width, b.width]))
    if outcomes[0] == outcomes[1]:
        return terms.constant(outcomes[0] or 0, 1)
    return flag if outcomes[1] else terms.invert(flag)


def _eq(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return terms.constant(1, 1)
    if a.width == 1:
        return terms.invert(terms.apply("xor", 1, args))
    if a.constant is not None:
        a, b = b, a
    one, other = a.known, b.known
    if one.zeros & other.ones or one.ones & other.zeros:
        return terms.constant(0, 1)
    difference = terms.sub(a, b)
    if difference.constant is not None:
        return terms.constant(int(not difference.constant), 1)
    known = difference.known
    if known.low and known.low + known.span < 1 << a.width:
        return terms.constant(0, 1)
    return _truth_of_flag(terms, "eq", a, b) or terms.atom("eq", 1, (a, b) if b.constant is not None or a.serial < b.serial else (b, a))


def _less(operator: str, bounds_of: Callable[[Known, int], tuple[int, int]]) -> Simplification:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        a, b = args
        if a is b:
            return terms.constant(0, 1)
        (a_least, a_most), (b_least, b_most) = bounds_of(a.known, a.width), bounds_of(b.known, b.width)
        if a_most < b_least:
            return terms.constant(1, 1)
        if a_least >= b_most:
            return terms.constant(0, 1)
        return _truth_of_flag(terms, operator, a, b)

    return simplify


def _extreme(bounds_of: Callable[[Known, int], tuple[int, int]], greatest: bool) -> Simplification:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        a, b = args
        if a is b:
            return a
        (a_least, a_most), (b_least, b_most) = bounds_of(a.known, width), bounds_of(b.known, width)
        if a_most <= b_least:
            return b if greatest else a
        if b_most <= a_least:
            return a if greatest else b
        return None

    return simplify


def _abs(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    return args[0] if args[0].signed_bounds[0] >= 0 else None


SIMPLIFICATIONS: dict[str, Simplification] = {
    "add": _add,
    "mul": _mul,
    "mulhi.u": _mulhi_u,
    "mulhi.s": _as_unsigned("mulhi.u"),
    "div.u": _div_u,
    "div.s": _as_unsigned("div.u"),
    "rem.u": _rem_u,
    "rem.s": _as_unsigned("rem.u"),
    "and": _and,
    "or": _or,
    "xor": _xor,
    "lop3": _lop3,
    "shl": _shl,
    "shr.u": _shr_u,
    "shr.s": _shr_s,
    "funnel_left": _funnel(True),
    "funnel_right": _funnel(False),
    "bfe.u": _bfe("bfe.u"),
    "bfe.s": _bfe("bfe.s"),
    "bfi": _bfi,
    "prmt": _prmt,
    "zext": _zext,
    "sext": _sext,
    "trunc": _trunc,
    "select": _select,
    "eq": _eq,
    "lt.u": _less("lt.u", unsigned_bounds),
    "lt.s": _less("lt.s", signed_bounds),
    "min.u": _extreme(unsigned_bounds, False),
    "max.u": _extreme(unsigned_bounds, True),
    "min.s": _extreme(signed_bounds, False),
    "max.s": _extreme(signed_bounds, True),
    "abs": _abs,
}
"""By operator. An operator that is not here has none."""


def new_terms() -> Terms:
    """Terms whose operators are simplified."""
    return Terms(SIMPLIFICATIONS)
