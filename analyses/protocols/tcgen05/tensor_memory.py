"""The protocol of tensor memory (9.1:9.7.16): who frees it, what is waited for, what is committed and fenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.paths import comes_to, states
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.mbarriers import may_be_same, uses
from ptxkit.analyses.events.registers_in_flight import Program, RegisterAccess, accesses_in_flight, program
from ptxkit.analyses.events.steps import may_synchronize
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
"""Queues of the table: loads to registers, stores from them, and what a commit hands to an mbarrier."""
ALLOC, FREE, RELINQUISH = "alloc", "dealloc", "relinquish-alloc"
FEW = 4
"""One of so many is an exception."""
NO_FENCE = "no tcgen05.fence::after_thread_sync lies between the wait and this"
BEFORE, AFTER = "tcgen05-before-thread-sync", "tcgen05-after-thread-sync"


@frozen(eq=False)
class Tensor:
    """The instructions of a function that have to do with tensor memory, in the order of the text, where control can reach them."""

    by_effect: dict[str, tuple[int, ...]]
    """By word of the table: those that allocate, free, relinquish and fence."""
    starts: dict[str, tuple[int, ...]]
    """By queue, those that start operations."""
    commits: tuple[int, ...]
    has_calls: bool
    may_arrive: bool
    """Whether something that is called may arrive at an mbarrier."""


@fact
def tensor(routine: Routine) -> Tensor | None:
    """What has to do with tensor memory in a function; None if nothing does."""
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
    """What matters to loads from tensor memory; None if there are none."""
    return program(routine, LOADS)


@fact
def accessed_loads(routine: Routine) -> tuple[tuple[RegisterAccess, ...], tuple[RegisterAccess, ...]]:
    """The loads of which registers are used though nothing has waited for them: those that are wrong, and those that are usual.

    Compilers move what works on registers before the wait that was to come first, some programs have no wait, and assemblers know when a
    register is there. So what counts is where the wait is left out as an exception, and where a function that never waits stores the
    registers as they are. Of what is usual there is one use for each load.
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
    """Allocations that nothing frees, or with which a warp that frees them on one path comes to the end of the kernel on another."""
    known = tensor(routine)
    if known is None or known.has_calls or not routine.function.header.is_entry:
        return
    frees = known.by_effect.get(FREE, ())
    for i in known.by_effect.get(ALLOC, ()):
        if not frees:
            yield Finding(i, "this tensor memory is never freed: there is no tcgen05.dealloc", [])
            continue
        tree, blocks = dominators(routine).tree, control_flow(routine).block_of
        # if others free it, it need not matter where those end that allocate it
        if not all(tree.dominates(blocks[i], blocks[free]) for free in frees):
            continue
        end = _end(routine, i, frees)
        if end >= 0:
            yield Finding(i, "this tensor memory is not freed on every path to the end", [(end, "not freed on a path to here")], False)


def _end(routine: Routine, i: int, frees: Iterable[int]) -> int:
    """Where the thread that executes an allocation may leave the function without freeing it; -1: nowhere.

    What decided about coming to the allocation still holds afterwards.
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
    """Allocations after the instruction that gave up the right to them; frees of sizes that were not allocated; mixed groups of CTAs."""
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
                yield Finding(i, "the right to allocate was given up before", [(gone, "given up here")])
                break
    sizes = {i: _columns(routine, i) for i in allocs}
    for i in known.by_effect.get(FREE, ()):
        size = _columns(routine, i)
        if sizes and size is not None and None not in sizes.values() and size not in sizes.values():
            words = " or ".join([str(one) for one in sorted({one for one in sizes.values() if one is not None})])
            indices = [(at, f"{one} columns allocated here") for at, one in sizes.items()]
            yield Finding(i, f"{size} columns are freed, and {words} were allocated", indices, False)
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
    """How many columns are allocated or freed, if that is a constant."""
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
    """Frees by some warps to which a path leads from other warps' use of tensor memory with no barrier on it."""
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
        # those that do not come to the free use the memory still
        others = [use for use in sorted(state) if not dominators(routine).post.dominates(flow.block_of[i], flow.block_of[use])]
        if others:
            yield Finding(
                i,
                "tensor memory is freed here while other warps may still use it: no barrier lies between",
                [(others[0], "used here, also by warps that do not reach the deallocation")],
                False,
            )


def never_committed(routine: Routine) -> Iterator[Finding]:
    """Waits for an mbarrier after MMAs that no commit hands to one, and for mbarriers at which nothing arrives."""
    known = tensor(routine)
    if known is None or known.may_arrive or MMAS not in known.starts:
        return
    waits = [i for i, sync in syncs(routine).items() if sync.waits and sync.reach is Reach.MBARRIER]
    signalled = set()
    for i in known.starts[MMAS]:
        # a copy is done before the product that reads it, whoever starts and commits that: they are an ordered pair
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
        if not use.arrives and where is not None and not any(may_be_same(where, other) for other in arrivals if other is not None):
            yield Finding(use.instruction, "nothing arrives at this mbarrier: no commit, arrival or copy names it", [])
            return


