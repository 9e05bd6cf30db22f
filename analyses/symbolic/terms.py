"""Symbolic values: the contents of a register, as an expression over what a thread knows at entry.

A term is a number of fixed width. It is either a *sum*, a constant plus multiples of other terms modulo two to the power of the width, or
an *atom*: a leaf (`%tid.x`, a parameter, the address of a variable, an unknown value) or an operator applied to terms. Equal terms of one
`Terms` are one object, and each knows its bits and range. So `a + 4*i` and `(i << 2) + a` are the same address, and whether two addresses
differ by 16 is a subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from ptxkit.analyses.numbers.arithmetic import compute, signed
from ptxkit.analyses.numbers.known_bits import Known, constant, result, signed_bounds, top, total, unsigned_bounds
from ptxkit.frozen import define

SUM = "sum"
_OF_VALUES = frozenset(("phi", "rough", "join", "value"))
MOST_PARTS = 16
"""A sum with more parts than this becomes an atom: long chains of additions would cost quadratic time."""

Parts = tuple[tuple["Term", int], ...]


@define(eq=False, repr=False, weakref_slot=False)
class Term:
    """A symbolic value. Immutable; equal terms of one `Terms` are one object."""

    operator: str
    """`sum`, an operator of `numbers.arithmetic`, or the kind of a leaf."""
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
    def negated(self) -> Term | None:
        """The operand, if this is a negated predicate; None for other terms."""
        return self.parts[0][0] if self.operator == SUM and self.offset and self.width == 1 and len(self.parts) == 1 else None

    @property
    def is_leaf(self) -> bool:
        return not self.args and self.operator != SUM

    @property
    def name(self) -> str:
        """The name of what a leaf stands for, as of a special register or a parameter; empty for other terms."""
        return str(self.data[0]) if self.data else ""

    @property
    def ssa_value(self) -> int | None:
        """The number of the SSA value that a `phi`, its approximation (`rough`), a `join` or a `value` stands for; None for other terms."""
        number = self.data[0] if self.operator in _OF_VALUES and self.data else None
        return number if isinstance(number, int) else None

    @property
    def rank(self) -> Term | None:
        """The rank of the CTA into whose shared memory `mapa` has mapped a `peer` address; None for other terms."""
        rank = self.data[0] if self.operator == "peer" else None
        return rank if isinstance(rank, Term) else None

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


def walk(term: Term, known: Container[Term] = (), inner: Callable[[Term], Sequence[Term]] = attrgetter("inner")) -> list[Term]:
    """A term and its subterms, each once, operands first; without those in `known` and those that occur only within them. `inner` gives
    the terms that come before one, which are its operands unless something else is said."""
    if not inner(term):
        return [] if term in known else [term]
    done: set[Term] = set()
    order: list[Term] = []
    stack = [term]
    while stack:
        top_ = stack[-1]
        if top_ in done or top_ in known:
            stack.pop()
            continue
        missing = [one for one in inner(top_) if one not in done and one not in known]
        if missing:
            stack += missing
            continue
        done.add(top_)
        order.append(top_)
        stack.pop()
    return order


class Terms:
    """Makes terms: equal ones are shared, sums are in one form, and operators are simplified as `simplifications` says."""

    def __init__(self, simplifications: Mapping[str, Simplification]) -> None:
        self._simplifications = simplifications
        self._sums: dict[tuple[int, int, Parts], Term] = {}
        self._atoms: dict[tuple[object, ...], Term] = {}
        self._applied: dict[tuple[object, ...], Term] = {}
        self._serial = 0

    # --- leaves, constants and sums

    def constant(self, value: int, width: int) -> Term:
        """A constant, truncated to the width."""
        value &= (1 << width) - 1
        return self.sum(width, value, ())

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

    def sum(self, width: int, offset: int, parts: Parts) -> Term:
        """The sum of a constant and multiples of atoms, which must be in the order of their serial numbers."""
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

    def atom(self, operator: str, width: int, args: tuple[Term, ...]) -> Term:
        """An operator that is not simplified further; a constant if its known bits and range leave only one number."""
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
                return self.sum(width, (a.offset + b.offset) & mask, b.parts)
            return self.sum(width, a.offset, ((b, 1),))
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
            return self.atom("add", width, (a, b) if a.serial < b.serial else (b, a))
        for atom in factors:
            if atom.operator == "div.u":
                quotient = True
        parts = tuple(sorted(factors.items(), key=_by_serial)) if len(factors) > 1 else tuple(factors.items())
        offset = (a_offset + b_offset) & mask
        return self._remainder(width, offset, parts) if quotient else self.sum(width, offset, parts)

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
                kept = self.sum(width, offset, tuple([part for part in parts if part[0] in rest]))
                return self.add(self.add(kept, self.scale(dividend, -1)), remainder)
        return self.sum(width, offset, parts)

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
        return self.sum(width, offset * factor & mask, tuple([part for part in scaled if part[1]]))

    def part(self, a: Term, parts: Parts) -> Term:
        """A sum with only these of its parts, which must be in order."""
        return self.sum(a.width, a.linear[0], parts)

    def split(self, a: Term, belongs: Callable[[Term], bool]) -> tuple[Term, Term]:
        """The parts of a sum whose atoms `belongs` accepts, and the others; both without the constant."""
        parts = a.linear[1]
        halves: tuple[list[tuple[Term, int]], list[tuple[Term, int]]] = ([], [])
        for part in parts:
            halves[not belongs(part[0])].append(part)
        inside, outside = halves
        return self.sum(a.width, 0, tuple(inside)), self.sum(a.width, 0, tuple(outside))

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

    def of_whole(self, width: int, offset: int, parts: Sequence[tuple[Term, int]]) -> Term:
        """A sum from unbounded integers, with atoms of its width."""
        mask = (1 << width) - 1
        kept = [(atom, factor & mask) for atom, factor in parts if factor & mask]
        return self.sum(width, offset & mask, tuple(sorted(kept, key=_by_serial)))

    def divide(self, a: Term, divisor: int, is_signed: bool) -> Term | None:
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
        return self.of_whole(a.width, quotient, [(atom, factor // divisor) for atom, factor in parts if not factor % divisor])

    def modulo(self, a: Term, divisor: int) -> Term | None:
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
        return self.of_whole(a.width, offset % divisor, rest) if high < divisor else None

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
        simplify = self._simplifications.get(operator)
        found = simplify(self, width, args) if simplify is not None else None
        return found if found is not None else self.atom(operator, width, args)

    def extend(self, a: Term, width: int, is_signed: bool) -> Term:
        """The number in another width: truncated, zero-extended or sign-extended."""
        if a.width == width:
            return a
        return self.apply("trunc" if a.width > width else "sext" if is_signed else "zext", width, (a,))


def _by_serial(part: tuple[Term, int]) -> int:
    return part[0].serial


Simplification: TypeAlias = Callable[[Terms, int, tuple[Term, ...]], Term | None]
"""From where terms are made, the width of the result and the operands, to the simpler term; None if there is none."""
