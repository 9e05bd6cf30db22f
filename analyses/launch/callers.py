"""The callers of a function, and the kernels whose threads call it (9.7.13.5)."""

from __future__ import annotations

from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.call_graph import CallGraph, callgraph

Sites = tuple[tuple[Routine, int], ...]
"""Calls: the caller, and the instruction."""


def calls_of(routine: Routine) -> Sites | None:
    """The calls of a function; None if there may be others, from another module or through its address."""
    return _sites(routine.siblings[0] if routine.siblings else routine)[id(routine)]


def kernels_of(routine: Routine) -> tuple[Routine, ...] | None:
    """The kernels whose threads may execute a function, or itself if it is a kernel; None if there may be more."""
    if routine.function.header.is_entry:
        return (routine,)
    found: dict[str, Routine] = {}
    for one in nearest_first([routine], lambda one: [] if one.function.header.is_entry else [caller for caller, _ in calls_of(one) or ()]):
        if one.function.header.is_entry:
            found[one.name] = one
        elif calls_of(one) is None:
            return None
    return tuple(found.values())


def is_recursive(routine: Routine) -> bool:
    """Whether a function may call itself, directly or indirectly."""
    graph = module_calls(routine.siblings[0] if routine.siblings else routine)
    return any(routine.name in circle for circle in graph.recursive)


@fact
def module_calls(first: Routine) -> CallGraph:
    """The call graph of a module, given its first function."""
    return callgraph(first.module, tuple(first.siblings or [first]))


@fact
def _sites(first: Routine) -> dict[int, Sites | None]:
    """The calls of all functions of a module, by `id`."""
    siblings = first.siblings or [first]
    if all(routine.function.header.is_entry for routine in siblings):
        return {id(routine): () for routine in siblings}
    graph = module_calls(first)
    by_name = {routine.name: routine for routine in siblings}
    found: dict[str, list[tuple[Routine, int]]] = {name: [] for name in by_name}
    unknown: set[str] = set()
    for call in graph.calls:
        for name in call.callees:
            if name in found:
                found[name].append((by_name[call.caller], call.instruction))
            if call.is_indirect or call.is_open:
                unknown.add(name)
    if len(by_name) < len(siblings):
        # the module is invalid: which of two functions of one name is called is unknown
        unknown |= by_name.keys()
    linked = {routine.name for routine in siblings if routine.function.header.linkage}
    return {
        id(routine): () if routine.function.header.is_entry else None if routine.name in unknown | linked else tuple(found[routine.name])
        for routine in siblings
    }
