"""Proxy fences that a kernel does not need, by its text: they come before every access, or acquire a tensor map that is unused."""

from __future__ import annotations

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.descriptors import ASYNC, SHARED, descriptors
from ptxkit.analyses.events.effects import syncs
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.protocols.proxy.accesses import MAP_FENCE, async_reads, async_writes, proxy_access, with_effect
from ptxkit.analyses.protocols.proxy.tensor_maps import fenced_map, is_parameter, pointers
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.isa.binding import Bound


def stands_first(routine: Routine, fence: int) -> bool:
    """Whether a thread that reaches a fence has not accessed data in shared memory before, nor had any signalled to it."""
    bounds = bindings(routine)
    signalled = {i for i, sync in syncs(routine).items() if sync.waits}
    accessed_before = {
        access.instruction
        for access in accesses(routine)
        if access.space in ("", SHARED)
        and access.memory.proxy != ASYNC
        and isinstance(bound := bounds[access.instruction], Bound)
        and not bound.barrier
        and not bound.effects
    }
    calls = {i for i, bound in enumerate(bounds) if not isinstance(bound, Bound) or bound.flow == "call"}
    return not any(comes_to(routine, i, fence) for i in signalled | accessed_before | calls)


def unplaced(routine: Routine) -> frozenset[str]:
    """The kinds of accesses to shared memory in a function whose addresses are unknown, in words."""
    found = {one_access.instruction for one_access in (*async_reads(routine), *async_writes(routine))}
    bounds = bindings(routine)
    words = set()
    if any(i not in found for i, _ in descriptors(routine)):
        words.add("matrices")
    if thread_block_of(routine).is_assumed and thread_block_of(routine).size <= WARP:
        words.add("shape")
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects or access.space not in ("", SHARED):
            continue
        if access.memory.proxy == ASYNC and access.instruction not in found:
            words.add("copies")
        elif not access.memory.proxy and proxy_access(routine, access, 1) is None and access.space:
            words.add("accesses")
    return frozenset(words)


def is_never_used(routine: Routine, fence: int) -> bool:
    """Whether the tensor map that a fence acquires is certainly unused: every map in use is acquired by another fence."""
    own = pointers(fenced_map(routine, fence))
    others = [pointers(fenced_map(routine, other)) for other in with_effect(routine, MAP_FENCE) if other != fence]
    acquired = set[Term]().union(*others)
    used = [access.address for access in accesses(routine) if access.memory.proxy == "tensormap"]
    needed = [pointers(address) for address in used if not is_parameter(routine, address)]
    return bool(own) and all(found and not found & own and found <= acquired for found in needed)
