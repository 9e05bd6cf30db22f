"""The protocol of tensor memory (9.1:9.7.16): who frees it, and where waits, commits and fences are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.paths import comes_to, states
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.mbarriers import may_be_same, uses
from ptxkit.analyses.events.registers_in_flight import Program, RegisterAccess, accesses_in_flight, program
from ptxkit.analyses.events.steps import Does, may_synchronize, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP, launch
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.path_condition import Choices
from ptxkit.analyses.symex.step import open_edges
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value

LOADS, STORES, MMAS = "tcgen05.ld", "tcgen05.st", "tcgen05"
"""Queues of the table: loads to registers, stores from them, and the operations that a commit signals to an mbarrier."""
ALLOC, FREE, RELINQUISH = "alloc", "dealloc", "relinquish-alloc"
SIZES = (32, 64, 128, 256, 512)
"""Valid numbers of columns in an allocation."""
FEW = 4
"""One case out of this many counts as an exception."""
NO_FENCE = "no tcgen05.fence::after_thread_sync separates this from the wait before it"
BEFORE, AFTER = "tcgen05-before-thread-sync", "tcgen05-after-thread-sync"


@frozen(eq=False)
class Tensor:
    """The reachable instructions of a function that concern tensor memory, in document order."""

    by_effect: dict[str, tuple[int, ...]]
    """By word of the table: instructions that allocate, free, relinquish or fence."""
    starts: dict[str, tuple[int, ...]]
    """By queue, the instructions that start operations."""
    commits: tuple[int, ...]
    has_calls: bool
    may_arrive: bool
    """Whether a called function may arrive at an mbarrier."""


@fact
def tensor(routine: Routine) -> Tensor | None:
    """The instructions of a function that concern tensor memory; None if there are none."""
    flow = control_flow(routine)
    done = effects(routine)
    by_effect: dict[str, list[int]] = {}
    starts: dict[str, list[int]] = {}
    commits = []
    calls: list[int] = []
    words = {ALLOC, FREE, RELINQUISH, BEFORE, AFTER}
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound):
            continue
        calls += [i] if bound.flow == "call" else []
        for word in words.intersection(bound.effects) if bound.effects else ():
            if flow.block_of[i] in flow.reachable:
                by_effect.setdefault(word, []).append(i)
    for i, own in done.items():
        for effect in own if flow.block_of[i] in flow.reachable else ():
            if effect.queue in (LOADS, STORES, MMAS) and effect.action is Action.OPEN:
                starts.setdefault(effect.queue, []).append(i)
            elif effect.queue == MMAS and effect.action is Action.COMMIT:
                commits.append(i)
    if not by_effect and not starts:
        return None
    return Tensor(
        {word: tuple(own) for word, own in by_effect.items()},
        {queue: tuple(own) for queue, own in starts.items()},
        tuple(commits),
        bool(calls),
        any(may_synchronize(routine, i) for i in calls),
    )


# --- registers


@fact
def loads(routine: Routine) -> Program | None:
    """The steps that matter to loads from tensor memory; None if there are no such loads."""
    return program(routine, LOADS)


@fact
def accessed_loads(routine: Routine) -> tuple[tuple[RegisterAccess, ...], tuple[RegisterAccess, ...]]:
    """The loads whose registers are used before any wait: those that are errors, and those that are common practice.

    Compilers move register operations above the wait that should precede them, some programs have no wait, and assemblers know when a
    register is ready. So an access is an error only if the missing wait is an exception, or if a function that never waits stores the
    registers unchanged. Of the common cases, one use is given for each load.
    """
    of, known = loads(routine), tensor(routine)
    if of is None or known is None or LOADS not in known.starts:
        return (), ()
    found = tuple(accesses_in_flight(of))
    if FEW * len(found) <= len(known.starts[LOADS]):
        return found, ()
    waits = any(e.queue == LOADS and e.action is Action.WAIT for own in effects(routine).values() for e in own)
    if not waits and all(_stores(routine, accessed.instruction) for accessed in found):
        return found, ()
    first: dict[int, RegisterAccess] = {}
    for accessed in found:
        first.setdefault(accessed.opener, accessed)
    return (), tuple(first.values())


def _stores(routine: Routine, i: int) -> bool:
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and any(memory.access != "read" for memory in bound.memory)


# --- allocation


def never_freed(routine: Routine) -> Iterator[Finding]:
    """Allocations that nothing frees, or that a warp frees on one path and not on another path to the end of the kernel."""
    known = tensor(routine)
    if known is None or known.has_calls or not routine.function.header.is_entry:
        return
    frees = known.by_effect.get(FREE, ())
    for i in known.by_effect.get(ALLOC, ()):
        if not frees:
            yield Finding(i, "this tensor memory is never freed: there is no tcgen05.dealloc", [])
            continue
        tree, blocks = dominators(routine).tree, control_flow(routine).block_of
        # if other warps free it, the exits of the allocating warps need not matter
        if not all(tree.dominates(blocks[i], blocks[free]) for free in frees):
            continue
        end = _end(routine, i, frees)
        if end >= 0:
            yield Finding(i, "this tensor memory is not freed on every path to the end", [(end, "not freed on a path to here")], False)


def _end(routine: Routine, i: int, frees: Iterable[int]) -> int:
    """The exit by which a thread may leave the function without freeing its allocation; -1 if there is none.

    The conditions that led to the allocation still hold afterwards.
    """
    flow = control_flow(routine)
    known = values(routine)
    tree = dominators(routine).tree
    start = flow.block_of[i]
    choices: Choices | None = Choices(known.terms)
    guards = [(known.guard(i), True)]
    for before in dominators(routine).depends_on(start):
        guard = known.guard(flow.blocks[before].end - 1)
        paths = [edge.via is Via.TAKEN for edge in flow.blocks[before].edges if tree.dominates(edge.target, start)]
        if tree.dominates(before, start) and len(paths) == 1:
            guards.append((guard, paths[0]))
    for guard, holds in guards:
        if guard is not None and choices is not None:
            choices = choices.choose(guard, holds)
    freeing = {flow.block_of[free] for free in frees}

    def onward(at: int) -> list[int]:
        guard = known.guard(flow.blocks[at].end - 1) if flow.blocks[at].edges and at not in freeing else None
        decided = choices.says(guard) if guard is not None and choices is not None else None
        return [edge.target for edge in open_edges(flow.blocks[at], decided)] if at not in freeing else []

    ends = (at for at in nearest_first([start], onward) if at not in freeing and flow.blocks[at].leaves in ("return", "exit"))
    return next((flow.blocks[at].end - 1 for at in ends), -1)


def misused_permits(routine: Routine) -> Iterator[Finding]:
    """Allocations after the right to allocate was relinquished or of no valid size, frees of other sizes, and mixed CTA groups."""
    known = tensor(routine)
    if known is None:
        return
    tree = dominators(routine).tree
    flow = control_flow(routine)
    allocs = known.by_effect.get(ALLOC, ())
    for i in allocs:
        for gone in known.by_effect.get(RELINQUISH, ()):
            one, other = flow.block_of[gone], flow.block_of[i]
            if (gone < i if one == other else tree.dominates(one, other)) and not _guarded(routine, gone):
                yield Finding(i, "the permit to allocate was relinquished before", [(gone, "relinquished here")])
                break
    sizes = {i: _columns(routine, i) for i in allocs}
    for i, size in sizes.items():
        if size is not None and size not in SIZES:
            yield Finding(i, f"{size} columns are allocated: there must be 32, 64, 128, 256 or 512", [])
    for i in known.by_effect.get(FREE, ()):
        size = _columns(routine, i)
        if sizes and size is not None and None not in sizes.values() and size not in sizes.values():
            words = " or ".join([str(one) for one in sorted({one for one in sizes.values() if one is not None})])
            indices = [(at, f"{one} columns allocated here") for at, one in sizes.items()]
            yield Finding(i, f"{size} columns are freed, but {words} were allocated", indices, False)
    groups: dict[str, int] = {}
    for i, bound in enumerate(bindings(routine)):
        group = bound.slot(".cta_group") if isinstance(bound, Bound) else ""
        if group and groups.setdefault(group, i) == i and len(groups) > 1:
            first = next(iter(groups.items()))
            yield Finding(
                i, f"`{group}` here, and `{first[0]}` elsewhere in this function: all must be the same", [(first[1], "elsewhere")]
            )


def _guarded(routine: Routine, i: int) -> bool:
    return routine.instructions[i].guard is not None


def _columns(routine: Routine, i: int) -> int | None:
    """The number of columns that are allocated or freed, if constant."""
    bound = bindings(routine)[i]
    operand = bound.operand("n") if isinstance(bound, Bound) else None
    if operand is None:
        return None
    node = routine.instructions[i].operands[operand.path[0]]
    value = constant_value(node)
    if isinstance(value, int):
        return value
    term = values(routine).operand(i, node)
    return term.constant if term is not None else None


# --- order among threads


def freed_too_early(routine: Routine) -> Iterator[Finding]:
    """Frees by some warps that are reachable from other warps' use of tensor memory with no barrier between."""
    known = tensor(routine)
    count = launch(routine).count
    if known is None or known.has_calls or (count is not None and count <= WARP):
        return
    flow = control_flow(routine)
    uses = {*known.starts.get(LOADS, ()), *known.starts.get(STORES, ())}
    frees = known.by_effect.get(FREE, ())
    if not uses or not frees:
        return
    barriers = {i for i, sync in syncs(routine).items() if sync.waits and sync.reach >= Reach.MBARRIER}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset() if i in barriers else state | {i} if i in uses else state

    for i, state in states(routine, {*uses, *barriers, *frees}, step):
        if i not in frees or not state:
            continue
        # warps that do not reach the free may still be using the memory
        others = [use for use in sorted(state) if not dominators(routine).post.dominates(flow.block_of[i], flow.block_of[use])]
        if others:
            yield Finding(
                i,
                "tensor memory is freed here while other warps may still use it, with no barrier in between",
                [(others[0], "used here, also by warps that do not reach the deallocation")],
                False,
            )


