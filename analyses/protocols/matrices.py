"""Where the matrices lie that tensor cores are told of by descriptors (9.7.15.5.1, 9.7.16.4.1).

A descriptor holds an address in shared memory in units of 16 bytes, in its lowest bits, and says in the others how the matrix lies there.
Programs make it of an address once and then add to it, in whole or in its lower half, to come to the next stage or the next columns; the
lanes of a warp may hand it round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.bindings import bindings
from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.handed_out import HandedOut, handed_out
from ptxkit.analyses.protocols.environment import rebuilt, settler
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.terms import Term, Terms, inside, walk
from ptxkit.analyses.values import Values, values
from ptxkit.isa.binding import Bound
from ptxkit.syntax.nodes import Guard

ASYNC = "async"
SHARED = ".shared"
UNIT_BITS = 4
"""Descriptors hold addresses without these bits."""
FIELD = (1 << 14) - 1
"""The bits of a descriptor that hold an address."""


def descriptors(routine: Routine) -> Iterator[tuple[int, Term]]:
    """The operands that describe matrices in shared memory to tensor cores, with their instructions."""
    known = values(routine)
    flow = control_flow(routine)
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound) or flow.block_of[i] not in flow.reachable:
            continue
        for memory in bound.memory if bound.memory else ():
            operand = bound.operand(memory.operand)
            if memory.proxy == ASYNC and operand is not None and operand.role == "r":
                children = routine.instructions[i].children
                first = 2 if type(children[0]) is Guard else 1
                term = known.operand(i, children[first + operand.path[0]])
                if term is not None:
                    yield i, held(routine, term)


def held(routine: Routine, term: Term) -> Term:
    """A term with what one lane has handed out to its warp put in, as if all lanes held it."""
    term = settler(routine).term(term)
    terms, sources, done = values(routine).terms, handed_out(routine), _held(routine)
    stack = [term]
    while stack:
        at = stack[-1]
        if at in done:
            stack.pop()
            continue
        source = _source(sources, at)
        needed = [source] if source is not None else [] if at.is_leaf or at.operator == "join" else inside(at)
        missing = [inner for inner in needed if inner not in done]
        if missing:
            stack += missing
            continue
        if source is not None:
            done[at] = terms.extend(done[source], at.width, False)
        else:
            done[at] = at if all(done[inner] is inner for inner in needed) else rebuilt(terms, at, done)
        stack.pop()
    return done[term]


def _source(sources: HandedOut, term: Term) -> Term | None:
    """What the lane holds that hands out a value."""
    found = sources.of(term) if term.operator == "value" and len(term.data) == 1 else None
    return found[0] if found is not None else None


@fact
def _held(routine: Routine) -> dict[Term, Term]:
    return {}


def described(known: Values, term: Term) -> Term | None:
    """The address in shared memory that a descriptor holds, if it is made from that of a variable; None if that is not seen."""
    return start(known.terms, term, lambda atom: is_shared_variable(known, atom))


def is_shared_variable(known: Values, atom: Term) -> bool:
    """Whether a term is the address of a variable in shared memory."""
    symbol = known.symbol(atom) if atom.operator == "address" else None
    return symbol is not None and (symbol.space or "").startswith(SHARED)


def start(terms: Terms, term: Term, is_base: Callable[[Term], bool]) -> Term | None:
    """The address that a descriptor holds, of which one part is a base; what was added to the descriptor counts."""
    return _start(terms, term, is_base, UNIT_BITS) if any(is_base(inner) for inner in walk(term)) else None


def _start(terms: Terms, term: Term, is_base: Callable[[Term], bool], bits: int) -> Term | None:
    """The address of which a term holds all but its lowest bits, so many."""
    for atom, factor in term.linear[1]:
        if factor != 1:
            continue
        if is_base(atom):
            # nothing has been cut from it
            return term
        made = _made(terms, atom, is_base, bits)
        if made is not None:
            rest = terms.sub(term, atom)
            added = terms.extend(_in_field(terms, rest) if bits else rest, made.width, False)
            return terms.add(made, terms.scale(added, 1 << bits))
    return None


def _made(terms: Terms, atom: Term, is_base: Callable[[Term], bool], bits: int) -> Term | None:
    """The address that a part of a descriptor is made from."""
    if atom.operator in ("zext", "sext", "trunc"):
        return _start(terms, atom.args[0], is_base, bits)
    if atom.operator in ("shr.u", "shr.s") and atom.args[1].constant is not None and atom.args[1].constant <= bits:
        return _start(terms, atom.args[0], is_base, bits - atom.args[1].constant)
    if atom.operator not in ("and", "or"):
        return None
    for inner, other in (atom.args, atom.args[::-1]):
        found = _start(terms, inner, is_base, bits)
        if found is not None:
            # what is laid over it otherwise belongs to other fields
            laid = (other.constant or 0) & FIELD if atom.operator == "or" else 0
            return terms.add(found, terms.constant(laid << bits, found.width))
    return None


def _in_field(terms: Terms, rest: Term) -> Term:
    """What is added to the address in a descriptor, without what belongs to its other fields."""
    offset, parts = rest.linear
    found = terms.constant(offset & FIELD, rest.width)
    for atom, factor in parts:
        if atom.alignment * (factor & -factor) & FIELD:
            found = terms.add(found, terms.scale(atom, factor))
    return found
