"""Waits at mbarriers for the wrong phase, and waits whose result is ignored (9.7.14.15).

Monitors of the machine detect the effect: threads that wait forever, or read what a copy has not written. The cause lies in earlier phases,
which `running` tracks in the same launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.running import Ran, run
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.isa.binding import Bound


@fact
def findings(routine: Routine) -> tuple[Finding, ...]:
    """Errors in the waits of a kernel; empty for other functions."""
    if not routine.function.header.is_entry:
        return ()
    ran = run(routine)
    return (*_ignored(routine), *(_parities(ran) if ran is not None else ()))


def _ignored(routine: Routine) -> Iterator[Finding]:
    """Time-limited waits whose result nothing depends on, before accesses of shared memory or signals to other threads.

    A result that is only stored or returned is not reported, as nothing that the mbarrier guards follows.
    """
    reachable = control_flow(routine).reachable
    guarded = [i for i, bound in matching(routine, _may_be_guarded)]
    for i, bound in matching(routine, lambda bound: any(one.action == "wait" for one in bound.barrier) and bound.writes):
        operand = bound.operand(bound.barrier[0].operand)
        is_object = operand is not None and operand.role == "addr"
        if not is_object or control_flow(routine).block_of[i] not in reachable or _decides(routine, i):
            continue
        if any(comes_to(routine, i, other) for other in guarded):
            message = "this only tests whether the phase has completed; if it has not, the thread continues to what the mbarrier protects"
            yield Finding(i, message, kind=MbarrierFault.TRY_WAIT_NOT_RETRIED)


def _may_be_guarded(bound: Bound) -> bool:
    """Whether an instruction may need a wait: it accesses memory, other than to store a result to global memory, or signals other
    threads."""
    if bound.asynchronous or any(one.action == "arrive" for one in bound.barrier):
        return True
    is_result = bound.has(".global") and all(one.access == "write" and not one.is_async for one in bound.memory)
    return bool(bound.memory) and not is_result and not bound.has(".param") and not bound.has(".local")


def _decides(routine: Routine, i: int) -> bool:
    """Whether control flow, or the execution of instructions, depends on a result of the instruction."""
    flow, numbering = control_flow(routine), ssa(routine)
    waiting = list(numbering.definitions[i])
    seen = set(waiting)
    while waiting:
        number = waiting.pop()
        for reader in numbering.readers[number]:
            instruction = routine.instructions[reader]
            block = flow.block_of[reader]
            is_last = reader == flow.blocks[block].end - 1
            if instruction.guard is not None and not (is_last and len({_onward(routine, one) for one in flow.successors(block)}) == 1):
                return True
            waiting += [one for one in numbering.definitions[reader] if one not in seen]
            seen.update(numbering.definitions[reader])
        for one in numbering.operand_of.get(number, ()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return False


def _onward(routine: Routine, block: int) -> int:
    """The first block from this one on that does more than branch to the next."""
    flow = control_flow(routine)
    seen = set()
    while block not in seen:
        seen.add(block)
        own = [routine.instructions[i] for i in range(flow.blocks[block].start, flow.blocks[block].end)]
        if len(flow.successors(block)) != 1 or any(one.guard is not None or not one.opcode.text.startswith("bra") for one in own):
            break
        block = next(iter(flow.successors(block)))
    return block


def _parities(ran: Ran) -> Iterator[Finding]:
    """Waits for a phase other than the next one."""
    late = {thread: i for thread, i in reversed(ran.late) if i >= 0}
    for use in ran.uses:
        for thread, i in use.stale.items():
            if i >= 0 and thread in late:
                message = (
                    f"thread {thread % ran.threads} waits for a phase of {use.name} that it has already waited for: "
                    "the wait returns immediately, while the next copy is in flight"
                )
                related = ((use.init, "initialized here"), (late[thread], "this accesses what the copy writes"))
                yield Finding(i, message, related, kind=MbarrierFault.MBARRIER_PARITY)
                return
    yield from _standstill(ran)


def _standstill(ran: Ran) -> Iterator[Finding]:
    """Threads that wait forever although they waited for the right phase before."""
    for wait in ran.fault.waits if ran.fault is not None else ():
        i = ran.at.get(getattr(wait.site, "path", ()), -1)
        thread = int(wait.lanes.index[0])
        for use in ran.uses:
            if i in use.blocked and thread in use.blocked[i] and use.completed > use.seen.get(thread, -1) + 1:
                last = use.completed - 1
                message = (
                    f"thread {thread % ran.threads} deadlocks: phase {last} of {use.name}, of parity {last & 1}, has completed, "
                    "and is not the one that it waits for"
                )
                yield Finding(i, message, ((use.init, "initialized here"),), kind=MbarrierFault.MBARRIER_PARITY)
                return
