"""Accesses of one memory through different proxies, and the fences between them (8.6, 9.7.10.24.2, 9.7.14.4).

What was written through the generic proxy is read through another one only behind a proxy fence of whoever wrote it: written, fenced, told
to the reader by a barrier, read. A dataflow over bits follows the writes up to there, one set for each station.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator

from ptxkit.analyses.accesses import Access, accesses, place
from ptxkit.analyses.arithmetic import signed
from ptxkit.analyses.bindings import bindings
from ptxkit.analyses.bits import bits
from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.dataflow import solve
from ptxkit.analyses.handed_out import HandedOut, handed_out
from ptxkit.analyses.launch import WARP
from ptxkit.analyses.levels import Level
from ptxkit.analyses.protocols.effects import Reach, syncs
from ptxkit.analyses.protocols.found import Found
from ptxkit.analyses.protocols.team import Team, Vector, team
from ptxkit.analyses.protocols.ways import between, comes_to
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.terms import Term, walk
from ptxkit.analyses.uniformity import uniformity
from ptxkit.analyses.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.names import Symbol
from ptxkit.syntax.nodes import Address, Guard

ASYNC = "async"
FENCE, MAP_FENCE = "proxy-fence-async", "proxy-fence-tensormap"
SHARED = ".shared"
LEAST_BYTES = 16
"""What is read through the async proxy is never less."""
MOST_BYTES = 1 << 15
"""What one operation reads through the async proxy is hardly more."""


class Meeting(enum.Enum):
    """How sure it is that two touches are of the same bytes."""

    CERTAIN = "certain"
    LIKELY = "likely"
    """They are of one variable."""
    POSSIBLE = "possible"
    """They start from the same place, in memory that the program itself shares out."""


@frozen(eq=False)
class Touch:
    """A touch of a variable in shared memory through one of the proxies."""

    instruction: int
    root: Symbol | Term
    """The variable, or what else its address starts from."""
    address: Term
    bytes: int
    is_tensor: bool = False
    """Whether tensor cores read it, by a descriptor."""
    is_async: bool = False
    """Whether an asynchronous copy of the generic proxy writes it."""


@frozen
class Crossing:
    """A write through the generic proxy that a read through the async proxy may not see."""

    write: Touch
    read: Touch
    fence: int
    """A fence in the wrong place; -1 if there is none at all."""
    is_late: bool
    """Whether that fence stands behind the barrier, and a thread that wrote never comes to it; else it stands before the write."""
    is_certain: bool
    """Whether both surely touch the same bytes."""
    is_guess: bool = False
    """Whether all that speaks for it is that both start from the same place, and are not known to lie apart."""


@frozen
class _State:
    """Writes by how far they have come, as bits."""

    fresh: int = 0
    """Written, and no barrier since."""
    told: int = 0
    """A barrier has passed."""
    late: int = 0
    """A fence stands behind the barrier."""
    over: int = 0
    """Of these, those that may have been written over behind the barrier: what is read then is the later write."""
    early: int = 0
    """Of all of these, those before which a fence stands, with no barrier between."""
    has_fenced: bool = False
    """Whether a fence may stand since the last barrier."""


@fact
def crossings(routine: Routine) -> tuple[Crossing, ...]:
    """The reads through the async proxy of what was written through the generic one, with a way between on which the fence is missing."""
    if not _has_proxy(routine, ASYNC):
        return ()
    writes = list(_generic(routine, "write"))
    reads = list(_async_reads(routine, {touch.root for touch in writes if isinstance(touch.root, Term)}))
    wanted = {id(read.root) for read in reads}
    writes = [touch for touch in writes if id(touch.root) in wanted]
    return tuple(_unfenced(routine, writes, reads)) if writes else ()


def _has_proxy(routine: Routine, proxy: str) -> bool:
    return any(memory.proxy == proxy for bound in set(bindings(routine)) if isinstance(bound, Bound) for memory in bound.memory)


def overwritten(routine: Routine) -> tuple[Crossing, ...]:
    """The writes through the async proxy of what was read through the generic one, with no fence between on some way."""
    if not _has_proxy(routine, ASYNC):
        return ()
    writes = list(_async_writes(routine))
    wanted = {id(write.root) for write in writes}
    reads = [touch for touch in _generic(routine, "read") if id(touch.root) in wanted]
    return tuple([one for one in _unfenced(routine, reads, writes) if one.fence < 0]) if reads else ()


def _unfenced(routine: Routine, before: list[Touch], after: list[Touch]) -> Iterator[Crossing]:
    """For each of the later touches the first of the earlier that it meets with the fence missing or misplaced between."""
    for end, state, own in _arriving(routine, before, after):
        found = _crossing(routine, before, end, state, own)
        if found is not None:
            yield found


def exposed(routine: Routine) -> int:
    """How many pairs of touches, through the generic proxy and then through the async one, may meet with no fence for all between."""
    if not _has_proxy(routine, ASYNC):
        return 0
    writes, reads, later = list(_generic(routine, "write")), list(_generic(routine, "read")), list(_async_writes(routine))
    roots = {touch.root for touch in writes if isinstance(touch.root, Term)}
    count = 0
    for before, after in ((writes, list(_async_reads(routine, roots))), (reads, later), (writes, later)):
        for end, state, own in _arriving(routine, before, after):
            unordered = (state.fresh | state.told | state.late) & own
            count += sum(1 for place_ in bits(unordered) if _meet(routine, before[place_], end) is not None)
    return count


def unplaced(routine: Routine) -> frozenset[str]:
    """What of a function's touches of shared memory is not known where it is, in words."""
    roots = {touch.root for touch in _generic(routine, "write") if isinstance(touch.root, Term)}
    found = {touch.instruction for touch in (*_async_reads(routine, roots), *_async_writes(routine))}
    bounds = bindings(routine)
    words = set()
    if any(i not in found for i, _ in descriptors(routine)):
        words.add("matrices")
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects or access.space not in ("", SHARED):
            continue
        if access.memory.proxy == ASYNC and access.instruction not in found:
            words.add("copies")
        elif not access.memory.proxy and _touch(routine, access, 1) is None and access.space:
            words.add("accesses")
    return frozenset(words)