def never_committed(routine: Routine) -> Iterator[Finding]:
    """Waits at an mbarrier for MMAs that are never committed to one, and waits at mbarriers at which nothing arrives."""
    known = tensor(routine)
    if known is None or known.may_arrive or MMAS not in known.starts:
        return
    waits = [i for i, sync in syncs(routine).items() if sync.waits and sync.reach is Reach.MBARRIER]
    signalled = set()
    for i in known.starts[MMAS]:
        # a copy completes before the MMA that reads it, whichever thread issues and commits that: the two are ordered as a pair
        if not _reads_and_writes(routine, i) or any(comes_to(routine, i, commit) for commit in known.commits):
            continue
        at = next((wait for wait in sorted(waits) if wait > i and comes_to(routine, i, wait)), None)
        if at is not None and at not in signalled:
            signalled.add(at)
            yield Finding(at, "this waits after an MMA that is never committed: nothing signals when it is done", [(i, "started here")])
    if signalled or not routine.function.header.is_entry:
        return
    arrivals = [use.where for use in uses(routine) if use.arrives]
    for use in uses(routine) if None not in arrivals else ():
        where = use.where
        if use.arrives or where is None or _passes_at_once(routine, use.instruction):
            continue
        if not any(may_be_same(where, other) for other in arrivals if other is not None):
            yield Finding(use.instruction, "nothing arrives at this mbarrier: no commit, arrival or copy names it", [])
            return


