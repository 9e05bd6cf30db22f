"""Accesses to shared memory through the generic and the async proxy, with the alternatives of their addresses, and the fences
between proxies (8.6, 9.7.14.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ptxkit.analyses.cfg.reachability import unfold
from ptxkit.analyses.events.descriptors import ASYNC, SHARED, described_operands, is_shared_variable, start, warp_value
from ptxkit.analyses.events.steps import LEAST_BYTES
from ptxkit.analyses.framework.bindings import bindings, has_matching, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses, locate
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.extents import ADDRESS_BITS
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.names import Symbol

FENCE, MAP_FENCE = "proxy-fence-async", "proxy-fence-tensormap"
MOST_PATHS = 4
"""Maximum number of alternative addresses of an access."""
MOST_BYTES = 1 << 15
"""Upper bound on the bytes that one operation reads through the async proxy, in practice."""


@frozen(eq=False)
class ProxyAccess:
    """An access to a variable in shared memory through a proxy."""

    instruction: int
    root: Symbol | Term
    """The variable, or another base of the address."""
    addresses: tuple[Term, ...]
    """The alternative addresses."""
    bytes: int
    is_tensor: bool = False
    """Whether tensor cores read it through a descriptor."""
    is_async: bool = False
    """Whether an asynchronous copy of the generic proxy writes it."""
    is_sure: bool = True
    """Whether the address depends on the thread only."""
    matrix: tuple[str, Term] | None = None
    """The operand that describes it to tensor cores, and the descriptor."""


def has_proxy(routine: Routine, proxy: str) -> bool:
    """Whether an instruction accesses memory through the proxy."""
    return has_matching(routine, lambda bound: any(memory.proxy == proxy for memory in bound.memory))


@fact
def proxy_fences(routine: Routine) -> tuple[int, ...]:
    """The proxy fences, in text order (9.7.14.4)."""
    return tuple(with_effect(routine, FENCE))


def with_effect(routine: Routine, effect: str) -> Iterator[int]:
    """The instructions that the table says have the effect."""
    for i, _ in matching(routine, lambda bound: effect in bound.effects):
        yield i


def generic_accesses(routine: Routine, how: str) -> tuple[ProxyAccess, ...]:
    """Accesses through the generic proxy that write (`write`) or read."""
    return _generic_writes(routine) if how == "write" else _generic_reads(routine)


@fact
def _generic_writes(routine: Routine) -> tuple[ProxyAccess, ...]:
    return tuple(_generic_accesses(routine, "write"))


@fact
def _generic_reads(routine: Routine) -> tuple[ProxyAccess, ...]:
    return tuple(_generic_accesses(routine, "read"))


def _generic_accesses(routine: Routine, how: str) -> Iterator[ProxyAccess]:
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects:
            # mbarriers and addresses of allocations are not data
            continue
        does = access.writes if how == "write" else access.reads
        if does and not access.memory.proxy and not (how == "read" and access.memory.is_async):
            one_access = proxy_access(routine, access, access.bytes or 1)
            if one_access is not None:
                yield one_access


@fact
def async_reads(routine: Routine) -> tuple[ProxyAccess, ...]:
    """Reads through the async proxy."""
    return tuple(_async_reads(routine))


def _async_reads(routine: Routine) -> Iterator[ProxyAccess]:
    roots = {one_access.root for one_access in generic_accesses(routine, "write") if isinstance(one_access.root, Term)}
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.reads:
            one_access = proxy_access(routine, access, access.bytes or LEAST_BYTES)
            if one_access is not None:
                yield one_access
    for i, operand, term in described_operands(routine):
        found = _described(routine, i, operand, term, roots)
        if found is not None:
            yield found


@fact
def async_writes(routine: Routine) -> tuple[ProxyAccess, ...]:
    """Writes through the async proxy."""
    return tuple(_async_writes(routine))


def _async_writes(routine: Routine) -> Iterator[ProxyAccess]:
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.writes:
            one_access = proxy_access(routine, access, access.bytes or LEAST_BYTES)
            if one_access is not None:
                yield one_access


def proxy_access(routine: Routine, access: Access, size: int) -> ProxyAccess | None:
    """An access of `size` bytes to shared memory, with its address as far as it is known; None for other state spaces."""
    if access.address is None or (access.space and access.space != SHARED):
        return None
    known = values(routine)
    address = warp_value(routine, access.address)
    is_sure = address is settler(routine).term(access.address)
    address = _in_shared(known, address) if access.space else address
    going = _from_start(known, address)
    addresses = _paths(known, going)
    is_sure = is_sure and going is address and len(addresses) == 1
    roots = [_root(known, address, bool(access.space)) for address in addresses]
    root = roots[0]
    if root is None or any(other is not root for other in roots):
        return None
    is_async = access.memory.is_async and not access.memory.proxy
    return ProxyAccess(access.instruction, root, tuple(addresses), size, is_async=is_async, is_sure=is_sure)


def _paths(known: Values, address: Term) -> list[Term]:
    """The alternative addresses, if the base of an address is selected."""
    terms = known.terms

    def choice(at: Term) -> Term | None:
        return next((atom for atom, factor in at.linear[1] if factor == 1 and _is_choice(known, atom)), None)

    def arms(at: Term) -> list[Term]:
        atom = choice(at)
        if atom is None:
            return []
        chosen = atom.args[0] if atom.operator == "trunc" else atom
        own = chosen.args[1:] if chosen.operator == "select" else chosen.args
        return [terms.add(terms.sub(at, atom), terms.extend(arm, at.width, False)) for arm in own]

    found = list(islice((at for at in unfold(address, arms) if choice(at) is None), MOST_PATHS + 1))
    return found if len(found) <= MOST_PATHS else [address]


def _in_shared(known: Values, address: Term) -> Term:
    """An address in shared memory without its window: its 32-bit offset."""
    for atom, factor in address.linear[1]:
        if factor == 1 and atom.operator == "window":
            address = known.terms.sub(address, atom)
    return known.terms.apply("trunc", ADDRESS_BITS, (address,)) if address.width > ADDRESS_BITS else address


def _from_start(known: Values, address: Term) -> Term:
    """An address with pointers that loops advance replaced by their initial values plus unknown steps."""
    for _ in range(MOST_PATHS):
        found = next((pair for atom, factor in address.linear[1] if factor == 1 and (pair := _going(known, atom)) is not None), None)
        if found is None:
            break
        address = known.terms.add(known.terms.sub(address, found[0]), found[1])
    return address


def _going(known: Values, atom: Term) -> tuple[Term, Term] | None:
    """A loop value that starts as an address in shared memory, and its initial value plus unknown steps; None if it is no such value."""
    number = atom.ssa_value if atom.operator == "phi" else None
    induction = known.induction(number) if isinstance(number, int) else None
    if induction is None or induction.step is None or not induction.start.parts:
        return None
    if not any(is_shared_variable(known, leaf) for leaf in induction.start.leaves()):
        return None
    step = induction.step & -induction.step
    steps = known.terms.scale(known.terms.leaf("steps", atom.width, (number,)), step)
    return atom, known.terms.add(induction.start, steps)


def _is_choice(known: Values, atom: Term) -> bool:
    """Whether a term is one of several addresses in shared memory."""
    choice = atom.args[0] if atom.operator == "trunc" else atom
    if choice.operator not in ("select", "join"):
        return False
    arms = choice.args[1:] if choice.operator == "select" else choice.args
    return all(any(is_shared_variable(known, inner) for inner, _ in arm.linear[1] for inner in (inner, *inner.args)) for arm in arms)


def _root(known: Values, address: Term, is_shared: bool) -> Symbol | Term | None:
    """The shared variable that an address is based on or, if it is known to be in shared memory, the only unknown term that it is based
    on."""
    where = locate(known, address)
    if where.symbol is not None:
        return where.symbol if (where.symbol.space or "").startswith(SHARED) else None
    bases = _bases(known, address) if is_shared else []
    if len(bases) != 1:
        return None
    return known.symbol(bases[0]) if bases[0].operator == "address" else bases[0]


def _bases(known: Values, address: Term) -> list[Term]:
    """The unknown terms or variables that an address may be based on, even if its low bits are swizzled or truncated."""
    found = []
    for atom, factor in address.linear[1]:
        if factor == 1 and (atom.operator in ("value", "join", "phi") or is_shared_variable(known, atom)):
            found.append(atom)
        elif factor == 1 and atom.operator in ("zext", "trunc"):
            found += _bases(known, atom.args[0])
        elif factor == 1 and atom.operator in ("xor", "or", "and"):
            for kept, lower in (atom.args, atom.args[::-1]):
                cut = (lower.constant or 0) ^ (1 << atom.width) - 1 if atom.operator == "and" else lower.bounds[1]
                if cut < MOST_BYTES:
                    found += _bases(known, kept)
                    break
    return found


def _described(routine: Routine, i: int, operand: str, term: Term, roots: set[Term]) -> ProxyAccess | None:
    """The access that a descriptor describes: to a variable, or relative to one of these roots."""
    known = values(routine)
    address = start(known.terms, term, lambda atom: atom in roots or is_shared_variable(known, atom))
    address = _in_shared(known, address) if address is not None else None
    root = _root(known, address, True) if address is not None else None
    if address is None or root is None:
        return None
    return ProxyAccess(i, root, (address,), LEAST_BYTES, is_tensor=True, matrix=(operand, term))
