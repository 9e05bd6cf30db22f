"""What the instructions of a function do to barriers, mbarriers and shared memory, as steps of one kind each.

An instruction may have several steps: `mbarrier.arrive.expect_tx` adds expect-tx bytes, then arrives. The effects come from the instruction
table.
"""

from __future__ import annotations

import enum

from ptxkit.analyses.cfg.graph import Callees, Via, callees, calls, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.framework.bindings import bindings, such
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand

MBARRIER = "mbarrier"
SHARED = ".shared"
TENSOR_CORES = "tcgen05"
LEAST_BYTES = 16
"""Minimum bytes that a copy or a tensor core accesses."""
MOST_STEPS = 20000
"""Functions with more steps than this are not analyzed."""


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
    FENCE = "fence"
    """Orders memory beyond the CTA."""
    JOIN = "join"
    """Reconverges the threads of a warp."""
    READ = "read"
    WRITE = "write"
    FETCH = "fetch"
    """Reads a value that decides which path threads take, or which location they use."""
    STORE = "store"
    """Writes values that may be fetched."""
    RELEASE = "give registers"
    TAKE = "take registers"
    """Waits until the CTA has enough spare registers; `amount` is the number per thread afterwards."""


SYNCHRONIZES = frozenset(Does) - {Does.READ, Does.WRITE, Does.FENCE, Does.FETCH, Does.STORE}
ON_MBARRIERS = frozenset((Does.INIT, Does.INVAL, Does.EXPECT, Does.ARRIVE, Does.WAIT, Does.COPY))
_FENCES = frozenset(("fence", "init-fence"))


@frozen(eq=False)
class Step:
    """One effect of an instruction."""

    instruction: int
    does: Does
    address: Term | None = None
    """The address of the mbarrier or of the memory; for a barrier, its number."""
    amount: Term | None = None
    """The count of an init, an arrival or a barrier; the expect-tx bytes; the parity of a wait; the mask of a join."""
    times: int = 1
    """The number of arrivals, if `amount` does not give it; 0 for an arrival that also raised the mbarrier's pending count."""
    target: Term | None = None
    """The destination of a copy."""
    bytes: int | None = None
    """Bytes accessed, if known."""
    least: int = LEAST_BYTES
    """Minimum bytes accessed."""
    is_multicast: bool = False
    """Whether mbarriers of several CTAs may be signalled."""
    mask: Term | None = None
    """With multicast, the CTAs whose mbarrier at the same offset is signalled, as a bit mask."""
    is_everywhere: bool = False
    """Whether all CTAs of the cluster are signalled, if the size of the cluster is known."""
    is_request: bool = False
    """Whether the data copied is the response to a request for another cluster's work."""
    pairs: Term | None = None
    """If not `mask`: the destination CTAs; in each pair, the CTA that the address names is signalled (9.7.10.27.5.2)."""
    map: Term | None = None
    """The tensor map that determines the bytes of a copy."""
    is_spinning: bool = False
    """Whether a wait is repeated until it succeeds."""
    by_state: bool = False
    """Whether a wait is for the phase of the thread's last arrival."""
    may_complete: bool = True
    """Whether an arrival may complete the phase."""
    drops: bool = False
    is_descriptor: bool = False
    """Whether the address is a matrix descriptor."""
    is_collective: bool = False
    """Whether an access is made by an operation that the threads start, not by the threads themselves."""
    is_relaxed: bool = False
    """Whether an arrival at the cluster barrier publishes only the memory that an earlier fence covers."""
    lanes: int = 0
    """The number of lanes of a warp whose address counts; 0 for all."""
    is_plain: bool = True
    """Whether an access has no ordering semantics: two such accesses by different threads must be synchronized."""


@fact
def steps(routine: Routine) -> dict[int, tuple[Step, ...]]:
    """The steps of a function, by instruction."""
    found: dict[int, list[Step]] = {}
    blocks = control_flow(routine)
    spinning = spins(routine)
    for i, bound in such(routine, _is_step):
        if blocks.block_of[i] not in blocks.reachable:
            continue
        if bound.barrier or bound.completes:
            own = _of_barriers(routine, i, bound, i in spinning)
            if own:
                found[i] = own
        elif "setmaxnreg" in bound.effects:
            does = Does.TAKE if bound.has(".inc") else Does.RELEASE
            found[i] = [Step(i, does, amount=term_of(routine, i, bound.operand("count")))]
        elif _FENCES & set(bound.effects) and not bound.has(".cta"):
            found[i] = [Step(i, Does.FENCE)]
        elif bound.converges is not None and bound.converges.level == "warp":
            found[i] = [Step(i, Does.JOIN, amount=term_of(routine, i, bound.members))]
    for access in accesses(routine):
        step = _of_access(routine, access)
        if step is not None:
            found.setdefault(access.instruction, []).insert(0, step)
    for i, bound in such(routine, lambda bound: bound.converges is not None and bound.converges.level == "warpgroup"):
        for memory in bound.memory:
            operand = bound.operand(memory.operand)
            if memory.is_async and operand is not None and operand.role == "r" and operand.name != "a":
                step = Step(i, Does.READ, term_of(routine, i, operand), bytes=LEAST_BYTES, is_descriptor=True, is_collective=True)
                found.setdefault(i, []).append(step)
    return {i: tuple(own) for i, own in sorted(found.items())}