def _arriving(routine: Routine, before: list[Touch], after: list[Touch]) -> Iterator[tuple[Touch, _State, int]]:
    """The later touches, each with how far the earlier ones have come there, and those that start from the same place as bits."""
    flow = control_flow(routine)
    bit = {touch.instruction: 1 << place_ for place_, touch in enumerate(before)}
    roots = {touch.instruction: id(touch.root) for touch in before}
    by_symbol: dict[int, int] = {}
    for touch in before:
        by_symbol[id(touch.root)] = by_symbol.get(id(touch.root), 0) | bit[touch.instruction]
    fences = set(_fences(routine))
    barriers = {i for i, sync in syncs(routine).items() if sync.reach >= Reach.OBJECT}
    ends = {touch.instruction: touch for touch in after}
    events: dict[int, list[int]] = {}
    for i in sorted({*bit, *fences, *barriers, *ends}):
        if flow.block_of[i] in flow.reachable:
            events.setdefault(flow.block_of[i], []).append(i)

    def step(i: int, state: _State) -> _State:
        if i in fences:
            return _State(0, 0, state.late | state.told, state.over, state.early & (state.late | state.told), True)
        if i in barriers:
            return _State(0, state.told | state.fresh, state.late, state.over, state.early, False)
        own = bit.get(i, 0)
        if not own:
            return state
        early = state.early | own if state.has_fenced else state.early & ~own
        over = state.over | ((state.told | state.late) & by_symbol[roots[i]])
        return _State(state.fresh | own, state.told & ~own, state.late & ~own, over & ~own, early, state.has_fenced)

    def through(block: int, state: _State) -> _State:
        for i in events.get(block, ()):
            state = step(i, state)
        return state

    solution = solve(flow, through, _either, lambda _: None, _State())
    for block, own in sorted(events.items()):
        state = solution.before[block]
        for i in own:
            if i in ends:
                yield ends[i], state, by_symbol.get(id(ends[i].root), 0)
            state = step(i, state)


def _either(states: Iterable[_State]) -> _State:
    found = _State()
    for one in states:
        found = _State(
            found.fresh | one.fresh,
            found.told | one.told,
            found.late | one.late,
            found.over | one.over,
            found.early | one.early,
            found.has_fenced or one.has_fenced,
        )
    return found


