"""What goes wrong with mbarriers and shared memory, found by running the traces of a kernel side by side (9.7.14.15, 8.7.1).

A run that comes to a standstill is tried again with one thing put right: the wait of another parity, an mbarrier of another count. What
lets it go on is what was wrong. Only a run of which every trace is known is believed to stand still; a race needs no more than the paths
up to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.steps import ON_MBARRIERS, Does, steps
from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import block_shapes, block_sizes
from ptxkit.analyses.launch.launch import cluster_size
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault, RaceFault
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.simulation import shared_room as room
from ptxkit.analyses.simulation.machine import MOST_ACCESSES, Agent, Fault, Machine, Mbarrier, plain
from ptxkit.analyses.simulation.traces import FEW, NUMBER, Trace, meets_at_barriers_only, traces
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, thread_block_of
from ptxkit.analyses.uniformity.uniformity import Level, uniformity

MOST_CTAS = 4
MOST_INSTRUCTIONS = 20_000
RACE = RaceFault.SMEM_RACE


def _rank(found: tuple[Finding, ...]) -> tuple[bool, int]:
    """How well a number of threads suits a kernel by what is wrong then: where a thread waits for ever, it is those that are not there."""
    return any(one.kind == MbarrierFault.WAIT_NEVER_ARRIVED for one in found), len(found)


@fact
def findings(routine: Routine) -> tuple[Finding, ...]:
    """What is wrong with the mbarriers and the shared memory of a kernel; nothing for other functions.

    Of a kernel that does not say how many threads it is launched with, what is wrong with the number that suits it best, if something is
    with any; or the races of more threads than those with which all is well, if its shared variables were made for them.
    """
    ranks = cluster_size(routine) or 1
    if not _is_worth_it(routine) or ranks > MOST_CTAS:
        return ()
    block = thread_block_of(routine)
    if not block.is_assumed:
        return _Run(routine, ranks, block).found
    best: tuple[Finding, ...] = ()
    sizes = block_sizes(routine)
    if not sizes:
        return _in_two_dimensions(routine) if ranks == 1 else ()
    for threads in sizes:
        run = _Run(routine, ranks, ThreadBlock((threads, 1, 1), True))
        if not run.found:
            return _of_more(routine, threads, run.followed) if ranks == 1 else ()
        if not best or _rank(run.found) < _rank(best):
            best = run.found
    if not best:
        return ()
    tried = [str(threads) for threads in sorted(sizes)]
    note = f"the kernel does not say with how many threads it is launched: something is wrong with {', '.join(tried)}"
    return tuple([attrs.evolve(one, notes=(*one.notes, note)) for one in best])


def _of_more(routine: Routine, few: int, followed: list[Trace]) -> tuple[Finding, ...]:
    """The races of the most threads for which the shared variables have room, if those are for more than a few with which all is well."""
    if not room.variables(routine):
        return ()
    before = room.extents(routine, followed)
    most: _Run | None = None
    for threads in sorted([size for size in block_sizes(routine) if size > few and size % few == 0]):
        run = _Run(routine, 1, ThreadBlock((threads, 1, 1), True))
        extent = room.extents(routine, run.followed)
        if not room.has_room(extent) or extent == before:
            break
        if room.grows(before, extent):
            most = run
    best = most.found if most is not None else ()
    if most is None or not best or any(one.kind != RACE for one in best):
        return ()
    note = (
        f"the kernel does not say with how many threads it is launched: the shared variables have room for {most.block.size}; "
        f"with {few} nothing is wrong"
    )
    return tuple([attrs.evolve(one, notes=(*one.notes, note), is_certain=False) for one in best])


def _in_two_dimensions(routine: Routine) -> tuple[Finding, ...]:
    """The races with each usual shape of a CTA for which the shared variables have room."""
    if not meets_at_barriers_only(routine) or "%tid.z" in specials(routine) or not room.variables(routine):
        return ()
    best: tuple[Finding, ...] = ()
    tried: list[str] = []
    for shape in block_shapes(routine):
        run = _Run(routine, 1, ThreadBlock(shape, True), is_short=True)
        extents = room.extents(routine, run.followed)
        if not extents or not room.has_room(extents):
            continue
        if not run.found or any(one.kind != RACE for one in run.found):
            return ()
        tried.append(f"{shape[0]} x {shape[1]}")
        best = best or run.found
    note = f"the kernel does not say with which shape of block it is launched: this happens with {', '.join(tried)}"
    return tuple([attrs.evolve(one, notes=(*one.notes, note), is_certain=False) for one in best])


class _Run:
    """A run, and what is wrong in it: one with shorter loops, if they iterate too often to come to their end. Judged when asked for."""

    def __init__(self, routine: Routine, ranks: int, block: ThreadBlock, *, is_short: bool = False) -> None:
        self.routine = routine
        self.block = block
        self.followed = traces(routine, ranks, block, FEW if is_short else NUMBER)
        if is_short:
            return
        if ranks == 1 and any(trace.is_cut for trace in self.followed) and meets_at_barriers_only(routine) and not self.found:
            del self.found
            self.followed = traces(routine, ranks, block, FEW)

    @cached_property
    def found(self) -> tuple[Finding, ...]:
        """What is wrong in it."""
        return judged(self.routine, self.followed, self.block)[0]


def judged(
    routine: Routine,
    found: list[Trace],
    block: ThreadBlock,
    registers: int = 0,
    accessed: int = MOST_ACCESSES,
    outcomes: Sequence[int] = (),
    end: float = math.inf,
    is_given: bool = False,
) -> tuple[tuple[Finding, ...], Machine]:
    """What is wrong in a run of these traces, and the run; `is_given` if the numbers of the launch are."""
    is_doubtful = any(trace.is_doubtful for trace in found)
    machine = Machine(found, registers=registers, accessed=accessed, races=not is_doubtful, outcomes=outcomes, end=end)
    machine.run()
    judge = _Judge(routine, found, block, is_given)
    # of a run that some leave early by the numbers it is launched with, all that is believed is that nobody comes as far as that
    return judge.standstill(machine) if is_doubtful else judge.findings(machine), machine


def _is_worth_it(routine: Routine) -> bool:
    if not routine.function.header.is_entry or len(routine.instructions) > MOST_INSTRUCTIONS:
        return False
    does = {step.does for own in steps(routine).values() for step in own}
    if does & ON_MBARRIERS:
        return True
    # a kernel that does not look at the index of a thread may be meant for one
    return Does.WRITE in does and (not thread_block_of(routine).is_assumed or any(name.startswith("%tid") for name in specials(routine)))


@attrs.define
class _Judge:
    routine: Routine
    traces: list[Trace]
    block: ThreadBlock
    is_given: bool
    """Whether the numbers of the launch are given, and not supposed."""
    found: dict[tuple[str, int], Finding] = attrs.field(factory=dict)

    def findings(self, machine: Machine) -> tuple[Finding, ...]:
        faults = list(machine.faults.values())
        self._usages(faults)
        self._uses(machine)
        if not self.found:
            self._crowds(faults)
        if not self.found and machine.stuck:
            self._standstill(machine)
        if not self.found:
            self._phases(faults, machine)
        if not self.found:
            self._races(faults, machine)
        return tuple(self.found.values())

    def standstill(self, machine: Machine) -> tuple[Finding, ...]:
        """A wait that never ends, if all come to a standstill."""
        waiting = [(agent, mbarrier) for agent in machine.stuck for mbarrier in self._awaited(machine, agent)]
        if waiting and not machine.faults:
            self._no_arrival(machine, *waiting[0])
        return tuple(self.found.values())

    def _report(self, rule: str, instruction: int, message: str, steps_: list[tuple[int, str]], is_certain: bool = True) -> None:
        where = [(i, what) for i, what in steps_ if i >= 0 and i != instruction]
        self.found.setdefault((rule, instruction), Finding(instruction, message, tuple(where), is_certain, kind=rule))

    def _name(self, who: tuple[int, int]) -> str:
        name = self.block.name(who[1])
        return name if len({trace.rank for trace in self.traces}) == 1 else f"{name} of CTA {who[0]}"

    # --- how mbarriers live

    def _usages(self, faults: list[Fault]) -> None:
        for fault in faults:
            if fault.kind == "unpublished" and not any(key[0] == MbarrierFault.MBARRIER_INIT_NOT_PUBLISHED for key in self.found):
                who, owner = self._name(fault.one), self._name(fault.two)
                message = f"{who} uses the mbarrier, and nothing makes it wait until {owner} has initialized it"
                self._report(MbarrierFault.MBARRIER_INIT_NOT_PUBLISHED, fault.instruction, message, [(fault.other, "initialized here")])
            elif fault.kind == "unfenced":
                message = "this may precede the initialization of the mbarrier: the cluster barrier is relaxed, with no fence.mbarrier_init"
                self._report(MbarrierFault.MBARRIER_INIT_FENCE, fault.instruction, message, [(fault.other, "initialized here")])
            elif fault.kind == "completing":
                message = "this arrival may not complete a phase, and it does"
                self._report(MbarrierFault.NO_COMPLETE_COMPLETES_PHASE, fault.instruction, message, [(fault.other, "initialized here")])
            elif fault.kind == "again":
                message = "the mbarrier is initialized again while it is in use"
                self._report(MbarrierFault.MBARRIER_DOUBLE_INIT, fault.instruction, message, [(fault.other, "first here")])
            elif fault.kind == "invalid":
                self._report(
                    MbarrierFault.MBARRIER_STORAGE_REUSE,
                    fault.instruction,
                    "the mbarrier was made invalid before",
                    [(fault.other, "initialized here")],
                )
            elif fault.kind == "overwritten":
                message = f"{self._name(fault.one)} writes over an mbarrier that was not made invalid"
                self._report(MbarrierFault.MBARRIER_STORAGE_REUSE, fault.instruction, message, [(fault.other, "initialized here")])

    def _uses(self, machine: Machine) -> None:
        """mbarriers that nobody initializes, though threads both arrive and wait there; and such as bytes are signalled to that they do not
        expect."""
        if any(trace.is_lost for trace in self.traces):
            return
        used: dict[int, dict[Does, int]] = {}
        for trace in self.traces:
            for event in trace.events:
                if event.step.does in ON_MBARRIERS and event.address is not None:
                    for address in event.address:
                        used.setdefault(plain(address), {}).setdefault(event.step.does, event.step.instruction)
        for address, does in used.items():
            if Does.WAIT not in does or not does.keys() & {Does.ARRIVE, Does.EXPECT}:
                continue
            if Does.INIT not in does and address not in machine.mbarriers:
                self._report(
                    MbarrierFault.MBARRIER_USE_BEFORE_INIT,
                    min(does.values()),
                    "the mbarrier is never initialized",
                    [(does[Does.WAIT], "waited at here")],
                )
            elif Does.COPY in does and Does.EXPECT not in does and Does.ARRIVE in does:
                message = "the bytes of this copy are counted by an mbarrier that is never set to expect any"
                self._report(
                    MbarrierFault.TX_WITHOUT_EXPECT,
                    does[Does.COPY],
                    message,
                    [(does[Does.ARRIVE], "arrived at here"), (does[Does.WAIT], "waited at here")],
                )

    # --- arrivals

    def _crowds(self, faults: list[Fault]) -> None:
        for fault in faults:
            if fault.kind == "crowd":
                arrivals, count, threads = fault.numbers
                if threads == 1:
                    # somebody saw to it that one thread arrives: rather than that, the count is wrong
                    message = f"at least {arrivals} arrivals come in one phase, and the mbarrier expects {count}"
                    self._report(MbarrierFault.MBARRIER_ARRIVE_COUNT, fault.other, message, [(fault.instruction, "arrived at here")])
                    continue
                message = f"at least {arrivals} arrivals come from here in one phase, and the mbarrier expects {count}"
                self._report(
                    MbarrierFault.MBARRIER_ARRIVE_COUNT, fault.instruction, message, [(fault.other, f"initialized for {count} here")]
                )

    def _standstill(self, machine: Machine) -> None:
        waiting = [(agent, mbarrier) for agent in machine.stuck for mbarrier in self._awaited(machine, agent)]
        if not waiting:
            return
        for agent, mbarrier in waiting:
            if not mbarrier.pending and mbarrier.expected:
                if self.is_given or not self._is_up_to_launch(mbarrier):
                    self._bytes(agent, mbarrier)
                return
        for agent, mbarrier in waiting:
            if not self._sites(mbarrier.address):
                self._no_arrival(machine, agent, mbarrier)
                return
        for agent, mbarrier in waiting:
            arrived = mbarrier.count - mbarrier.pending
            if 0 < arrived < mbarrier.count and self._is_cured({}, self._all_same(machine, mbarrier, arrived)):
                message = (
                    f"the mbarrier expects {mbarrier.count} arrivals in each phase, and {arrived} come: "
                    f"{self._name((agent.trace.rank, agent.threads[0]))} deadlocks"
                )
                arrivals = [(i, "arrives here") for _, i in mbarrier.arrivals[:1]]
                self._report(MbarrierFault.MBARRIER_ARRIVE_COUNT, mbarrier.init, message, [*arrivals, (self._at(agent), "waits here")])
                return
        for agent, mbarrier in waiting:
            i = self._at(agent)
            if self._is_cured({i: True}, {}):
                name = self._name((agent.trace.rank, agent.threads[0]))
                message = f"{name} waits for a phase of the other parity than the one that comes next: it deadlocks"
                self._report(MbarrierFault.MBARRIER_PARITY, i, message, [(mbarrier.init, "initialized here")])
                return
        for agent, mbarrier in waiting:
            if mbarrier.phase > 0 and mbarrier.phase > agent.seen.get(mbarrier.address, -1) + 1:
                name = self._name((agent.trace.rank, agent.threads[0]))
                parity = mbarrier.phase - 1 & 1
                last = agent.waits.get(mbarrier.address, -1)
                message = f"phase {mbarrier.phase - 1}, of parity {parity}, has completed and is not the one {name} waits for: it deadlocks"
                self._report(
                    MbarrierFault.MBARRIER_PARITY,
                    self._at(agent),
                    message,
                    [(mbarrier.init, "initialized here"), (last, "waited last here")],
                )
                return
        agent, mbarrier = waiting[0]
        self._no_arrival(machine, agent, mbarrier)

    def _is_up_to_launch(self, mbarrier: Mbarrier) -> bool:
        """Whether parameters say how many bytes are expected: of numbers that were only supposed, others may not fit them."""
        amounts = [step.amount for step in steps(self.routine).get(mbarrier.expects, ()) if step.does is Does.EXPECT]
        return any(leaf.operator == "parameter" for amount in amounts if amount is not None for leaf in amount.leaves())

    def _bytes(self, agent: Agent, mbarrier: Mbarrier) -> None:
        name = self._name((agent.trace.rank, agent.threads[0]))
        if mbarrier.expected > 0:
            what = f"{mbarrier.expected} bytes more are expected than are copied"
        else:
            what = f"{-mbarrier.expected} bytes more are copied than are expected"
        message = f"{what} in one phase of the mbarrier: {name} deadlocks"
        at = mbarrier.expects if mbarrier.expects >= 0 else mbarrier.copies
        self._report(MbarrierFault.EXPECT_TX_VS_BYTES, at, message, [(mbarrier.copies, "copied here"), (self._at(agent), "waits here")])

    def _no_arrival(self, machine: Machine, agent: Agent, mbarrier: Mbarrier) -> None:
        name = self._name((agent.trace.rank, agent.threads[0]))
        message = f"{name} deadlocks here: no arrival completes the phase of the mbarrier"
        self._report(
            MbarrierFault.WAIT_NEVER_ARRIVED, self._at(agent), message, [(mbarrier.init, f"initialized for {mbarrier.count} arrivals here")]
        )

    def _at(self, agent: Agent) -> int:
        return agent.trace.events[agent.at].step.instruction

    def _awaited(self, machine: Machine, agent: Agent) -> list[Mbarrier]:
        """The mbarriers at which an agent stands still."""
        event = agent.event
        if event is None or event.step.does is not Does.WAIT or event.address is None:
            return []
        addresses = event.address if len(event.address) == 1 else [event.address[index] for index in agent.positions]
        found = [machine.mbarriers.get(plain(address)) for address in dict.fromkeys(addresses)]
        return [one for one in found if one is not None]

    def _sites(self, address: int) -> set[int]:
        """The instructions that arrive at an mbarrier in any of the traces."""
        found = set()
        for trace in self.traces:
            for event in trace.events:
                if event.step.does is Does.ARRIVE and event.address is not None and any(plain(one) == address for one in event.address):
                    found.add(event.step.instruction)
        return found

    def _all_same(self, machine: Machine, mbarrier: Mbarrier, count: int) -> dict[int, int]:
        """Another count for an mbarrier and for all that the same instructions arrive at."""
        sites = self._sites(mbarrier.address)
        return {one.init: count for one in machine.mbarriers.values() if one.count == mbarrier.count and self._sites(one.address) == sites}

    def _is_cured(self, flips: dict[int, bool], counts: dict[int, int]) -> bool:
        machine = Machine(self.traces, flips, counts, races=False)
        machine.run()
        return not machine.stuck and not any(fault.kind in ("crowd", "excess", "stale") for fault in machine.faults.values())

    def _phases(self, faults: list[Fault], machine: Machine) -> None:
        for fault in faults:
            if fault.kind == "stale":
                message = (
                    f"{self._name(fault.one)} arrived for another phase since it waited last, and this wait is over at once: "
                    "it is for the phase before"
                )
                self._report(MbarrierFault.MBARRIER_PARITY, fault.instruction, message, [(fault.other, "waited for the same phase here")])

    # --- races

    def _races(self, faults: list[Fault], machine: Machine) -> None:
        for fault in faults:
            kind = fault.kind
            asked = self._asked(fault, machine)
            if asked is not None and kind.split()[0] in ("unwaited", "race"):
                message = "this only asks whether the phase has completed; if it has not, the thread goes on to what the mbarrier guards"
                self._report(
                    MbarrierFault.TRY_WAIT_NOT_RETRIED,
                    asked,
                    message,
                    [(fault.other, "the other access"), (fault.instruction, "not waited for here")],
                )
                return
            if kind.startswith("unwaited "):
                does = "writes over" if kind == "unwaited write" else "reads"
                message = f"{self._name(fault.one)} {does} what an asynchronous copy writes, and has not waited at the mbarrier of the copy"
                self._report(MbarrierFault.ASYNC_DATA_READ_WITHOUT_WAIT, fault.instruction, message, [(fault.other, "copied here")])
            elif kind.startswith("too early "):
                waited = fault.numbers[1]
                message = (
                    f"this wait of {self._name(fault.one)} is for a phase that has completed before: "
                    "the next copy is still in flight when it is over"
                )
                self._report(
                    MbarrierFault.MBARRIER_PARITY, waited, message, [(fault.other, "copied here"), (fault.instruction, "accessed here")]
                )
        if self.found:
            return
        for fault in faults:
            if fault.kind.startswith("race refill"):
                self._refill(fault, machine)
        if self.found:
            return
        for fault in faults:
            if fault.kind.startswith("race ") and "refill" not in fault.kind and not self._is_same(fault, machine):
                self._race(fault, machine)

    def _asked(self, fault: Fault, machine: Machine) -> int | None:
        """The instruction by which one of two threads asked for a phase that it had to wait for."""
        for rank, thread in (fault.one, fault.two):
            for agent in machine.agents:
                if agent.trace.rank == rank and thread in agent.threads:
                    for address, i in agent.peeks.items():
                        if address not in agent.waits:
                            return i
        return None

    def _refill(self, fault: Fault, machine: Machine) -> None:
        reader, issuer = machine.agents[fault.numbers[0]], machine.agents[fault.numbers[2]]
        who, other = self._name(fault.two), self._name(fault.one)
        arrive = self._release_before(reader, fault.numbers[1], issuer)
        last = max(issuer.waits.values(), default=-1)
        if arrive is None:
            if last < 0:
                return
            message = f"{other} copies into what {who} reads: it waits for a phase that has completed long before"
            self._report(MbarrierFault.MBARRIER_PARITY, last, message, [(fault.other, "read here"), (fault.instruction, "copied here")])
            return
        at = arrive if arrive >= 0 else fault.instruction
        message = f"what {who} reads is given free before it has been read: {other} may copy into it at the same time"
        self._report(
            MbarrierFault.SLOT_RELEASED_BEFORE_LAST_READ, at, message, [(fault.other, "read here"), (fault.instruction, "copied here")]
        )

    def _release_before(self, reader: Agent, time: int, issuer: Agent) -> int | None:
        """The arrival by which what an agent reads is given free too early; None if its own comes in time, -1 if there is none."""
        for event in reader.trace.events[time:]:
            if self._is_release(event.step.does, event.address, reader, issuer):
                before = [one for one in reader.trace.events[:time] if one.step.does in (Does.WAIT, Does.ARRIVE)]
                early = before and self._is_release(before[-1].step.does, before[-1].address, reader, issuer)
                return before[-1].step.instruction if early else None
        for trace in self.traces:
            if trace.rank == reader.trace.rank and any(thread // 32 == reader.warp[1] for thread in trace.threads):
                for event in trace.events:
                    if self._is_release(event.step.does, event.address, None, issuer):
                        return event.step.instruction
        return -1

    def _is_release(self, does: Does, address: tuple[int, ...] | None, agent: Agent | None, issuer: Agent) -> bool:
        if does is not Does.ARRIVE or address is None:
            return False
        mine = address if agent is None or len(address) == 1 else [address[index] for index in agent.positions]
        return any(plain(one) in issuer.waits for one in mine)

    def _is_same(self, fault: Fault, machine: Machine) -> bool:
        """Whether both write the same, or may well do so: more lanes of a warp than one write there, or what is written is uniform."""
        if fault.instruction != fault.other or not fault.kind.startswith("race write"):
            return False
        one, two = machine.agents[fault.numbers[0]], machine.agents[fault.numbers[2]]
        if one.warp == two.warp or len(one.threads) > 1 or len(two.threads) > 1:
            return True
        known = uniformity(self.routine)
        uses = [number for number in ssa(self.routine).uses[fault.instruction] if number >= 0]
        return not uses or known.used(uses[-1], control_flow(self.routine).block_of[fault.instruction]) >= Level.CTA

    def _race(self, fault: Fault, machine: Machine) -> None:
        one, two = self._name(fault.one), self._name(fault.two)
        did = {"read": ("reads", "writes"), "write": ("writes", "writes"), "after": ("writes", "reads")}[fault.kind.split()[1]]
        rule = (
            RaceFault.IMPLICIT_WARP_SYNCHRONY
            if fault.kind.endswith("in warp")
            else RaceFault.DSMEM_ACCESS_UNSYNCHRONISED
            if fault.kind.endswith("across")
            else RaceFault.SMEM_RACE
        )
        relaxed = self._relaxed(fault, machine) if rule == RaceFault.DSMEM_ACCESS_UNSYNCHRONISED else None
        if any(key[0] == rule and where[0] == fault.other for key, one_ in self.found.items() for where in one_.steps):
            return
        message = f"{one} {did[0]} what {two} {did[1]}, and nothing orders them"
        where = (fault.other, "written here" if did[1] == "writes" else "read here")
        if relaxed is not None:
            message = f"this arrival orders nothing: {message}"
            self._report(rule, relaxed, message, [where, (fault.instruction, "and accessed here")])
            return
        self._report(rule, fault.instruction, message, [where], is_certain=fault.instruction != fault.other)

    def _relaxed(self, fault: Fault, machine: Machine) -> int | None:
        """The arrival at the barrier of the cluster that orders nothing, by which a thread left what it had accessed."""
        for event in machine.agents[fault.numbers[0]].trace.events[fault.numbers[1] :]:
            if event.step.does is Does.CLUSTER_ARRIVE:
                return event.step.instruction if event.step.is_relaxed else None
        return None
