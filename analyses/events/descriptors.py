"""Location of the matrices that descriptors give to tensor cores (9.7.15.5.1, 9.7.16.4.1).

The lowest bits of a descriptor hold a shared-memory address in units of 16 bytes; the other bits describe the layout of the matrix.
Programs build a descriptor once from an address and then add to it, in whole or to its lower half, to get to the next stage or the next
columns. A lane may also broadcast it to its warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.symbolic.environment import rebuilt, settler
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term, Terms, walk
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.analyses.uniformity.broadcasts import HandedOut, handed_out
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Memory
from ptxkit.memo import expression
from ptxkit.syntax import Guard

ASYNC = "async"
SHARED = ".shared"
UNIT_BITS = 4
"""The number of low address bits that a descriptor omits."""
FIELD = (1 << 14) - 1
"""Mask of the address field of a descriptor."""
STRIDE_BIT = 32
"""First bit of the stride between groups of eight rows, for matrices with contiguous rows."""
ROWS = 8
ROW_BYTES = 128
"""Maximum bytes of a swizzled row."""
DEPTH_BYTES = 32
"""Bytes in the other dimension of a matrix: what one instruction multiplies."""
LEADING_BIT, LAYOUT_BIT = 16, 61
"""First bits of the leading-dimension stride and of the swizzle mode."""
KINDS = {".kind::f16": (2,), ".kind::tf32": (4,), ".kind::i8": (1,), ".kind::f8f6f4": (1,)}
"""Bytes of an element in shared memory, where the instruction determines it (9.1:9.7.16.2)."""
WIDTHS = {1: 128, 2: 128, 4: 64, 6: 32}
"""Bytes of a row that are swizzled together, by swizzle mode."""
TRANSPOSED_BITS = {"a": 15, "b": 16}
"""Bits of an instruction descriptor that select transposition, that is, contiguous columns (9.1:9.7.16.4.2)."""
N_BIT, M_BIT = 17, 24
"""First bits of the shape fields of an instruction descriptor: N in units of 8, M in units of 16."""
EXAMPLE = 1 << 10
"""An arbitrary address."""
_SHAPE = expression(r"\.?m(?P<m>\d+)n(?P<n>\d+)k\d+")


@frozen(eq=False)
class Matrix:
    """A matrix that tensor cores read."""

    instruction: int
    memory: Memory
    rows: tuple[Term, ...]
    """The start of the matrix in shared memory and the start of its last eight rows, as far as known: the first 16 bytes at each are
    read. Empty if not even the start is known, or it is not in a variable."""
    lanes: int
    """The number of lanes of each warp, starting from lane 0, that hold this address; 0 for all."""
    is_divided: bool
    """Whether each of the warps that take part in the MMA may read only its own rows."""


@fact
def descriptors(routine: Routine) -> tuple[tuple[int, Term], ...]:
    """The operands that describe shared-memory matrices to tensor cores, with their instructions."""
    return tuple([(i, warp_value(routine, term)) for i, _, term in _operands(routine)])


def described_operands(routine: Routine) -> Iterator[tuple[int, str, Term]]:
    """The same, with operand names."""
    for i, memory, term in _operands(routine):
        yield i, memory.operand, warp_value(routine, term)


@fact
def matrices(routine: Routine) -> tuple[Matrix, ...]:
    """The matrices that tensor cores read through descriptors, in document order."""
    known, settle = values(routine), settler(routine).term
    found = []
    for i, memory, term in _operands(routine):
        lanes = _broadcast_lanes(routine, settle(term))
        seen = warp_value(routine, term) if lanes == 1 else settle(term)
        start_ = described(known, seen)
        rows: tuple[Term, ...] = ()
        if start_ is not None:
            after = _last_rows(routine, i, memory.operand, seen)
            rows = (start_, known.terms.add(start_, known.terms.constant(after, start_.width))) if after else (start_,)
        bound = bindings(routine)[i]
        is_divided = memory.operand == "a" and isinstance(bound, Bound) and bound.converges is not None
        found.append(Matrix(i, memory, rows, lanes, is_divided))
    return tuple(found)


def _last_rows(routine: Routine, i: int, operand: str, term: Term) -> int:
    """Distance in bytes from the start of a matrix with contiguous rows to its last eight rows; 0 if unknown."""
    bound = bindings(routine)[i]
    assert isinstance(bound, Bound)
    count = _row_count(routine, i, bound, operand)
    # the address does not affect the other fields, so any value will do
    fields = {number_of(term, lambda _, number=number: number) for number in (0, EXAMPLE)}  # type: ignore[misc]
    strides = {number >> STRIDE_BIT & FIELD if number is not None else 0 for number in fields}
    return (count // ROWS - 1) * (strides.pop() << UNIT_BITS) if count and len(strides) == 1 else 0


def matrix_bytes(routine: Routine, i: int, operand: str, term: Term) -> int:
    """Upper bound for the bytes of a swizzled matrix, from the row in which it starts; 0 if unknown."""
    bound = bindings(routine)[i]
    count, is_turned = _line_count(routine, i, bound, operand) if isinstance(bound, Bound) else (0, False)
    # the address and the stage do not affect the other fields, so any values will do
    words = {number_of(term, lambda _, number=number: number) for number in (0, 1)}  # type: ignore[misc]
    fields = {
        (word >> LEADING_BIT & FIELD, word >> STRIDE_BIT & FIELD, WIDTHS.get(word >> LAYOUT_BIT & 7, 0)) if word is not None else (0, 0, 0)
        for word in words
    }
    if not count or len(fields) != 1:
        return 0
    leading, stride, width = fields.pop()
    if not width or not stride:
        return 0
    if not is_turned:
        return (count // ROWS - 1) * (stride << UNIT_BITS) + ROWS * ROW_BYTES
    # blocks as wide as the swizzle are one stride apart, groups of eight columns the other, or the reverse
    apart = [
        (-(count * size // -width) - 1) * one + (DEPTH_BYTES // size // ROWS - 1) * other
        for size in _element_bytes(bound)
        for one, other in ((leading, stride), (stride, leading))
    ]
    return (max(apart) << UNIT_BITS) + ROWS * ROW_BYTES


def _element_bytes(bound: Bound | object) -> tuple[int, ...]:
    """The possible sizes of an element in bytes."""
    return next((sizes for word, sizes in KINDS.items() if isinstance(bound, Bound) and bound.has(word)), (1, 2, 4))


def _row_count(routine: Routine, i: int, bound: Bound, operand: str) -> int:
    """The number of rows of a matrix with contiguous rows; 0 if unknown, or if its columns are contiguous."""
    count, is_turned = _line_count(routine, i, bound, operand)
    return 0 if is_turned else count


def _line_count(routine: Routine, i: int, bound: Bound, operand: str) -> tuple[int, bool]:
    """The number of rows of the first matrix, or of columns of the second (0 if unknown), and whether the matrix is transposed relative
    to that."""
    known = values(routine)

    def number(name: str) -> int | None:
        found = bound.operand(name)
        term = known.operand(i, routine.instructions[i].operands[found.path[0]]) if found is not None else None
        return term.constant if term is not None else None

    if bound.operand("idesc") is not None:
        word = number("idesc")
        if word is None:
            return 0, False
        count = (word >> M_BIT & 31) << 4 if operand == "a" else (word >> N_BIT & 63) << 3
        return count // 2 if bound.has(".cta_group::2") else count, bool(word >> TRANSPOSED_BITS[operand] & 1)
    shape = _SHAPE.fullmatch(bound.fragments[0].shape) if bound.fragments else None
    # if the first matrix is in registers, the transpose flag is that of the second
    named = [name for name in (operand + "trans", "atrans") if bound.operand(name) is not None]
    turned = number(named[0]) if named else 0
    return (int(shape["m" if operand == "a" else "n"]), turned != 0) if shape is not None and turned is not None else (0, False)


def _operands(routine: Routine) -> Iterator[tuple[int, Memory, Term]]:
    known = values(routine)
    flow = control_flow(routine)
    for i, bound in matching(routine, lambda bound: any(memory.proxy == ASYNC for memory in bound.memory)):
        if flow.block_of[i] not in flow.reachable:
            continue
        for memory in bound.memory:
            operand = bound.operand(memory.operand)
            if memory.proxy == ASYNC and operand is not None and operand.role == "r":
                children = routine.instructions[i].children
                first = 2 if type(children[0]) is Guard else 1
                term = known.operand(i, children[first + operand.path[0]])
                if term is not None:
                    yield i, memory, term


def _broadcast_lanes(routine: Routine, term: Term) -> int:
    """The number of lanes of a warp, starting from lane 0, that hold every broadcast value that a term depends on; 0 for all."""
    sources, settle = handed_out(routine), settler(routine).term

    def source(at: Term) -> tuple[Term, int] | None:
        return sources.of(at) if at.operator == "value" and len(at.data) == 1 else None

    def inner(at: Term) -> tuple[Term, ...]:
        found = source(at)
        return at.inner if found is None or found[1] else (*at.inner, settle(found[0]))

    handing = [found for at in closure([term], inner) if (found := source(at)) is not None]
    return 1 if handing and not any(found[1] for found in handing) else 0


def warp_value(routine: Routine, term: Term) -> Term:
    """A term with the broadcast values of its warp substituted, as if all lanes held them."""
    term = settler(routine).term(term)
    terms, sources, done = values(routine).terms, handed_out(routine), _warp_value(routine)

    def needed(at: Term) -> Sequence[Term]:
        source = _source(sources, at)
        return (source,) if source is not None else () if at.operator == "join" else at.inner

    for at in walk(term, done, needed):
        source = _source(sources, at)
        if source is not None:
            done[at] = terms.extend(done[source], at.width, False)
        else:
            done[at] = at if all(done[inner] is inner for inner in needed(at)) else rebuilt(terms, at, done)
    return done[term]


def _source(sources: HandedOut, term: Term) -> Term | None:
    """The value that the broadcasting lane holds."""
    found = sources.of(term) if term.operator == "value" and len(term.data) == 1 else None
    return found[0] if found is not None else None


@fact
def _warp_value(routine: Routine) -> dict[Term, Term]:
    return {}


def described(known: Values, term: Term) -> Term | None:
    """The shared-memory address in a descriptor, if it is derived from that of a variable; None if unknown."""
    return start(known.terms, term, lambda atom: is_shared_variable(known, atom), True)


def is_shared_variable(known: Values, atom: Term) -> bool:
    """Whether a term is the address of a variable in shared memory."""
    symbol = known.symbol(atom) if atom.operator == "address" else None
    return symbol is not None and (symbol.space or "").startswith(SHARED)


def start(terms: Terms, term: Term, is_base: Callable[[Term], bool], is_exact: bool = False) -> Term | None:
    """The address that a descriptor holds, where `is_base` accepts one of its parts; additions to the descriptor are included.

    Unless `is_exact`, rounding of the address is ignored.
    """
    return _start(terms, term, is_base, UNIT_BITS, is_exact) if any(is_base(inner) for inner in walk(term)) else None


def _start(terms: Terms, term: Term, is_base: Callable[[Term], bool], bits: int, is_exact: bool) -> Term | None:
    """The address of which a term holds all bits but the lowest `bits`."""
    for atom, factor in term.linear[1]:
        if factor != 1:
            continue
        if is_base(atom):
            # no bits have been cut
            return term
        made = _made(terms, atom, is_base, bits, is_exact)
        if made is not None:
            rest = terms.sub(term, atom)
            added = terms.extend(_in_field(terms, rest) if bits else rest, made.width, False)
            return terms.add(made, terms.scale(added, 1 << bits))
    return None


def _made(terms: Terms, atom: Term, is_base: Callable[[Term], bool], bits: int, is_exact: bool) -> Term | None:
    """The address from which a part of a descriptor is made."""
    if atom.operator in ("zext", "sext", "trunc"):
        return _start(terms, atom.args[0], is_base, bits, is_exact)
    if atom.operator in ("shr.u", "shr.s") and atom.args[1].constant is not None and atom.args[1].constant <= bits:
        return _start(terms, atom.args[0], is_base, bits - atom.args[1].constant, is_exact)
    if atom.operator not in ("and", "or"):
        return None
    for inner, other in (atom.args, atom.args[::-1]):
        found = _start(terms, inner, is_base, bits, is_exact)
        if found is None:
            continue
        if atom.operator == "or":
            # bits that are or-ed in elsewhere belong to other fields
            return terms.add(found, terms.constant(((other.constant or 0) & FIELD) << bits, found.width))
        return _masked(terms, found, other.constant or 0, bits) if is_exact else found
    return None


def _masked(terms: Terms, address: Term, mask: int, bits: int) -> Term:
    """An address with bits other than the lowest masked off; bits outside the address field are ignored."""
    cut = (~mask << bits) & ((FIELD + 1 << UNIT_BITS) - 1) & ~address.known.zeros
    return terms.apply("and", address.width, (address, terms.constant(~cut, address.width))) if cut else address


def _in_field(terms: Terms, rest: Term) -> Term:
    """What is added to the address field of a descriptor, without additions to its other fields."""
    offset, parts = rest.linear
    found = terms.constant(offset & FIELD, rest.width)
    for atom, factor in parts:
        if atom.alignment * (factor & -factor) & FIELD:
            found = terms.add(found, terms.scale(atom, factor))
    return found