def _crossing(routine: Routine, before: list[Touch], end: Touch, state: _State, own: int) -> Crossing | None:
    missing = (state.fresh | state.told) & own
    guess: Touch | None = None
    for place_ in bits(missing):
        met = _meet(routine, before[place_], end)
        if met is Meeting.POSSIBLE:
            guess = guess or before[place_]
        elif met is not None:
            is_early = bool(state.early >> place_ & 1)
            fence = _nearest_fence(routine, before[place_].instruction) if is_early else -1
            return Crossing(before[place_], end, fence, False, met is Meeting.CERTAIN)
    late = state.late & own & ~missing & ~state.over
    fence = _nearest_fence(routine, end.instruction) if late else -1
    for place_ in bits(late) if fence >= 0 else ():
        write = before[place_]
        met = _meet(routine, write, end)
        if met in (Meeting.CERTAIN, Meeting.LIKELY) and _never_fences(routine, write.instruction, end.instruction):
            return Crossing(write, end, fence, True, met is Meeting.CERTAIN)
    return Crossing(guess, end, -1, False, False, True) if guess is not None else None


def _meet(routine: Routine, one: Touch, other: Touch) -> Meeting | None:
    """Whether both touch the same bytes; None if they do not."""
    is_usual = one.is_async and other.is_tensor and not _fences_copies(routine)
    apart = values(routine).terms.sub(one.address, other.address) if one.address.width == other.address.width else None
    numbers = team(routine).vector(apart) if apart is not None else None
    if apart is not None and numbers is not None:
        # what is read is no less than this: behind its start, only what it starts with is known
        if any(-one.bytes < signed(number, apart.width) < other.bytes for number in set(numbers)):
            return Meeting.POSSIBLE if is_usual else Meeting.CERTAIN
        return Meeting.POSSIBLE if any(0 < signed(number, apart.width) < MOST_BYTES for number in set(numbers)) else None
    if apart is not None and not _is_near(apart):
        return None
    if apart is not None and not is_usual:
        first = _first(routine).vector(apart) or ()
        if any(-one.bytes < signed(number, apart.width) < other.bytes for number in set(first)):
            return Meeting.LIKELY
    # memory of no declared size is shared out by the program itself
    is_shared_out = isinstance(one.root, Term) or one.root.linkage == ".extern" or None in one.root.dimensions
    return Meeting.POSSIBLE if is_usual or is_shared_out else Meeting.LIKELY


class _First(Team):
    """What terms are when all that comes round, and where memory begins, is at nought: the first stage of every ring."""

    def __init__(self, crew: Team, sources: HandedOut) -> None:
        super().__init__(crew.shape, crew.is_assumed)
        self._sources = sources

    def _vector(self, at: Term) -> Vector | None:
        if at.operator == "value" and (source := self._sources.of(at)) is not None:
            held = self.vector(source[0])
            lanes = [thread - thread % WARP + source[1] for thread in range(self.size)]
            return tuple([held[lane] for lane in lanes]) if held is not None and max(lanes) < self.size else (0,) * self.size
        return super()._vector(at) or (0,) * self.size


@fact
def _first(routine: Routine) -> _First:
    return _First(team(routine), handed_out(routine))


@fact
def _fences_copies(routine: Routine) -> bool:
    """Whether a function fences what `cp.async` writes before tensor cores read it: much that is in use does not."""
    writes = [touch.instruction for touch in _generic(routine, "write") if touch.is_async]
    reads = {i for i, _ in descriptors(routine)}
    return any(between(routine, write, read, _fences(routine)) for write in writes[:1] for read in sorted(reads)[:1])


def _is_near(apart: Term) -> bool:
    """Whether a write may lie in what is read from so many bytes before it on."""
    least, most = apart.signed_bounds
    return least < MOST_BYTES and most > -LEAST_BYTES


def _never_fences(routine: Routine, write: int, read: int) -> bool:
    """Whether a thread surely writes and never comes to any of the fences on the ways from there to the read."""
    known = uniformity(routine)
    writers = known.sure(write).mask
    if known.point(write).level >= Level.CTA:
        writers = known.reach.all
    for fence in between(routine, write, read, _fences(routine)):
        writers &= ~known.reach.instruction(fence).ever
    return bool(writers)