def _reads_and_writes(routine: Routine, i: int) -> bool:
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and any(memory.access == "readwrite" for memory in bound.memory)


def unwaited_stores(routine: Routine) -> Iterator[Finding]:
    """Barriers and MMAs before which stores to tensor memory were not waited for."""
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
            # an arrival need not be the one that tells of the store, if a wait for it comes later
            is_late = i not in mmas and any(comes_to(routine, i, wait) for wait in waits)
            message = "a store to tensor memory may be in flight here: nothing has waited for it"
            yield Finding(i, message, [(first, "started here")], False, is_note=is_late)


def stores_read_back(routine: Routine) -> Iterator[Finding]:
    """Loads of what was stored to tensor memory right before, with no wait for the store between."""
    known = tensor(routine)
    if known is None or STORES not in known.starts or LOADS not in known.starts:
        return
    waits = {i for i, own in effects(routine).items() if any(e.queue == STORES and e.action is Action.WAIT for e in own)}
    block_of, loads_ = control_flow(routine).block_of, set(known.starts[LOADS])
    stored: dict[Term, int] = {}
    home = -1
    for i in sorted({*waits, *known.starts[STORES], *loads_}):
        # in another block the same term may be another number
        if i in waits or block_of[i] != home:
            stored, home = {}, block_of[i]
        address = _address(routine, i) if i not in waits else None
        if address is None:
            continue
        if i not in loads_:
            stored.setdefault(address, i)
        elif address in stored:
            message = "this loads what a store to tensor memory may still be writing: no tcgen05.wait::st lies between"
            yield Finding(i, message, [(stored.pop(address), "stored here")], False)


def _address(routine: Routine, i: int) -> Term | None:
    bound = bindings(routine)[i]
    operand = bound.operand(bound.memory[0].operand) if isinstance(bound, Bound) and bound.memory else None
    return values(routine).operand(i, routine.instructions[i].operands[operand.path[0]]) if operand is not None else None


def unfenced(routine: Routine) -> Iterator[Finding]:
    """The one wait for an mbarrier of a kernel after which tensor memory is used without a fence, though there is one after others.

    Much that is in use has no such fences at all, or some; so what counts is a single exception.
    """
    fenced, bare = _fenced_mbarriers(routine, False)
    if len(bare) == 1 and (fenced or _fenced_at_once(routine) - bare.keys()):
        for wait, i in bare.items():
            yield Finding(i, NO_FENCE, [(wait, "waited for here")], False)


def _fenced_at_once(routine: Routine) -> set[int]:
    """The waits for mbarriers after which a fence is the first thing that has to do with order, no matter what comes then."""
    known = tensor(routine)
    fences = set(known.by_effect.get(AFTER, ())) if known is not None else set()
    waits = {i for i, sync in syncs(routine).items() if sync.waits}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset((i,)) if i in waits else frozenset()

    met = {wait for i, state in states(routine, waits | fences, step) if i in fences for wait in state}
    return met & {use.instruction for use in uses(routine) if not use.arrives}


def seldom_fenced(routine: Routine) -> Finding | None:
    """The first use of tensor memory after a wait without a fence, with all such waits, where a kernel has fences after some only."""
    bare = _fenced_mbarriers(routine, True)[1]
    if not bare or any(unfenced(routine)):
        return None
    wait, first = next(iter(bare.items()))
    return Finding(first, NO_FENCE, [(wait, "waited for here")], False, others=tuple([other for other in bare if other != wait]))


def _fenced_mbarriers(routine: Routine, keeps: bool) -> tuple[dict[int, int], dict[int, int]]:
    """The waits for mbarriers, as in `fences_behind`."""
    fenced, bare = fences_after(routine, keeps)
    mbarriers = {use.instruction for use in uses(routine)}
    # a barrier of all threads stands where memory is handed out, and needs none there
    return fenced, {wait: i for wait, i in bare.items() if wait in mbarriers}


def fences_after(routine: Routine, keeps: bool = False) -> tuple[dict[int, int], dict[int, int]]:
    """The waits with the first use of tensor memory after them: where a fence stands between on all paths, and the others.

    What comes after another wait without a fence counts for the later one only, or, if it `keeps`, for both.
    """
    known = tensor(routine)
    if known is None or not known.by_effect.get(AFTER):
        return {}, {}
    waits = {i for i, sync in syncs(routine).items() if sync.waits and sync.reach >= Reach.MBARRIER}
    fences = set(known.by_effect[AFTER])
    own = {i for queue in (LOADS, STORES, MMAS) for i in known.starts.get(queue, ())}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        """Waits that are passed, as themselves, and those after which a fence was passed too, as numbers below 0."""
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
