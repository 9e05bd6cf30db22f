"""Tensor maps that are changed or received by pointer, and the fences that release and acquire them (9.7.14.4, 9.7.14.16)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.descriptors import ASYNC
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import accesses, locate
from ptxkit.analyses.protocols.proxy.accesses import MAP_FENCE, has_proxy, with_effect
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.isa.binding import Bound
from ptxkit.syntax import Address


def stale_maps(routine: Routine) -> Iterator[Finding]:
    """Uses of tensor maps that the function itself has modified, without an acquiring proxy fence on any path in between."""
    if not has_proxy(routine, "tensormap"):
        return
    uses: dict[int, Hashable] = {}
    changes: dict[int, Hashable] = {}
    fences = []
    known = values(routine)
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or access.memory.proxy == ASYNC:
            continue
        key = _same(known, access.address)
        if access.memory.proxy == "tensormap":
            uses[access.instruction] = key
        elif access.writes and bound.modifiers and (MAP_FENCE in bound.effects or ".b1024" in bound.modifiers):
            changes[access.instruction] = key
    if not uses:
        return
    for i in with_effect(routine, MAP_FENCE):
        bound = bounds[i]
        assert isinstance(bound, Bound)
        if "release" not in (word.what for word in bound.form.order):
            fences.append(i)
    for i, key in uses.items():
        own = [change for change, changed in changes.items() if key is not None and changed == key and comes_to(routine, change, i)]
        # a fence may be skipped because nothing was changed
        those = [fence for fence in fences if _same(known, fenced_map(routine, fence)) in (None, key)]
        if own and not any(comes_to(routine, change, fence) and comes_to(routine, fence, i) for change in own for fence in those):
            message = "this uses a tensor map after it was changed, with no acquiring fence.proxy.tensormap in between"
            yield Finding(i, message, [(own[-1], "changed here")])
    yield from _unacquired(routine, fences)
    yield from _unreleased(routine, fences, changes)


def _unreleased(routine: Routine, fences: list[int], changes: Mapping[int, Hashable]) -> Iterator[Finding]:
    """The first acquisition of each tensor map that nothing in the function releases, although it releases others that it acquires."""
    known, bounds = values(routine), bindings(routine)
    releases = set(with_effect(routine, MAP_FENCE)) - set(fences)
    released = {changes.get(i) for i in releases}
    if not releases or None in released or any(not bound.memory for i in releases if isinstance(bound := bounds[i], Bound)):
        # a fence without an address may release any map
        return
    by_key: dict[Hashable, int] = {}
    for fence in fences:
        by_key.setdefault(_same(known, fenced_map(routine, fence)), fence)
    if None in by_key or not released & by_key.keys():
        return
    steady = all(_is_steady(access.address) for access in accesses(routine) if access.instruction in releases)
    for key, fence in by_key.items():
        if key not in released and steady and _is_steady(fenced_map(routine, fence)):
            message = "this acquires a tensor map that nothing in the kernel releases, unlike the other maps that are acquired"
            yield Finding(fence, message, [(min(releases), "another is released here")], False)


def _is_steady(address: Term | None) -> bool:
    """Whether an address is constant during the kernel, so that two of them can be distinguished."""
    return address is not None and not any(leaf.operator in ("value", "phi", "join") for leaf in walk(address))


def is_parameter(routine: Routine, address: Term | None) -> bool:
    """Whether an address is that of a parameter itself, which is constant while the kernel runs."""
    symbol = locate(values(routine), address).symbol if address is not None else None
    return symbol is not None and (symbol.space or "").startswith(".param")


def _unacquired(routine: Routine, fences: list[int]) -> Iterator[Finding]:
    """The first use of each tensor map that the kernel receives by pointer and does not acquire, though it acquires others.

    A kernel that acquires none relies on the maps written before its launch.
    """
    acquired = [(fence, pointers(fenced_map(routine, fence))) for fence in fences]
    signalled: set[Term] = set()
    for access in accesses(routine) if any(own for _, own in acquired) else ():
        for pointer in pointers(access.address) if access.memory.proxy == "tensormap" else ():
            if pointer in signalled or any(pointer in own and comes_to(routine, fence, access.instruction) for fence, own in acquired):
                continue
            signalled.add(pointer)
            message = f"the tensor map at `{pointer}` is used without an acquiring fence.proxy.tensormap, unlike other tensor maps"
            yield Finding(access.instruction, message, [], False)


def fenced_map(routine: Routine, fence: int) -> Term | None:
    """The address of the tensor map that a fence names; None if unknown."""
    node = next((node for node in routine.instructions[fence].operands if isinstance(node, Address)), None)
    return values(routine).operand(fence, node) if node is not None else None


def pointers(address: Term | None) -> set[Term]:
    """The parameters whose values an address is based on (not the parameters' own locations)."""
    return {atom for atom, factor in address.linear[1] if factor == 1 and atom.operator == "parameter"} if address is not None else set()


def _same(known: Values, address: Term | None) -> Hashable:
    """A key that is equal for addresses of the same mbarrier; None if unknown. Generic and state-space addresses are treated alike."""
    if address is None:
        return None
    where = locate(known, address)
    return (where.symbol.name if where.symbol is not None else "", where.offset)