def _passes_at_once(routine: Routine, i: int) -> bool:
    """Whether a wait is for the phase before the first one, which has completed once the mbarrier is initialized."""
    parities = [step.amount for step in steps(routine).get(i, ()) if step.does is Does.WAIT and step.amount is not None]
    return any(parity.constant is not None and parity.constant & 1 for parity in parities)


def _reads_and_writes(routine: Routine, i: int) -> bool:
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and any(memory.access == "readwrite" for memory in bound.memory)


def unwaited_stores(routine: Routine) -> Iterator[Finding]:
    """Barriers and MMAs that follow stores to tensor memory without a wait for the stores."""
    known = tensor(routine)
    if known is None or STORES not in known.starts:
        return
    done = effects(routine)
    waits = {i for i, own in done.items() if any(e.queue == STORES and e.action is Action.WAIT for e in own)}
    stores = set(known.starts[STORES])
    mmas = set(known.starts.get(MMAS, ()))
    ends = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach >= Reach.MBARRIER} | mmas

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset() if i in waits or i in ends else state | {i} if i in stores else state

    for i, state in states(routine, waits | stores | ends, step):
        if i in ends and state:
            first = min(state)
            # an arrival need not be the one that publishes the store if a wait for the store follows it
            is_late = i not in mmas and any(comes_to(routine, i, wait) for wait in waits)
            message = "a store to tensor memory may be in flight here: nothing has waited for it"
            yield Finding(i, message, [(first, "started here")], False, is_note=is_late)


def stores_read_back(routine: Routine) -> Iterator[Finding]:
    """Loads from tensor memory directly after a store to the same address, with no wait for the store between."""
    known = tensor(routine)
    if known is None or STORES not in known.starts or LOADS not in known.starts:
        return
    waits = {i for i, own in effects(routine).items() if any(e.queue == STORES and e.action is Action.WAIT for e in own)}
    block_of, loads_ = control_flow(routine).block_of, set(known.starts[LOADS])
    stored: dict[Term, int] = {}
    home = -1
    for i in sorted({*waits, *known.starts[STORES], *loads_}):
        # in another block, the same term may have another value
        if i in waits or block_of[i] != home:
            stored, home = {}, block_of[i]
        address = _address(routine, i) if i not in waits else None
        if address is None:
            continue
        if i not in loads_:
            stored.setdefault(address, i)
        elif address in stored:
            message = "this loads what a store to tensor memory may still be writing, with no tcgen05.wait::st in between"
            yield Finding(i, message, [(stored.pop(address), "stored here")], False)


