"""Kernels that depend on another grid, and CTAs that access shared memory of other CTAs in their cluster (9.7.14.3, 9.7.14.13)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.mbarriers import reads_remote
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import cluster_size
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.isa.binding import Bound

LAUNCHES, WAITS = "grid-launch", "grid-wait"


@fact
def findings(routine: Routine) -> tuple[Finding, ...]:
    """Errors in the use of griddepcontrol, and in the lifetime of CTAs of a cluster."""
    if not routine.function.header.is_entry:
        return ()
    return (*_grid(routine), *_lifetime(routine))


def _with(routine: Routine, effect: str) -> list[int]:
    flow = control_flow(routine)
    return [i for i, _ in matching(routine, lambda bound: effect in bound.effects) if flow.block_of[i] in flow.reachable]


def _grid(routine: Routine) -> Iterator[Finding]:
    launches, waits = _with(routine, LAUNCHES), _with(routine, WAITS)
    accessed = [access for access in accesses(routine) if access.space == ".global" and access.address is not None]
    own = {_pointer(one) for one in accessed if one.writes} - {None}
    # if a kernel declares some memory constant, other memory that it reads may be written by another grid
    distinguishes = any(_is_constant(routine, one) for one in accessed)
    if launches and not waits:
        reads = [one for one in accessed if one.memory.access == "read" and not one.memory.is_async and not _is_constant(routine, one)]
        reads = [one for one in reads if distinguishes or _pointer(one) in own]
        if reads:
            message = "a grid that this one depends on may still write this: the kernel does not wait for it, and grids may start early"
            steps_ = ((launches[0], "grids that depend on this one may start here"),)
            yield Finding(reads[0].instruction, message, steps_, kind=GridFault.GRIDDEPCONTROL_MISSING_WAIT)
        return
    if not waits:
        return
    waited = [one for one in accessed if any(comes_to(routine, i, one.instruction) for i in waits)]
    after = {pointer for one in waited if (pointer := _pointer(one)) is not None}
    for one in accessed:
        late = [i for i in waits if comes_to(routine, one.instruction, i) and _have_one_thread(routine, one.instruction, i)]
        if any(comes_to(routine, i, one.instruction) for i in waits) or not late:
            continue
        pointer = _pointer(one)
        if pointer is None or _is_constant(routine, one):
            continue
        if one.writes or pointer in own or (distinguishes and one.memory.access == "read" and pointer not in after):
            wait = late[0]
            message = "this accesses global memory before griddepcontrol.wait: a grid that this one depends on may still be writing it"
            yield Finding(one.instruction, message, ((wait, "waited for here"),), kind=GridFault.GRIDDEPCONTROL_ACCESS_BEFORE_WAIT)
            return


def _have_one_thread(routine: Routine, one: int, other: int) -> bool:
    """Whether one thread may execute both instructions: warps with other tasks need not wait if one warp does."""
    reach = uniformity(routine).reach
    return bool(reach.instruction(one).ever & reach.instruction(other).ever)


def _is_constant(routine: Routine, access: Access) -> bool:
    bound = bindings(routine)[access.instruction]
    return isinstance(bound, Bound) and (bound.has(".nc") or bool(access.memory.proxy))


def _pointer(access: Access) -> Term | None:
    """The pointer parameter that an address is based on."""
    assert access.address is not None
    found = [atom for atom, factor in access.address.linear[1] if atom.operator == "parameter" and factor == 1 and atom.width == 64]
    return found[0] if len(found) == 1 else None


def _lifetime(routine: Routine) -> Iterator[Finding]:
    """Accesses to shared memory of another CTA from which some path leaves the kernel without waiting for the others."""
    ranks = cluster_size(routine)
    if ranks is None or ranks < 2:
        return
    flow = control_flow(routine)
    stops = {i for i, own in steps(routine).items() if any(step.does in (Does.CLUSTER_WAIT, Does.ARRIVE) for step in own)}
    by_block: dict[int, list[int]] = {}
    for i in stops:
        by_block.setdefault(flow.block_of[i], []).append(i)
    for access in accesses(routine):
        i = access.instruction
        if not reads_remote(routine, i) or access.memory.is_async:
            continue
        path = _exit(routine, i, by_block)
        if path is not None:
            message = (
                "the other CTA may have exited before its shared memory is accessed: no cluster barrier follows on the path to the end"
            )
            yield Finding(path, message, ((i, "accessed here"),), kind=GridFault.DSMEM_OWNER_MAY_EXIT)
            return


def _exit(routine: Routine, start: int, stops: dict[int, list[int]]) -> int | None:
    """The end of a path from an instruction out of the function that passes none of the stops."""
    flow = control_flow(routine)
    block = flow.block_of[start]
    if any(i > start for i in stops.get(block, ())):
        return None
    onward = nearest_first([block], lambda at: [to for to in flow.successors(at) if to not in stops])
    return next((flow.blocks[at].end - 1 for at in onward if flow.blocks[at].leaves in ("return", "exit")), None)
