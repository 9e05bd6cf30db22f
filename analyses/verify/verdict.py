"""Whether a kernel that is launched with certain numbers keeps its protocols: barriers, mbarriers, and the bytes of copies (9.7.14).

All threads of a cluster are followed to their ends, then run side by side, in one order. What is waited for is the same in every order,
but where a wait may come too late for its phase, or bytes may be counted in another phase than in the run: that is looked for. Then one run
that comes to its end proves that all do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Mapping, Sequence

import attrs

from ptxkit.analyses.cfg.graph import callees, control_flow, flow_of
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.events.steps import SHARED, SYNCHRONIZES, Does, Step, is_quiet, launched_steps, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import judged
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.simulation.fetches import CANCELED, COORDINATE, all_fetches
from ptxkit.analyses.simulation.machine import Agent, Machine, Mbarrier, plain
from ptxkit.analyses.simulation.setting import Setting
from ptxkit.analyses.simulation.traces import Key, Trace, Tracer
from ptxkit.analyses.symbolic.terms import Term, spoken
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.verify.tensor_boxes import boxes
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value

VERIFIED, REFUTED, UNDECIDED = "verified", "refuted", "undecided"
KNOWN_EFFECTS = frozenset(
    (
        "alloc",
        "alloca",
        "applypriority",
        "dealloc",
        "discard",
        "fence",
        "grid-launch",
        "grid-wait",
        "init-fence",
        "launch-control",
        "mmio",
        "nanosleep",
        "pmevent",
        "prefetch",
        "proxy-fence-alias",
        "proxy-fence-async",
        "proxy-fence-fabric",
        "proxy-fence-tensormap",
        "relinquish-alloc",
        "setmaxnreg",
        "stackrestore",
        "stacksave",
        "tcgen05-after-thread-sync",
        "tcgen05-before-thread-sync",
        "trap",
        "volatile",
        "wgmma-fence",
    )
)
"""What instructions do besides, of which nobody is made to wait, or of which it is known who is."""
KNOWN_ACTIONS = frozenset(("init", "inval", "expect", "arrive", "wait", "reduce"))
HARMLESS = frozenset(("vprintf", "malloc", "free", "__assertfail"))
"""Functions of the driver that a kernel may call."""
USES = frozenset((Does.WAIT, Does.ARRIVE, Does.EXPECT, Does.COPY))
REGISTERS, STEP, MOST = 65536, 8, 256
MOST_ACCESSES = 2_000_000
WARPGROUP = 4 * WARP
LEAST_TIME = 10.0
"""Seconds that the last run has, however long following took."""
LAST = 40
"""So many steps of a schedule are said."""


@attrs.frozen
class Location:
    """An instruction, and what is said of it."""

    instruction: int
    text: str


@attrs.frozen
class Verdict:
    """What became of a kernel. `reasons` say why it is refuted or undecided, `schedule` what led there, in the order of the run."""

    outcome: str
    reasons: tuple[Location, ...] = ()
    schedule: tuple[Location, ...] = ()
    clusters: int = 0
    """How many clusters of the grid were run; one stands for all that do not look at their index."""
    phases: int = 0
    waits: int = 0
    accessed: int = 0
    """Accesses of shared memory that were compared, in words."""
    has_all_accesses: bool = True
    covered: tuple[int, int] = (0, 0)
    """How many of the instructions that synchronize were come to, and how many there are."""
    come_to: frozenset[int] = frozenset()
    """The instructions that were come to."""
    assumptions: tuple[Location, ...] = ()
    """What was taken for granted besides the launch."""
    boxes: Mapping[str, int] = attrs.field(factory=dict)
    """Where boxes of tensor maps are missing: those with which all that is expected would come."""


@attrs.frozen(eq=False)
class _Run:
    """A cluster that was followed and run."""

    cluster: int
    tracers: list[Tracer]
    found: list[Trace]
    loaded: Mapping[Key, tuple[int, ...]]
    findings: tuple[Finding, ...]
    machine: Machine
    by_chance: bool
    """Whether threads stand still in this order, and not in another."""


def verify(routine: Routine, setting: Setting, budget: float = 300.0) -> Verdict:
    """Follows and runs a kernel that is launched so. `budget` is in seconds. The kernel must say itself how it is launched (`launched`)."""
    registers = start_registers(routine, setting)
    end = time.monotonic() + budget
    phases = waits = accessed = 0
    has_all = True
    clusters = setting.clusters
    assumed: dict[Location, None] = {}
    reached: set[int] = set()
    for cluster in range(setting.clusters):
        if cluster and time.monotonic() > end:
            reason = Location(-1, f"{cluster} of {setting.clusters} clusters were run in {budget:g} s; what they do depends on their place")
            return Verdict(UNDECIDED, (reason,), (), cluster, phases, waits, accessed)
        run = _run(routine, setting, cluster, registers, end)
        machine = run.machine
        assumed.update(dict.fromkeys(_assumptions(routine, run.tracers, machine)))
        wrong = _wrong(routine, run)
        if wrong:
            return Verdict(REFUTED, wrong, tuple(_schedule(routine, machine)), cluster + 1, assumptions=tuple(assumed))
        reached |= _reached(routine, run.tracers, run.found)
        covered = _covered(routine, reached)
        phases += sum(one.phase for one in machine.by_number.values())
        reasons = _reasons(routine, setting, run)
        if reasons:
            sizes = boxes(machine) if any(one.was_unknown for one in machine.by_number.values()) else {}
            signalled = tuple(assumed)
            come_to = frozenset(reached)
            return Verdict(UNDECIDED, reasons, (), cluster + 1, phases, 0, 0, True, covered, come_to, signalled, sizes)
        waits += sum(len(one.waited) for one in machine.by_number.values())
        accessed += machine.accessed
        has_all = has_all and machine.has_all_accesses
        if not any(tracer.reads_index for tracer in run.tracers):
            clusters = 1
            break
        if machine.requests:
            # it has done the work of all others
            break
    return Verdict(VERIFIED, (), (), clusters, phases, waits, accessed, has_all, covered, frozenset(reached), tuple(assumed))


def _run(routine: Routine, setting: Setting, cluster: int, registers: int, end: float) -> _Run:
    outcomes = _outcomes(setting, cluster)
    tracers, found, loaded = _followed(routine, setting, cluster, registers, outcomes, end)
    end = max(end, time.monotonic() + LEAST_TIME)
    findings, machine = judged(routine, found, thread_block_of(routine), registers, MOST_ACCESSES, outcomes, end, True)
    by_chance = any(_lags(machine, agent) for agent in machine.stuck) and not _stands_still(found, registers, outcomes, end)
    return _Run(cluster, tracers, found, loaded, findings, machine, by_chance)


def _wrong(routine: Routine, run: _Run) -> tuple[Location, ...]:
    """What goes wrong for certain."""
    machine = run.machine
    if _changing(machine, run.loaded):
        # threads may take another path than they were followed
        return ()
    doubtful = _doubtful(routine, machine)
    if not run.by_chance:
        certain = [Location(one.instruction, one.message) for one in run.findings if one.is_certain and one.instruction not in doubtful]
        if certain or (machine.stuck and machine.is_sure):
            return tuple(certain or _standing(machine))
    return tuple(_uninitialized(routine, machine))


def _reasons(routine: Routine, setting: Setting, run: _Run) -> tuple[Location, ...]:
    """Why it is not certain that nothing goes wrong."""
    machine = run.machine
    seen = {block for tracer in run.tracers for block in tracer.seen}
    reasons = [*unmodelled(routine, seen), *_lost(routine, run.found), *_unsure(machine), *_passed_by(machine)]
    reasons += [Location(i, "what is loaded depends on which thread comes first") for i in sorted(_changing(machine, run.loaded))]
    reasons += [Location(one.instruction, one.message) for one in run.findings] or _unfenced_handoffs(machine)
    if run.by_chance:
        reasons += [Location(one.instruction, f"{one.text}, in some orders and not in others") for one in _standing(machine)]
    if not reasons and not _are_examples_the_same(routine, setting, run.cluster, run.found, run.loaded):
        reasons = [Location(i, "what is done depends on whether a phase has completed when this asks") for i in _peeks(routine)]
    return tuple(dict.fromkeys(reasons))


def _reached(routine: Routine, tracers: list[Tracer], found: list[Trace]) -> set[int]:
    """The instructions that threads come to; of those that synchronize, those that some thread executes."""
    blocks = control_flow(routine).blocks
    seen = {i for tracer in tracers for block in tracer.seen for i in range(blocks[block].start, blocks[block].end)}
    idle = {i for i in seen if not any(step.does in SYNCHRONIZES for step in steps(routine).get(i, ()))}
    return idle | {event.step.instruction for trace in found for event in trace.events}


def _covered(routine: Routine, reached: Container[int]) -> tuple[int, int]:
    """How many of the instructions that synchronize are among these, and how many there are."""
    own = [i for i, found in steps(routine).items() if any(step.does in SYNCHRONIZES for step in found)]
    return sum(i in reached for i in own), len(own)


def _followed(
    routine: Routine, setting: Setting, cluster: int, registers: int, outcomes: Sequence[int], end: float
) -> tuple[list[Tracer], list[Trace], dict[Key, tuple[int, ...]]]:
    """The traces of a cluster, with what they load from shared memory: they are followed as far as that is known, run so far to find out
    more, and followed again."""
    loaded: dict[Key, tuple[int, ...]] = {}
    while True:
        tracers = [Tracer(routine, rank, setting.ranks, setting, cluster, loaded=loaded, end=end) for rank in range(setting.ranks)]
        found = [trace for tracer in tracers for trace in tracer.run()]
        if not any(trace.is_lost for trace in found) or time.monotonic() > end:
            return tracers, found, loaded
        machine = Machine(found, races=False, registers=registers, outcomes=outcomes, end=end)
        machine.run()
        new = {key: numbers for key, numbers in machine.fetched.items() if key not in loaded}
        if not new:
            return tracers, found, loaded
        loaded.update(new)


def _changing(machine: Machine, loaded: Mapping[Key, tuple[int, ...]]) -> set[int]:
    """The loads that may give something else in another run."""
    return machine.raced | {key[2] for key, numbers in loaded.items() if machine.fetched.get(key) != numbers}


def _assumptions(routine: Routine, tracers: list[Tracer], machine: Machine) -> list[Location]:
    """What is taken for granted of memory and of the hardware."""
    found = [Location(i, "this gives what --memory says") for i in sorted({i for one in tracers for i in one.used})]
    if machine.requests:
        i = next(i for i, own in steps(routine).items() if any(step.is_request for step in own))
        found.append(Location(i, "the first cluster gets the work of all others by this, one after the other, then none"))
    if not machine.fetched:
        return found
    out_of_bounds = {i for one in tracers for i in one.out_of_bounds} | {
        access.instruction
        for access in accesses(routine)
        if access.writes and access.memory.is_async and access.space == SHARED and access.instruction not in steps(routine)
    }
    what = "this does not write over numbers in shared memory that decide where threads go"
    return [*found, *[Location(i, what) for i in sorted(out_of_bounds)]]


def _lags(machine: Machine, agent: Agent) -> bool:
    """Whether phases have passed that a thread waits for, since it last waited there: it might have seen them, had it come earlier."""
    mbarrier_ = _mbarrier(machine, agent)
    if mbarrier_ is None or agent.event is None or agent.event.step.does is not Does.WAIT:
        return False
    return mbarrier_.phase - agent.seen.get(mbarrier_.address, -1) > 2


def _stands_still(found: list[Trace], registers: int, outcomes: Sequence[int], end: float) -> bool:
    """Whether threads come to a standstill in another order too: else some wait forever only where others are much faster."""
    machine = Machine(
        found, races=False, registers=registers, outcomes=outcomes, end=max(end, time.monotonic() + LEAST_TIME), is_eager=True
    )
    machine.run()
    return any(not agent.is_done for agent in machine.agents)


def _outcomes(setting: Setting, cluster: int) -> list[int]:
    """What a cluster gets that asks for the work of others: each of those after it, one after the other."""
    found = []
    for other in range(cluster + 1, setting.clusters):
        position = setting.index(other, 0)
        found.append(sum(at << COORDINATE * k for k, at in enumerate(position)) | 1 << CANCELED)
    return found


# --- what is not known


def unmodelled(routine: Routine, seen: Container[int]) -> list[Location]:
    """The instructions in these blocks of which it is not known whether anybody waits for them."""
    flow = control_flow(routine)
    found = []
    allocations = 0
    for i, bound in enumerate(bindings(routine)):
        if flow.block_of[i] not in seen:
            continue
        opcode = routine.instructions[i].opcode.text
        if not isinstance(bound, Bound) or not bound.form.modelled:
            found.append(Location(i, f"`{opcode}` is not modelled"))
            continue
        if set(bound.effects) - KNOWN_EFFECTS or {word.action for word in bound.barrier} - KNOWN_ACTIONS:
            found.append(Location(i, f"what `{opcode}` makes others wait for is not modelled"))
        if "alloc" in bound.effects:
            allocations += 1
            if allocations > 1:
                found.append(Location(i, "CTAs that have tensor memory may wait for one another here"))
        if flow_of(opcode) == "call":
            called = callees(routine, i, routine.instructions[i])
            own = {one.name for one in routine.siblings}
            for name in called.names:
                if name not in own and name not in HARMLESS:
                    found.append(Location(i, f"what `{name}` does is not known"))
                elif name in own and not is_quiet(routine, name):
                    found.append(Location(i, f"others wait for what `{name}` does: functions that are called are not followed"))
    return found


def _lost(routine: Routine, found: list[Trace]) -> list[Location]:
    """Where threads could not be followed further."""
    reasons = []
    for trace in found:
        if trace.is_lost:
            what = f": {_cause(routine, trace.unknown)}" if trace.unknown is not None else ""
            reasons.append(Location(trace.why, f"how thread {trace.threads[0]} goes on from here is not known{what}"))
        elif trace.is_cut:
            reasons.append(Location(trace.why, f"thread {trace.threads[0]} goes on for too long to be followed"))
    return list(dict.fromkeys(reasons))


def _cause(routine: Routine, term: Term) -> str:
    """What keeps a term from being known."""
    for leaf in term.leaves():
        if leaf.operator == "parameter":
            name, offset = str(leaf.data[0]), leaf.data[2]
            return f"it depends on the parameter `{name}{f'+{offset}' if offset else ''}` (--param)"
        if leaf.operator == "value":
            i = ssa(routine).values[leaf.data[0]].instruction  # type: ignore[call-overload]
            if i in all_fetches(routine):
                fetch = all_fetches(routine)[i]
                what = routine.instructions[i].body_text.split()
                given = " (--memory)" if fetch.space in (".global", ".const") else ""
                return f"it depends on what `{' '.join(what)}` gives{given}"
            if i >= 0:
                return f"it depends on `{' '.join(routine.instructions[i].body_text.split())}`"
    return f"it depends on {spoken(term, 2)}"


def _unsure(machine: Machine) -> list[Location]:
    reasons = []
    if machine.is_late:
        reasons.append(Location(-1, "the run took too long (--budget)"))
    if not machine.is_sure:
        reasons.append(Location(-1, "threads of a warp that are to meet do not come to the same instruction"))
    for fault in machine.faults.values():
        if fault.kind == "unordered":
            reasons.append(
                Location(fault.instruction, "the bytes may be counted in an earlier phase: nothing waits until that has completed")
            )
        elif fault.kind == "barrier crowd":
            reasons.append(Location(fault.instruction, "more threads may come to the barrier than it counts"))
        elif fault.kind == "excess":
            reasons.append(Location(fault.instruction, "more may arrive than the phase takes"))
    for mbarrier_ in machine.by_number.values():
        if mbarrier_.was_unknown:
            reasons.append(Location(mbarrier_.copies, "how many bytes this copies only its tensor map says (--boxes)"))
    return reasons


def _doubtful(routine: Routine, machine: Machine) -> set[int]:
    """Where accesses meet of which it is not certain that nothing keeps them apart.

    Warps of a warpgroup that work together on matrices may wait for one another there, it is not said. Of what tensor cores read, what
    threads have written themselves may be kept apart by what they wait for as well.
    """
    levels = {one.converges.level for one in bindings(routine) if isinstance(one, Bound) and one.converges is not None}
    together = "warpgroup" in levels
    of_cores = {i for i, own in launched_steps(routine).items() if own != steps(routine).get(i, ())}
    found = set()
    for fault in machine.faults.values():
        if not fault.kind.startswith("race "):
            continue
        (rank, thread), (other_rank, other) = fault.one, fault.two
        is_one_group = rank == other_rank and thread // WARPGROUP == other // WARPGROUP
        is_of_cores = "refill" not in fault.kind and bool({fault.instruction, fault.other} & of_cores)
        if (together and is_one_group) or is_of_cores:
            found.add(fault.instruction)
    return found


def _unfenced_handoffs(machine: Machine) -> list[Location]:
    """Accesses of which it was not found out why nothing keeps them apart; those of one instruction may write the same."""
    kinds = ("race ", "unwaited ", "too early ")
    return [
        Location(fault.instruction, "nothing says whether this or another access of the same memory comes first")
        for fault in machine.faults.values()
        if fault.kind.startswith(kinds) and fault.instruction != fault.other
    ]


def _peeks(routine: Routine) -> list[int]:
    """The instructions that ask whether a phase has completed and go on."""
    return [i for i, own in steps(routine).items() if any(step.does is Does.WAIT and not step.is_spinning for step in own)]


def _are_examples_the_same(
    routine: Routine, setting: Setting, cluster: int, found: list[Trace], loaded: Mapping[Key, tuple[int, ...]]
) -> bool:
    """Whether threads that ask for a phase do the same, but for waiting, whether it has completed or not."""
    if not _peeks(routine):
        return True
    other = [
        trace
        for rank in range(setting.ranks)
        for trace in Tracer(routine, rank, setting.ranks, setting, cluster, examples=True, loaded=loaded).run()
    ]
    return _deeds(found) == _deeds(other)


def _deeds(found: list[Trace]) -> dict[tuple[int, int], list[tuple[object, ...]]]:
    """What each thread does, without its waits for phases; nothing is the same as what is not known."""
    deeds: dict[tuple[int, int], list[tuple[object, ...]]] = {}
    for trace in found:
        for position, thread in enumerate(trace.threads):
            own: list[tuple[object, ...]] = [] if not (trace.is_lost or trace.is_cut) else [(object(),)]
            for event in trace.events:
                if event.step.does not in (Does.WAIT, Does.READ, Does.WRITE, Does.FETCH):
                    signalled = (event.address, event.amount, event.target, *event.values)
                    numbers = [one and one[0 if len(one) == 1 else position] for one in signalled]
                    own.append((event.step.instruction, event.step.does, *numbers))
            deeds[trace.rank, thread] = own
    return deeds


def start_registers(routine: Routine, setting: Setting) -> int:
    """The registers of a thread when the kernel starts; 0 if nothing bounds them, so that setmaxnreg has no effect (9.7.19.5)."""
    said: dict[str, int] = {}
    for directive in routine.function.header.directives:
        sizes = [constant_value(argument) for argument in directive.arguments]
        if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
            said[directive.name] = math.prod(map(int, sizes))  # type: ignore[arg-type]
    if ".maxnreg" in said:
        return -(-said[".maxnreg"] // STEP) * STEP
    if ".minnctapersm" not in said:
        return 0
    return min(MOST, REGISTERS // (said[".minnctapersm"] * math.prod(setting.block)) // STEP * STEP)


# --- what went wrong


def _standing(machine: Machine) -> list[Location]:
    """Where threads stand still, those at one instruction together."""
    groups: dict[tuple[int, str], list[Agent]] = {}
    for agent in machine.stuck:
        step = agent.trace.events[agent.at].step
        groups.setdefault((step.instruction, _awaits(machine, agent, step)), []).append(agent)
    return [Location(i, f"{_who(machine, agents)} {what}, for ever") for (i, what), agents in groups.items()]


def _uninitialized(routine: Routine, machine: Machine) -> list[Location]:
    """Uses of mbarriers that nobody has initialized, if nobody can any more, wherever those go that were not followed to an end."""
    flow = control_flow(routine)
    inits = {flow.block_of[i] for i, own in steps(routine).items() if any(step.does is Does.INIT for step in own)}
    open_ = [flow.block_of[trace.why] for trace in machine.traces if (trace.is_lost or trace.is_cut) and trace.why >= 0]
    if machine.is_late or any(inits & _ahead(routine, block) for block in set(open_)):
        return []
    to_come = {
        plain(address)
        for trace in machine.traces
        for event in trace.events
        if event.step.does is Does.INIT
        for address in event.address or ()
    }
    groups: dict[int, list[Agent]] = {}
    for agent in machine.agents:
        event = agent.event
        if event is None or event.step.does not in USES or event.address is None or event.mask is not None:
            continue
        address = plain(event.address[0 if len(event.address) == 1 else agent.positions[0]])
        if address not in to_come:
            groups.setdefault(event.step.instruction, []).append(agent)
    return [Location(i, f"{_who(machine, agents)} needs an mbarrier object that nobody initializes") for i, agents in groups.items()]


def _ahead(routine: Routine, start: int) -> set[int]:
    """A block and all that control can come to from there."""
    return closure([start], control_flow(routine).successors)


def _awaits(machine: Machine, agent: Agent, step: Step) -> str:
    mbarrier_ = _mbarrier(machine, agent)
    if step.does in (Does.WAIT, Does.ARRIVE, Does.EXPECT, Does.COPY) and mbarrier_ is None:
        return "needs an mbarrier object that is not initialized"
    if step.does is Does.WAIT and mbarrier_ is not None:
        parts = [f"{mbarrier_.pending} of {mbarrier_.count} arrivals missing"] if mbarrier_.pending else []
        parts += [f"{mbarrier_.expected} bytes missing"] if mbarrier_.expected else []
        return f"waits for phase {mbarrier_.phase}: {' and '.join(parts) or 'it has the other parity'}"
    words = {
        Does.BARRIER_SYNC: "waits at the barrier",
        Does.CLUSTER_WAIT: "waits at the barrier of the cluster",
        Does.JOIN: "waits for other threads of the warp",
        Does.TAKE: "waits for registers",
    }
    return words.get(step.does, "cannot go on")


def _mbarrier(machine: Machine, agent: Agent) -> Mbarrier | None:
    event = agent.event
    if event is None or event.address is None:
        return None
    return machine.mbarriers.get(plain(event.address[0 if len(event.address) == 1 else agent.positions[0]]))


def _passed_by(machine: Machine) -> list[Location]:
    """Waits that may come too late."""
    found: dict[int, Location] = {}
    for _, agent, phase, at in machine.overrun():
        i = agent.trace.events[at].step.instruction
        text = (
            f"nothing keeps phase {phase + 1} from completing before {_who(machine, [agent])} comes here: "
            "so late, it would wait for a phase after that"
        )
        found.setdefault(i, Location(i, text))
    return list(found.values())


def _who(machine: Machine, agents: list[Agent]) -> str:
    """Agents in words."""
    several = len({agent.trace.rank for agent in machine.agents}) > 1
    names = []
    for agent in agents:
        threads = agent.threads
        own = f"warp {agent.warp[1]}" if len(threads) == WARP else f"thread {threads[0]}"
        own += f" and {len(threads) - 1} more of its warp" if 1 < len(threads) < WARP else ""
        names.append(own + (f" of CTA {agent.trace.rank}" if several else ""))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _schedule(routine: Routine, machine: Machine) -> list[Location]:
    """The last steps of the run that others may wait for."""
    rows: list[tuple[int, str, list[Agent]]] = []
    for index, at in machine.log:
        agent = machine.agents[index]
        step = agent.trace.events[at].step
        if rows and rows[-1][0] == step.instruction and rows[-1][1] == step.does.value:
            rows[-1][2].append(agent)
        else:
            rows.append((step.instruction, step.does.value, [agent]))
    return [Location(i, f"{_who(machine, list(dict.fromkeys(agents)))}: {does}") for i, does, agents in rows[-LAST:]]