def _nearest_fence(routine: Routine, i: int) -> int:
    """The nearest fence before an instruction, by the shortest way back; -1 if there is none."""
    flow = control_flow(routine)
    fences = _fences(routine)[::-1]
    work, seen, end = [flow.block_of[i]], {-1}, i
    while work:
        block = work.pop(0)
        for fence in fences:
            if flow.block_of[fence] == block and fence < end:
                return fence
        end = len(routine.instructions)
        for before in flow.blocks[block].predecessors:
            if before not in seen:
                seen.add(before)
                work.append(before)
    return -1


# --- who touches what


@fact
def _fences(routine: Routine) -> tuple[int, ...]:
    return tuple(_with_effect(routine, FENCE))


def _with_effect(routine: Routine, effect: str) -> Iterator[int]:
    for i, bound in enumerate(bindings(routine)):
        if isinstance(bound, Bound) and effect in bound.effects:
            yield i


def _generic(routine: Routine, how: str) -> Iterator[Touch]:
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects:
            # an mbarrier, or the address of what was allocated, is no data
            continue
        does = access.writes if how == "write" else access.reads
        if does and not access.memory.proxy and not (how == "read" and access.memory.is_async):
            touch = _touch(routine, access, access.bytes or 1)
            if touch is not None:
                yield touch


def _async_reads(routine: Routine, roots: set[Term]) -> Iterator[Touch]:
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.reads:
            touch = _touch(routine, access, access.bytes or LEAST_BYTES)
            if touch is not None:
                yield touch
    for i, term in descriptors(routine):
        found = _described(routine, i, term, roots)
        if found is not None:
            yield found


def _async_writes(routine: Routine) -> Iterator[Touch]:
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.writes:
            touch = _touch(routine, access, access.bytes or LEAST_BYTES)
            if touch is not None:
                yield touch


def _touch(routine: Routine, access: Access, size: int) -> Touch | None:
    if access.address is None or (access.space and access.space != SHARED):
        return None
    root = _root(values(routine), access.address, bool(access.space))
    return Touch(access.instruction, root, access.address, size, is_async=access.memory.is_async) if root is not None else None


def _root(known: Values, address: Term, is_shared: bool) -> Symbol | Term | None:
    """The variable in shared memory that an address is made from, or if it is known to be in there, the one unknown that it starts from."""
    where = place(known, address)
    if where.symbol is not None:
        return where.symbol if (where.symbol.space or "").startswith(SHARED) else None
    bases = _bases(address)
    return bases[0] if is_shared and len(bases) == 1 else None


def _bases(address: Term) -> list[Term]:
    """The unknowns that an address may start from, also where its lower bits are swizzled."""
    found = []
    for atom, factor in address.linear[1]:
        if factor == 1 and atom.operator in ("value", "join", "phi"):
            found.append(atom)
        elif factor == 1 and atom.operator in ("xor", "or"):
            for swizzled, lower in (atom.args, atom.args[::-1]):
                if lower.bounds[1] < MOST_BYTES:
                    found += _bases(swizzled)
                    break
    return found


def descriptors(routine: Routine) -> Iterator[tuple[int, Term]]:
    """The operands that describe matrices in shared memory to tensor cores, with their instructions (9.7.16.5.1)."""
    known = values(routine)
    flow = control_flow(routine)
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound) or flow.block_of[i] not in flow.reachable:
            continue
        for memory in bound.memory if bound.memory else ():
            operand = bound.operand(memory.operand)
            if memory.proxy == ASYNC and operand is not None and operand.role == "r":
                children = routine.instructions[i].children
                first = 2 if type(children[0]) is Guard else 1
                term = known.operand(i, children[first + operand.path[0]])
                if term is not None:
                    yield i, _held(routine, term)


def _held(routine: Routine, term: Term) -> Term:
    """A term with what one lane has handed out to its warp put in, if that is one of the parts of a sum."""
    terms, sources = values(routine).terms, handed_out(routine)
    for atom, factor in term.linear[1]:
        inner = atom.args[0] if atom.operator == "zext" else atom
        source = sources.of(inner) if inner.operator == "value" and len(inner.data) == 1 else None
        if source is not None:
            term = terms.add(terms.sub(term, terms.scale(atom, factor)), terms.scale(terms.extend(source[0], term.width, False), factor))
    return term


