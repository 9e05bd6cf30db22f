"""What the instructions of a function do to barriers and mbarriers, as steps of one kind each.

An instruction may have several steps: `mbarrier.arrive.expect_tx` adds expect-tx bytes, then arrives. The effects come from the instruction
table.
"""

from __future__ import annotations

import enum

from ptxkit.analyses.cfg.graph import Callees, Via, callees, calls, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses_of
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

MBARRIER = "mbarrier"
LEAST_BYTES = 16
"""Minimum bytes that a copy or a tensor core accesses."""


class Does(enum.Enum):
    """What a step does."""

    # members are singletons: the hash of `enum` doubles the cost of a lookup
    __hash__ = object.__hash__

    INIT = "init"
    INVAL = "inval"
    EXPECT = "expect"
    ARRIVE = "arrive"
    WAIT = "wait"
    COPY = "copy"
    """Starts an operation that signals its bytes to an mbarrier when it completes; if it writes shared memory, `target` is the address."""
    BARRIER_SYNC = "sync"
    BARRIER_ARRIVE = "barrier arrive"
    CLUSTER_ARRIVE = "cluster arrive"
    CLUSTER_WAIT = "cluster wait"
    JOIN = "join"
    """Reconverges the threads of a warp."""
    RELEASE = "give registers"
    TAKE = "take registers"
    """Waits until the CTA has enough spare registers; `amount` is the number per thread afterwards."""


ON_MBARRIERS = frozenset((Does.INIT, Does.INVAL, Does.EXPECT, Does.ARRIVE, Does.WAIT, Does.COPY))


@frozen(eq=False)
class Step:
    """One effect of an instruction."""

    instruction: int
    does: Does
    address: Term | None = None
    """The address of the mbarrier; for a barrier, its number."""
    amount: Term | None = None
    """The count of an init, an arrival or a barrier; the expect-tx bytes; the parity of a wait; the mask of a join."""
    times: int = 1
    """The number of arrivals, if `amount` does not give it; 0 for an arrival that also raised the mbarrier's pending count."""
    target: Term | None = None
    """The destination of a copy."""
    bytes: int | None = None
    """The bytes of a copy, if constant."""
    is_multicast: bool = False
    """Whether mbarriers of several CTAs may be signalled."""
    map: Term | None = None
    """The tensor map that determines the bytes of a copy."""
    is_spinning: bool = False
    """Whether a wait is repeated until it succeeds."""
    by_state: bool = False
    """Whether a wait is for the phase of the thread's last arrival."""
    drops: bool = False
    """Whether an arrival lowers the expected arrival count of later phases."""


@fact
def steps(routine: Routine) -> dict[int, tuple[Step, ...]]:
    """The steps of a function, by instruction."""
    found: dict[int, list[Step]] = {}
    blocks = control_flow(routine)
    spinning = spins(routine)
    for i, bound in matching(routine, _is_step):
        if blocks.block_of[i] not in blocks.reachable:
            continue
        if bound.barrier or bound.completes:
            own = _of_barriers(routine, i, bound, i in spinning)
            if own:
                found[i] = own
        elif "setmaxnreg" in bound.effects:
            does = Does.TAKE if bound.has(".inc") else Does.RELEASE
            found[i] = [Step(i, does, amount=term_of(routine, i, bound.operand("count")))]
        elif bound.converges is not None and bound.converges.level == "warp":
            found[i] = [Step(i, Does.JOIN, amount=term_of(routine, i, bound.members))]
    return {i: tuple(own) for i, own in found.items()}


def _is_step(bound: Bound) -> bool:
    """Whether instructions of a form affect barriers, registers or other threads (apart from memory)."""
    if bound.barrier or bound.completes or "setmaxnreg" in bound.effects:
        return True
    return bound.converges is not None and bound.converges.level == "warp"


def _of_barriers(routine: Routine, i: int, bound: Bound, is_spinning: bool) -> list[Step]:
    actions = [word.action for word in bound.barrier]
    name = next((word.operand for word in bound.barrier if word.operand), "")
    operand = bound.operand(name) if name else None
    if bound.completes and operand is None:
        return _of_completion(routine, i, bound)
    if bound.members is not None:
        return [Step(i, Does.JOIN, amount=term_of(routine, i, bound.members))]
    if operand is None:
        found = []
        if "arrive" in actions:
            found.append(Step(i, Does.CLUSTER_ARRIVE))
        if "wait" in actions:
            found.append(Step(i, Does.CLUSTER_WAIT))
        return found
    address = term_of(routine, i, operand)
    if operand.role != "addr":
        does = Does.BARRIER_SYNC if "wait" in actions else Does.BARRIER_ARRIVE
        return [Step(i, does, address, term_of(routine, i, bound.threads))]
    multicast = bound.operand("mask") is not None
    if any(word.mechanism == MBARRIER for word in bound.completes):
        # the completion of earlier copies arrives; without .noinc, the pending count is raised by one for it
        return [Step(i, Does.ARRIVE, address, times=int(bound.has(".noinc")))]
    found = []
    for action in actions:
        if action == "init":
            found.append(Step(i, Does.INIT, address, term_of(routine, i, bound.operand("count"))))
        elif action == "inval":
            found.append(Step(i, Does.INVAL, address))
        elif action == "expect":
            found.append(Step(i, Does.EXPECT, address, term_of(routine, i, bound.operand("tx")), is_multicast=multicast))
        elif action == "arrive":
            count = term_of(routine, i, bound.operand("count"))
            drops = bound.has(".arrive_drop")
            found.append(Step(i, Does.ARRIVE, address, count, is_multicast=multicast, drops=drops))
        elif action == "wait":
            parity = bound.operand("parity")
            found.append(Step(i, Does.WAIT, address, term_of(routine, i, parity), is_spinning=is_spinning, by_state=parity is None))
    return found


