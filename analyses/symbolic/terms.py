"""Symbolic values: the contents of a register, as an expression over what a thread knows at entry.

A term is a number of fixed width. It is either a *sum*, a constant plus multiples of other terms modulo two to the power of the width, or
an *atom*: a leaf (`%tid.x`, a parameter, the address of a variable, an unknown value) or an operator applied to terms. Equal terms of one
`Terms` are one object, and each knows its bits and range. So `a + 4*i` and `(i << 2) + a` are the same address, and whether two addresses
differ by 16 is a subtraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

import attrs

from ptxkit.analyses.numbers.arithmetic import compute, signed
from ptxkit.analyses.numbers.known_bits import Known, constant, result, signed_bounds, top, total, unsigned_bounds

SUM = "sum"
MOST_PARTS = 16
"""A sum with more parts than this becomes an atom: long chains of additions would cost quadratic time."""

Parts = tuple[tuple["Term", int], ...]


@attrs.define(eq=False, repr=False, slots=True, weakref_slot=False)
class Term:
    """A symbolic value. Immutable; equal terms of one `Terms` are one object."""

    operator: str
    """`sum`, an operator of `ptxkit.analyses.arithmetic`, or the kind of a leaf."""
    width: int
    args: tuple[Term, ...]
    """The operands of an operator."""
    data: tuple[object, ...]
    """What distinguishes a leaf from others of its kind."""
    offset: int
    """The constant of a sum."""
    parts: Parts
    """The atoms of a sum and their factors, from 1 upwards; empty for a constant."""
    inner: tuple[Term, ...]
    """The direct subterms: the atoms of a sum, or the operands of an operator."""
    serial: int
    in_loop: bool
    """Whether it depends on a leaf for a loop-carried value that is not yet resolved."""
    _known: Known | None
    _leaves: tuple[Term, ...] | None = None

    @property
    def known(self) -> Known:
        """The bits and the range that hold on every run."""
        found = self._known
        if found is None:
            found = self._known = total(self.offset, [(atom._known, factor) for atom, factor in self.parts], self.width)  # type: ignore[misc]
        return found

    @property
    def constant(self) -> int | None:
        """Its number, unsigned, if constant; otherwise None."""
        return self.offset if self.operator == SUM and not self.parts else None

    @property
    def linear(self) -> tuple[int, Parts]:
        """Any term as a constant plus multiples of atoms."""
        return (self.offset, self.parts) if self.operator == SUM else (0, ((self, 1),))

    @property
    def is_leaf(self) -> bool:
        return not self.args and self.operator != SUM

    @property
    def bounds(self) -> tuple[int, int]:
        """Its unsigned minimum and maximum."""
        return unsigned_bounds(self.known, self.width)

    @property
    def signed_bounds(self) -> tuple[int, int]:
        """Its signed minimum and maximum."""
        return signed_bounds(self.known, self.width)

    @property
    def alignment(self) -> int:
        """The largest power of two that it is known to be a multiple of; 0 if it is zero."""
        other = ~self.known.zeros & ((1 << self.width) - 1)
        return other & -other

    def leaves(self) -> tuple[Term, ...]:
        """The distinct leaves in it."""
        if self.is_leaf:
            # not cached: it would refer to itself
            return (self,)
        found = self._leaves
        if found is None:
            found = self._leaves = tuple([term for term in walk(self) if term.is_leaf])
        return found

    def __str__(self) -> str:
        return spoken(self)

    def __repr__(self) -> str:
        return f"<Term {self.width} {spoken(self)}>"


def spoken(term: Term, depth: int = 6) -> str:
    """A readable form of a term; what is nested deeper than `depth` becomes `…`."""
    if term.operator == SUM:
        words = [f"{_factor(factor, term.width)}{spoken(atom, depth - 1)}" for atom, factor in term.parts]
        offset = signed(term.offset, term.width) if term.width > 1 else term.offset
        if offset or not words:
            words.append(str(offset))
        return " + ".join(words).replace("+ -", "- ")
    if term.operator == "parameter" and len(term.data) > 2 and term.data[2]:
        # part of a parameter, at this offset
        return f"{term.data[0]}+{term.data[2]}"
    if term.is_leaf:
        return f"{term.operator}{term.data[0]}" if isinstance(term.data[0], int) else str(term.data[0])
    if depth <= 0:
        return "…"
    return f"{term.operator}({', '.join([spoken(arg, depth - 1) for arg in term.args])})"


def _factor(factor: int, width: int) -> str:
    value = signed(factor, width) if width > 1 else factor
    return "" if value == 1 else "-" if value == -1 else f"{value}*"


def inside(term: Term) -> Sequence[Term]:
    """The direct subterms of a term."""
    return term.inner


def walk(term: Term, known: Container[Term] = ()) -> list[Term]:
    """A term and its subterms, each once, operands first; without those in `known` and those that occur only within them."""
    if not term.inner:
        return [] if term in known else [term]
    done: set[Term] = set()
    order: list[Term] = []
    stack = [term]
    while stack:
        top_ = stack[-1]
        if top_ in done or top_ in known:
            stack.pop()
            continue
        missing = [inner for inner in top_.inner if inner not in done and inner not in known]
        if missing:
            stack += missing
            continue
        done.add(top_)
        order.append(top_)
        stack.pop()
    return order


class Terms:
    """Makes terms: equal ones are shared and simplified."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int, Parts], Term] = {}
        self._atoms: dict[tuple[object, ...], Term] = {}
        self._applied: dict[tuple[object, ...], Term] = {}
        self._serial = 0

    # --- leaves, constants and sums

    def constant(self, value: int, width: int) -> Term:
        """A constant, truncated to the width."""
        value &= (1 << width) - 1
        return self._sum(width, value, ())

    def leaf(self, kind: str, width: int, data: tuple[object, ...], known: Known | None = None, in_loop: bool = False) -> Term:
        """The leaf of a kind with this data; `known` counts only when the leaf is first made."""
        key = (kind, width, data)
        found = self._atoms.get(key)
        if found is None:
            self._serial += 1
            found = self._atoms[key] = Term(kind, width, (), data, 0, (), (), self._serial, in_loop, known or top(width))
        return found

    def join(self, data: tuple[object, ...], args: tuple[Term, ...]) -> Term:
        """One of several terms, unknown which; `data` identifies the join. If there is only one term, that term."""
        first = args[0]
        if all(arg is first for arg in args):
            return first
        key = ("join", first.width, data)
        found = self._atoms.get(key)
        if found is None:
            known = result("select", first.width, [top(1), *[arg.known for arg in args]], ())
            self._serial += 1
            found = Term("join", first.width, args, data, 0, (), args, self._serial, any(arg.in_loop for arg in args), known)
            self._atoms[key] = found
        return found

    def _sum(self, width: int, offset: int, parts: Parts) -> Term:
        if not offset and len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        key = (width, offset, parts)
        found = self._sums.get(key)
        if found is None:
            self._serial += 1
            in_loop = False
            inner = tuple([atom for atom, _ in parts])
            for atom in inner:
                if atom.in_loop:
                    in_loop = True
            known = None if parts else constant(offset, width)
            found = self._sums[key] = Term(SUM, width, (), (), offset, parts, inner, self._serial, in_loop, known)
        return found

    def _atom(self, operator: str, width: int, args: tuple[Term, ...]) -> Term:
        key = (operator, width, args)
        found = self._atoms.get(key)
        if found is None:
            known = result(operator, width, [arg.known for arg in args], [arg.width for arg in args])
            if not known.span:
                return self.constant(known.low, width)
            self._serial += 1
            in_loop = any(arg.in_loop for arg in args)
            found = self._atoms[key] = Term(operator, width, args, (), 0, (), args, self._serial, in_loop, known)
        return found

    def add(self, a: Term, b: Term) -> Term:
        width = a.width
        mask = (1 << width) - 1
        if b.operator == SUM and not b.parts:
            a, b = b, a
        if a.operator == SUM and not a.parts:
            if not a.offset:
                return b
            if b.operator == SUM:
                return self._sum(width, (a.offset + b.offset) & mask, b.parts)
            return self._sum(width, a.offset, ((b, 1),))
        (a_offset, a_parts), (b_offset, b_parts) = a.linear, b.linear
        factors = dict(a_parts)
        quotient = False
        for atom, factor in b_parts:
            old = factors.get(atom)
            if old is None:
                factors[atom] = factor
            else:
                new = (old + factor) & mask
                if new:
                    factors[atom] = new
                else:
                    del factors[atom]
        if len(factors) > MOST_PARTS:
            return self._atom("add", width, (a, b) if a.serial < b.serial else (b, a))
        for atom in factors:
            if atom.operator == "div.u":
                quotient = True
        parts = tuple(sorted(factors.items(), key=_by_serial)) if len(factors) > 1 else tuple(factors.items())
        offset = (a_offset + b_offset) & mask
        return self._remainder(width, offset, parts) if quotient else self._sum(width, offset, parts)

    def _remainder(self, width: int, offset: int, parts: Parts) -> Term:
        """The sum, with `x - d * (x / d)` simplified to `x % d`."""
        mask = (1 << width) - 1
        for atom, factor in parts:
            divisor = atom.args[1].constant if atom.operator == "div.u" else None
            if not divisor or (-factor & mask) % divisor:
                continue
            times = (-factor & mask) // divisor
            dividend = self.scale(atom.args[0], times)
            rest = dict(parts)
            del rest[atom]
            if dividend.linear[1] and all(rest.get(part) == count for part, count in dividend.linear[1]):
                remainder = self.scale(self.apply("rem.u", width, atom.args), times)
                kept = self._sum(width, offset, tuple([part for part in parts if part[0] in rest]))
                return self.add(self.add(kept, self.scale(dividend, -1)), remainder)
        return self._sum(width, offset, parts)

    def scale(self, a: Term, factor: int) -> Term:
        """A multiple of a term."""
        width = a.width
        mask = (1 << width) - 1
        factor &= mask
        if factor == 1:
            return a
        if not factor:
            return self.constant(0, width)
        offset, parts = a.linear
        scaled = [(atom, count * factor & mask) for atom, count in parts]
        return self._sum(width, offset * factor & mask, tuple([part for part in scaled if part[1]]))

    def part(self, a: Term, parts: Parts) -> Term:
        """A sum with only these of its parts, which must be in order."""
        return self._sum(a.width, a.linear[0], parts)

    def split(self, a: Term, belongs: Callable[[Term], bool]) -> tuple[Term, Term]:
        """The parts of a sum whose atoms `belongs` accepts, and the others; both without the constant."""
        parts = a.linear[1]
        halves: tuple[list[tuple[Term, int]], list[tuple[Term, int]]] = ([], [])
        for part in parts:
            halves[not belongs(part[0])].append(part)
        inside, outside = halves
        return self._sum(a.width, 0, tuple(inside)), self._sum(a.width, 0, tuple(outside))

    def sub(self, a: Term, b: Term) -> Term:
        return self.add(a, self.scale(b, -1))

    def invert(self, a: Term) -> Term:
        """All bits inverted: `-a - 1`."""
        return self.add(self.scale(a, -1), self.constant(-1, a.width))

    # --- sums as whole numbers

    def exact(self, a: Term, is_signed: bool) -> tuple[int, list[tuple[Term, int]], int, int] | None:
        """A term as a constant plus multiples of its atoms, if no intermediate result wraps around; with the bounds of the multiples.

        Atoms are unsigned; the total is in the unsigned or the signed range. None if it may wrap around.
        """
        half = 1 << (a.width - 1)
        offset, parts = a.linear
        low = high = 0
        whole = []
        for atom, factor in parts:
            least, most = unsigned_bounds(atom._known, a.width)  # type: ignore[arg-type]
            if factor > half:
                factor -= 2 * half
                low += factor * most
                high += factor * least
            else:
                low += factor * least
                high += factor * most
            whole.append((atom, factor))
        base = half if is_signed else 0
        offset -= (offset + low + base) // (2 * half) * 2 * half
        return (offset, whole, low, high) if offset + high < 2 * half - base else None

    def _of_whole(self, width: int, offset: int, parts: Sequence[tuple[Term, int]]) -> Term:
        """A sum from unbounded integers, with atoms of its width."""
        mask = (1 << width) - 1
        kept = [(atom, factor & mask) for atom, factor in parts if factor & mask]
        return self._sum(width, offset & mask, tuple(sorted(kept, key=_by_serial)))

    def _divide(self, a: Term, divisor: int, is_signed: bool) -> Term | None:
        """The quotient, rounded down, if it is a sum: the indivisible rest must stay between 0 and the divisor."""
        whole = self.exact(a, is_signed)
        if whole is None:
            return None
        offset, parts, _, _ = whole
        quotient, rest = divmod(offset, divisor)
        low = high = rest
        for atom, factor in parts:
            if factor % divisor:
                least, most = atom.bounds
                low += factor * (least if factor > 0 else most)
                high += factor * (most if factor > 0 else least)
        if low < 0 or high >= divisor:
            return None
        return self._of_whole(a.width, quotient, [(atom, factor // divisor) for atom, factor in parts if not factor % divisor])

    def _modulo(self, a: Term, divisor: int) -> Term | None:
        """The remainder of an unsigned division, if it is a sum."""
        whole = self.exact(a, False)
        if whole is None:
            return None
        offset, parts, _, _ = whole
        low = high = offset % divisor
        rest = [(atom, factor % divisor) for atom, factor in parts if factor % divisor]
        for atom, factor in rest:
            least, most = atom.bounds
            low += factor * least
            high += factor * most
        return self._of_whole(a.width, offset % divisor, rest) if high < divisor else None

    # --- operators

    def apply(self, operator: str, width: int, args: tuple[Term, ...]) -> Term:
        """An operator applied to terms, as a term of this width. Operators that depend on signedness end in `.u` or `.s`."""
        key = (operator, width, args)
        found = self._applied.get(key)
        if found is None:
            found = self._applied[key] = self._apply(operator, width, args)
        return found

    def _apply(self, operator: str, width: int, args: tuple[Term, ...]) -> Term:
        numbers = [arg.offset for arg in args if arg.operator == SUM and not arg.parts]
        if len(numbers) == len(args):
            value = compute(operator, width, numbers, [arg.width for arg in args])
            if value is not None:
                return self.constant(value, width)
        simplify = _SIMPLIFY.get(operator)
        found = simplify(self, width, args) if simplify is not None else None
        return found if found is not None else self._atom(operator, width, args)

    def extend(self, a: Term, width: int, is_signed: bool) -> Term:
        """The number in another width: truncated, zero-extended or sign-extended."""
        if a.width == width:
            return a
        return self.apply("trunc" if a.width > width else "sext" if is_signed else "zext", width, (a,))


def _by_serial(part: tuple[Term, int]) -> int:
    return part[0].serial


def _add(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    return terms.add(*args)


def _mul(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a.constant is not None:
        return terms.scale(b, a.constant)
    if b.constant is not None:
        return terms.scale(a, b.constant)
    return terms._atom("mul", width, (a, b) if a.serial < b.serial else (b, a))


def _mulhi_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a.constant is not None:
        a, b = b, a
    if b.constant is None or width > 32:
        return None
    product = terms.scale(terms.extend(a, 2 * width, False), b.constant)
    return terms.extend(terms.apply("shr.u", 2 * width, (product, terms.constant(width, 32))), width, False)


def _as_unsigned(operator: str) -> Callable[[Terms, int, tuple[Term, ...]], Term | None]:
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
    return terms._divide(a, divisor, False)


def _rem_u(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, divisor = args[0], args[1].constant
    if not divisor:
        return None
    if divisor & (divisor - 1) == 0:
        return terms.apply("and", width, (a, terms.constant(divisor - 1, width)))
    return terms._modulo(a, divisor)


def _and(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return a
    if a.constant is not None:
        a, b = b, a
    mask = b.constant
    if mask is None:
        return terms._atom("and", width, (a, b) if a.serial < b.serial else (b, a))
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
        return terms._atom("and", width, (a, b))
    found = terms._modulo(a, mask + 1)
    if found is not None:
        return found
    if a.operator == SUM:
        reduced = terms._of_whole(width, a.offset & mask, [(atom, factor & mask) for atom, factor in a.parts])
        if reduced is not a:
            return terms.apply("and", width, (reduced, b))
    return terms._atom("and", width, (a, b))


def _or(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, b = args
    if a is b:
        return a
    if a.known.zeros | b.known.zeros == (1 << width) - 1:
        return terms.add(a, b)
    return terms._atom("or", width, (a, b) if a.serial < b.serial else (b, a))


def _split(terms: Terms, a: Term, low: int) -> tuple[Term | None, Term]:
    """A sum split in two: the multiple of two to the power of `low` (None if there is none, or all is), and the rest."""
    if a.operator != SUM or low >= a.width:
        return None, a
    mask = (1 << low) - 1
    high = [(atom, factor) for atom, factor in a.parts if not atom.alignment * factor & mask]
    offset = a.offset & ~mask
    if not (high or offset) or (len(high) == len(a.parts) and not a.offset & mask):
        return None, a
    found = terms._sum(a.width, offset, tuple(high))
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
    return terms._atom("xor", width, (a, b) if a.serial < b.serial else (b, a))


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
    found = terms._divide(a, 1 << amount, False)
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
    dividend = terms._of_whole(a.width, offset // factor, [(atom, count // factor) for atom, count in parts])
    return terms.apply("div.u", a.width, (dividend, terms.constant(divisor, a.width)))


def _shr_s(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a, amount = args[0], args[1].constant
    if not amount:
        return a if amount == 0 else None
    if not a.bounds[1] >> (width - 1):
        return terms.apply("shr.u", width, args)
    return terms._divide(a, 1 << min(amount, width), True)


def _funnel(left: bool) -> Callable[[Terms, int, tuple[Term, ...]], Term | None]:
    def simplify(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
        upper, lower, amount = args[0], args[1], args[2].constant
        if amount is None:
            return None
        amount = min(amount, width)
        right = width - amount if left else amount
        low = terms.apply("shr.u", width, (lower, terms.constant(right, 32)))
        return terms.apply("or", width, (terms.scale(upper, 1 << (width - right)), low)) if right else lower

    return simplify


def _bfe(operator: str) -> Callable[[Terms, int, tuple[Term, ...]], Term | None]:
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
    positive = negated(a) if a.width == 1 else None
    if positive is not None:
        return terms.sub(terms.constant(1, width), terms.apply("zext", width, (positive,)))
    if a.operator == SUM:
        whole = terms.exact(a, False)
        if whole is None:
            return None
        return terms._of_whole(width, whole[0], [(terms.apply("zext", width, (atom,)), factor) for atom, factor in whole[1]])
    if a.operator == "zext":
        return terms.apply("zext", width, a.args)
    if a.operator == "trunc" and a.args[0].bounds[1] >> a.width == 0:
        return terms.extend(a.args[0], width, False)
    return None


def _sext(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    a = args[0]
    whole = terms.exact(a, True)
    if whole is not None:
        return terms._of_whole(width, whole[0], [(terms.apply("zext", width, (atom,)), factor) for atom, factor in whole[1]])
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


def negated(condition: Term) -> Term | None:
    """The operand of a negated predicate; None for other terms."""
    if condition.operator == SUM and condition.offset and len(condition.parts) == 1:
        return condition.parts[0][0]
    return None


def _select(terms: Terms, width: int, args: tuple[Term, ...]) -> Term | None:
    condition, a, b = args
    if condition.constant is not None:
        return a if condition.constant else b
    positive = negated(condition)
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
    return terms._atom("select", width, (condition, a, b))


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
    return _truth_of_flag(terms, "eq", a, b) or terms._atom("eq", 1, (a, b) if b.constant is not None or a.serial < b.serial else (b, a))


def _less(operator: str, bounds_of: Callable[[Known, int], tuple[int, int]]) -> Callable[[Terms, int, tuple[Term, ...]], Term | None]:
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


def _extreme(bounds_of: Callable[[Known, int], tuple[int, int]], greatest: bool) -> Callable[[Terms, int, tuple[Term, ...]], Term | None]:
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


_SIMPLIFY: dict[str, Callable[[Terms, int, tuple[Term, ...]], Term | None]] = {
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