def _is_step(bound: Bound) -> bool:
    """Whether instructions of a form affect barriers, registers or other threads (apart from memory)."""
    if bound.barrier or bound.completes or "setmaxnreg" in bound.effects or not _FENCES.isdisjoint(bound.effects):
        return True
    return bound.converges is not None and bound.converges.level == "warp"


@fact
def launched_steps(routine: Routine) -> dict[int, tuple[Step, ...]]:
    """The steps, including reads by tensor cores through descriptors; locating those needs the values of a launch."""
    found = dict(steps(routine))
    blocks = control_flow(routine)
    for i, bound in such(routine, lambda bound: any(word.group == TENSOR_CORES for word in bound.asynchronous)):
        if blocks.block_of[i] not in blocks.reachable:
            continue
        for memory in bound.memory:
            operand = bound.operand(memory.operand)
            if memory.is_async and memory.proxy == "async" and memory.access == "read" and operand is not None and operand.role == "r":
                step = Step(i, Does.READ, term_of(routine, i, operand), bytes=LEAST_BYTES, is_descriptor=True, is_collective=True)
                found[i] = (*found.get(i, ()), step)
    return dict(sorted(found.items()))


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
            found.append(Step(i, Does.CLUSTER_ARRIVE, is_relaxed=bound.has(".relaxed")))
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
            completes = not bound.has(".noComplete")
            count = term_of(routine, i, bound.operand("count"))
            drops = bound.has(".arrive_drop")
            found.append(Step(i, Does.ARRIVE, address, count, is_multicast=multicast, may_complete=completes, drops=drops))
        elif action == "wait":
            parity = bound.operand("parity")
            found.append(Step(i, Does.WAIT, address, term_of(routine, i, parity), is_spinning=is_spinning, by_state=parity is None))
    return found


def _of_completion(routine: Routine, i: int, bound: Bound) -> list[Step]:
    word = next((word for word in bound.completes if word.mechanism == MBARRIER), None)
    operand = bound.operand(word.what) if word is not None else None
    if operand is None:
        return []
    address = term_of(routine, i, operand)
    mask = term_of(routine, i, bound.operand("mask"))
    pairs: Term | None = None
    multicast = bound.operand("mask") is not None
    if any(one.action == "commit" for one in bound.asynchronous):
        return [Step(i, Does.ARRIVE, address, is_multicast=multicast, mask=mask)]
    if multicast and bound.slot(".cta_group") == ".cta_group::2":
        # which mbarrier of the CTA pair is signalled depends on its address
        mask, pairs = None, mask
    writes = (one for one in accesses_of(routine, i) if one.writes and one.memory.is_async and one.memory.operand != operand.name)
    written = next(writes, None)
    size: BoundOperand | None = bound.operand("size") or bound.operand("tx")
    term = term_of(routine, i, size)
    # only the tensor map gives the bytes of a tensor copy
    map_ = term_of(routine, i, bound.operand("map"))
    count = term.constant if term is not None else written.bytes if written is not None and bound.operand("map") is None else None
    # a byte count that is not constant is known on a path only
    amount = term if count is None else None
    target = written.address if written is not None else None
    return [
        Step(
            i,
            Does.COPY,
            address,
            amount,
            target=target,
            bytes=count,
            is_multicast=multicast,
            mask=mask,
            pairs=pairs,
            map=map_,
            is_everywhere=bound.has(".multicast::cluster::all"),
            is_request="launch-control" in bound.effects,
        )
    ]


def accesses_of(routine: Routine, i: int) -> tuple[Access, ...]:
    """The accesses of an instruction."""
    return _by_instruction(routine).get(i, ())


@fact
def _by_instruction(routine: Routine) -> dict[int, tuple[Access, ...]]:
    found: dict[int, list[Access]] = {}
    for access in accesses(routine):
        found.setdefault(access.instruction, []).append(access)
    return {i: tuple(own) for i, own in found.items()}


def _of_access(routine: Routine, access: Access) -> Step | None:
    """An access to shared memory that is complete, or at least issued, when the instruction is."""
    bound = bindings(routine)[access.instruction]
    if access.space != SHARED or access.address is None or not isinstance(bound, Bound):
        return None
    if any(word.operand == access.memory.operand for word in bound.barrier):
        return None
    if any(word.mechanism == MBARRIER for word in bound.completes) and access.memory.is_async and access.writes:
        return None
    if access.memory.is_async and access.writes:
        # the groups of cp.async have their own rules
        return None
    plain = access.memory.order.lstrip(".") in ("", "weak") and "volatile" not in bound.effects
    if access.memory.access == "readwrite":
        plain = False
    does = Does.WRITE if access.writes else Does.READ
    size = access.bytes or access.least or None
    shared = access.memory.proxy == "async"
    return Step(access.instruction, does, access.address, bytes=size, lanes=access.lanes, is_plain=plain, is_collective=shared)


@fact
def spins(routine: Routine) -> frozenset[int]:
    """The mbarrier waits that are repeated until they succeed, with no observable effect in between."""
    flow = control_flow(routine)
    waits = [i for i, _ in such(routine, _is_mbarrier_wait) if flow.block_of[i] in flow.reachable]
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
        if inner in by_name and any(step.does in SYNCHRONIZES for own in steps(by_name[inner]).values() for step in own):
            return False
    return True


@fact
def _functions(routine: Routine) -> dict[str, Routine]:
    """The functions that can be called, by name."""
    return {one.name: one for one in routine.siblings}