def _of_completion(routine: Routine, i: int, bound: Bound) -> list[Step]:
    word = next((word for word in bound.completes if word.mechanism == MBARRIER), None)
    operand = bound.operand(word.what) if word is not None else None
    if operand is None:
        return []
    address, multicast = term_of(routine, i, operand), bound.operand("mask") is not None
    if any(one.action == "commit" for one in bound.asynchronous):
        return [Step(i, Does.ARRIVE, address, is_multicast=multicast)]
    writes = (one for one in accesses_of(routine, i) if one.writes and one.memory.is_async and one.memory.operand != operand.name)
    written = next(writes, None)
    target = written.address if written is not None else None
    tensor_map, size = bound.operand("map"), term_of(routine, i, bound.operand("size") or bound.operand("tx"))
    # only its tensor map gives the bytes of a tensor copy
    count = size.constant if size is not None else written.bytes if written is not None and tensor_map is None else None
    return [
        Step(i, Does.COPY, address, target=target, bytes=count, map=term_of(routine, i, tensor_map), is_multicast=multicast),
    ]


@fact
def spins(routine: Routine) -> frozenset[int]:
    """The mbarrier waits that are repeated until they succeed, with no observable effect in between."""
    flow = control_flow(routine)
    waits = [i for i, _ in matching(routine, _is_mbarrier_wait) if flow.block_of[i] in flow.reachable]
    return frozenset([i for i in waits if _has_idle_loop(routine, i) or _comes_back(routine, i)])


def _has_idle_loop(routine: Routine, i: int) -> bool:
    """Whether the innermost loop around a wait has no other observable effect."""
    flow = control_flow(routine)
    forest = loops(routine)
    index = forest.innermost[flow.block_of[i]]
    if index is None:
        return False
    blocks = [flow.blocks[block] for block in bits(forest.loops[index].blocks)]
    return all(_is_idle(routine, j) for block in blocks for j in range(block.start, block.end))


def _comes_back(routine: Routine, i: int) -> bool:
    """Whether every path from a failed wait leads back to it with no observable effect in between."""
    flow = control_flow(routine)
    known = values(routine)
    home = flow.blocks[flow.block_of[i]]
    guard, written = known.guard(home.end - 1), known.written(i)
    if guard is None or not written or not all(_is_idle(routine, j) for j in range(home.start, home.end)):
        return False
    if guard not in (written[0], known.terms.invert(written[0])):
        return False
    no = Via.NOT_TAKEN if guard is written[0] else Via.TAKEN
    starts = [edge.target for edge in home.edges if edge.via is no]
    for at in nearest_first(starts, lambda at: flow.successors(at) if at != home.index else ()):
        block = flow.blocks[at]
        if at == home.index:
            continue
        if block.leaves or not block.successors or not all(_is_idle(routine, j) for j in range(block.start, block.end)):
            return False
    return bool(home.edges)


def _is_idle(routine: Routine, i: int) -> bool:
    """Whether an instruction has no effect that other threads can observe, or is a wait."""
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and (_is_mbarrier_wait(bound) or not (bound.barrier or bound.memory or bound.completes))


def _is_mbarrier_wait(bound: Bound) -> bool:
    """Whether an instruction tests an mbarrier for the completion of a phase."""
    for word in bound.barrier:
        operand = bound.operand(word.operand) if word.operand else None
        if word.action == "wait" and operand is not None and operand.role == "addr":
            return True
    return False


def may_synchronize(routine: Routine, i: int) -> bool:
    """Whether a call may do something that other threads wait for."""
    called = callees(routine, i, routine.instructions[i])
    return not called.names or called.is_indirect or any(not is_quiet(routine, name) for name in called.names)


def is_quiet(routine: Routine, name: str) -> bool:
    """Whether a called function, with its callees, does nothing that other threads wait for; a function without a body counts as quiet."""
    by_name = _functions(routine)

    def called(name: str) -> list[Callees]:
        one = by_name.get(name)
        return [callees(one, i, one.instructions[i]) for i in calls(one)] if one is not None else []

    for inner in nearest_first([name], lambda one: [other for whom in called(one) for other in whom.names]):
        if any(not whom.names or whom.is_indirect for whom in called(inner)):
            return False
        if inner in by_name and steps(by_name[inner]):
            return False
    return True


@fact
def _functions(routine: Routine) -> dict[str, Routine]:
    """The functions that can be called, by name."""
    return {one.name: one for one in routine.siblings}