def described(known: Values, term: Term) -> Term | None:
    """The address in shared memory that a descriptor is made from: what is in it before it is cut to its bits 4 to 17; None if not seen."""
    found = None
    for inner in walk(term):
        for atom, factor in inner.linear[1]:
            base = atom.args[0] if atom.operator in ("zext", "trunc") else atom
            symbol = known.symbol(base) if factor == 1 and base.operator == "address" else None
            if symbol is not None and (symbol.space or "").startswith(SHARED):
                # the larger sum comes later
                found = inner
    return found


def _described(routine: Routine, i: int, term: Term, roots: set[Term]) -> Touch | None:
    """The touch of what a descriptor describes: in a variable, or from one of these places on."""
    address = described(values(routine), term)
    if address is not None:
        symbol = place(values(routine), address).symbol
        return Touch(i, symbol, address, LEAST_BYTES, is_tensor=True) if symbol is not None else None
    found: Touch | None = None
    for inner in walk(term) if roots else ():
        for atom, factor in inner.linear[1]:
            if factor == 1 and atom in roots and inner.operator not in ("zext", "trunc"):
                # the larger sum comes later
                found = Touch(i, atom, inner, LEAST_BYTES, is_tensor=True)
    return found


# --- tensor maps


def stale_maps(routine: Routine) -> Iterator[Found]:
    """Uses of tensor maps that the function itself has changed, with no acquiring proxy fence on any way between."""
    if not _has_proxy(routine, "tensormap"):
        return
    uses: dict[int, Hashable] = {}
    changes: dict[int, Hashable] = {}
    fences = []
    known = values(routine)
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or access.memory.proxy == ASYNC:
            continue
        key = _same(known, access.address)
        if access.memory.proxy == "tensormap":
            uses[access.instruction] = key
        elif access.writes and bound.modifiers and (MAP_FENCE in bound.effects or ".b1024" in bound.modifiers):
            changes[access.instruction] = key
    if not uses:
        return
    for i in _with_effect(routine, MAP_FENCE):
        bound = bounds[i]
        assert isinstance(bound, Bound)
        if "release" not in (word.what for word in bound.form.order):
            fences.append(i)
    for i, key in uses.items():
        own = [change for change, changed in changes.items() if key is not None and changed == key and comes_to(routine, change, i)]
        # where a fence is skipped, it may be because nothing was changed
        those = [fence for fence in fences if _same(known, fenced_map(routine, fence)) in (None, key)]
        if own and not any(comes_to(routine, change, fence) and comes_to(routine, fence, i) for change in own for fence in those):
            message = "this uses a tensor map that was changed, with no fence.proxy.tensormap between that acquires it"
            yield Found(i, message, [(own[-1], "changed here")])
    yield from _unacquired(routine, fences)


def _unacquired(routine: Routine, fences: list[int]) -> Iterator[Found]:
    """The first use of each tensor map that the kernel is given a pointer to and does not acquire, though it does others.

    A kernel that acquires none relies on what was there before its launch.
    """
    acquired = [(fence, _pointers(fenced_map(routine, fence))) for fence in fences]
    told: set[Term] = set()
    for access in accesses(routine) if any(own for _, own in acquired) else ():
        for pointer in _pointers(access.address) if access.memory.proxy == "tensormap" else ():
            if pointer in told or any(pointer in own and comes_to(routine, fence, access.instruction) for fence, own in acquired):
                continue
            told.add(pointer)
            message = f"the tensor map at `{pointer}` is used, and no fence.proxy.tensormap acquires it as others are acquired"
            yield Found(access.instruction, message, [], False)


def fenced_map(routine: Routine, fence: int) -> Term | None:
    """The address of the tensor map that a fence is for; None if not known."""
    node = next((node for node in routine.instructions[fence].operands if isinstance(node, Address)), None)
    return values(routine).operand(fence, node) if node is not None else None


def _pointers(address: Term | None) -> set[Term]:
    """The parameters that an address starts from: their values, not where they lie."""
    return {atom for atom, factor in address.linear[1] if factor == 1 and atom.operator == "parameter"} if address is not None else set()


def _same(known: Values, address: Term | None) -> Hashable:
    """Equal for addresses of the same object; None if not known. A map starts where its address says, generic or not."""
    if address is None:
        return None
    where = place(known, address)
    return (where.symbol.name if where.symbol is not None else "", where.offset)