def _address(routine: Routine, i: int) -> Term | None:
    bound = bindings(routine)[i]
    operand = bound.operand(bound.memory[0].operand) if isinstance(bound, Bound) and bound.memory else None
    return values(routine).operand(i, routine.instructions[i].operands[operand.path[0]]) if operand is not None else None


def unfenced(routine: Routine) -> Iterator[Finding]:
    """The single mbarrier wait of a kernel after which tensor memory is used without a fence, though other waits are followed by one.

    Many kernels in use have no such fences, or only some; so only a single exception counts.
    """
    fenced, bare = _fenced_mbarriers(routine, False)
    if len(bare) == 1 and (fenced or _fenced_at_once(routine) - bare.keys()) and not bare.keys() & _waits_for_copies(routine):
        for wait, i in bare.items():
            yield Finding(i, NO_FENCE, [(wait, "waited for here")], False)


def _fenced_at_once(routine: Routine) -> set[int]:
    """The mbarrier waits after which a fence is the first instruction that affects ordering, regardless of what follows."""
    known = tensor(routine)
    fences = set(known.by_effect.get(AFTER, ())) if known is not None else set()
    waits = {i for i, sync in syncs(routine).items() if sync.waits}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset((i,)) if i in waits else frozenset()

    met = {wait for i, state in states(routine, waits | fences, step) if i in fences for wait in state}
    return met & {use.instruction for use in uses(routine) if not use.arrives}


def seldom_fenced(routine: Routine) -> Finding | None:
    """The first use of tensor memory after a wait without a fence, with all such waits, in a kernel that has fences after some waits
    only."""
    bare = _fenced_mbarriers(routine, True)[1]
    if not bare or any(unfenced(routine)):
        return None
    wait, first = next(iter(bare.items()))
    return Finding(first, NO_FENCE, [(wait, "waited for here")], False, others=tuple([other for other in bare if other != wait]))


def _fenced_mbarriers(routine: Routine, keeps: bool) -> tuple[dict[int, int], dict[int, int]]:
    """The mbarrier waits, as in `fences_after`."""
    fenced, bare = fences_after(routine, keeps)
    # a barrier of all threads follows the allocation of tensor memory, and needs no fence there
    mbarriers = {use.instruction for use in uses(routine)}
    return fenced, {wait: i for wait, i in bare.items() if wait in mbarriers}


def _waits_for_copies(routine: Routine) -> set[int]:
    """The mbarrier waits for bytes of copies to shared memory, after which no operation on tensor memory has to be ordered."""
    copies = [use.where for use in uses(routine) if any(step.does is Does.COPY for step in steps(routine).get(use.instruction, ()))]
    signalled = [copy for copy in copies if copy is not None]
    waits = [use for use in uses(routine) if not use.arrives and use.where is not None]
    return {use.instruction for use in waits if use.where is not None and any(may_be_same(use.where, copy) for copy in signalled)}


def fences_after(routine: Routine, keeps: bool = False) -> tuple[dict[int, int], dict[int, int]]:
    """The waits, each with the first use of tensor memory after it: those followed by a fence on all paths, and the others.

    After two waits without a fence, a use counts for the later wait only; with `keeps`, for both.
    """
    known = tensor(routine)
    if known is None or not known.by_effect.get(AFTER):
        return {}, {}
    waits = {i for i, sync in syncs(routine).items() if sync.waits and sync.reach >= Reach.MBARRIER}
    fences = set(known.by_effect[AFTER])
    own = {i for queue in (LOADS, STORES, MMAS) for i in known.starts.get(queue, ())}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        """Waits passed so far, by their index, and waits that were also followed by a fence, as negative numbers."""
        if i in waits:
            return state | {i} if keeps else frozenset((i,))
        if i in fences:
            return frozenset([wait if wait < 0 else ~wait for wait in state])
        return frozenset() if i in own else state

    bare: dict[int, int] = {}
    fenced: dict[int, int] = {}
    for i, state in states(routine, waits | fences | own, step):
        for wait in sorted(state) if i in own else ():
            (bare if wait >= 0 else fenced).setdefault(max(wait, ~wait), i)
    return {wait: i for wait, i in fenced.items() if wait not in bare}, bare
