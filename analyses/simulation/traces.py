"""What the threads of a CTA do, one thing after the other, when the kernel is launched with certain numbers.

Threads that take the same path are followed together; where a branch or a guard distinguishes them they go on in groups. Everything that
does not depend on memory is a number then: shared variables are given addresses, parameters and the index of the CTA numbers that suit
most kernels. So a ring of stages needs no recognising, however its index and its parity are made. What is loaded is not known: a trace
ends where it would have to be, which makes it `lost`; one that iterates a loop too often is `cut`. Nothing may be concluded from what
does not happen after either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

import attrs

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Edge, Via, calls, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.events.steps import SHARED, SYNCHRONIZES, Does, Step, launched_steps, may_synchronize, spins, steps
from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP, cluster_size
from ptxkit.analyses.memory.accesses import size_of
from ptxkit.analyses.numbers.bits import bits, listed
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.simulation.fetches import CANCELED, COORDINATE, Fetch, Store, all_fetches, compared, exchanged, plan
from ptxkit.analyses.simulation.setting import ANY, Setting
from ptxkit.analyses.symbolic.environment import Environment, Evaluator, launched_settler, rebuilt, settler
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, thread_block_of
from ptxkit.analyses.symbolic.values import alignment_of, values
from ptxkit.frozen import frozen
from ptxkit.memo import per_object
from ptxkit.names import Kind, Names, Symbol
from ptxkit.syntax import Path

SHARED_WINDOW = 1 << 44
"""Where generic addresses of shared memory begin."""
RANK = 24
"""From this bit on, an address of shared memory says which CTA of the cluster it lies in."""
PARAMETERS = 1 << 31
PARAMETER = 16
"""So many bits are between one parameter and the next, where they are given addresses."""
FIRST = 1024
NUMBER = 4096
"""What a parameter is that may be a count: such a number has many divisors, and is more than any ring is long."""
FEW = 256
"""The same if loops should come to their end."""
POINTER = 1 << 40
POINTER_BITS = 64
GRID = (128, 16, 16)
NOWHERE = -1
"""The address of threads that do not access memory where others of their path do."""
MEETS = frozenset((Does.BARRIER_SYNC, Does.JOIN))
ACCESSES = frozenset((Does.READ, Does.WRITE))
Numbers = tuple[int, ...]
Key = tuple[int, int, int, int]
"""CTA, thread, instruction, and how many times the thread had come to it before."""


@frozen
class Most:
    """How far threads are followed."""

    rounds: int = 24
    """Of a loop."""
    paths: int = 24
    blocks: int = 2500
    events: int = 1500
    visits: int = 12
    """So many times an access is kept on a path: as many as the stages of a ring need."""


MOST = Most(rounds=20_000, paths=200, blocks=400_000, events=100_000, visits=20_000)
"""In a launch that is given."""


@frozen(eq=False)
class Event:
    """A step, executed by threads of one path. Numbers stand by thread, in the order of `threads`, or once if they are all the same."""

    step: Step
    address: Numbers | None
    amount: Numbers | None
    target: Numbers | None
    visit: int
    """How many times the path had come to the instruction before."""
    mask: Numbers | None = None
    """The CTAs whose mbarriers are signalled, of what is multicast."""
    bytes: int | None = None
    """How many bytes are copied or accessed, if that is known."""
    values: tuple[Numbers | None, ...] = ()
    """The numbers that are stored one after the other, as far as they are known."""
    unit: int = 0
    """How many bytes each of those has."""
    exchange: Fetch | None = None
    """What a warp finds out together from `values`."""
    map: str = ""
    """The tensor map that says how many bytes are copied: a parameter, or `name+offset` for a part of one."""


@attrs.define(eq=False)
class Trace:
    """What a group of threads does."""

    rank: int
    """The CTA of the cluster."""
    threads: tuple[int, ...]
    events: list[Event]
    is_cut: bool = False
    is_lost: bool = False
    is_doubtful: bool = False
    """Whether it ends where a number that the kernel was launched with made it leave out something that others may wait for."""
    why: int = -1
    """The instruction at which it was lost."""
    unknown: Term | None = None
    """What would have to be known there."""


@attrs.define(eq=False)
class _Path:
    block: int
    at: int
    source: int
    skipped: int
    mask: int
    environment: Environment
    events: list[Event]
    rounds: dict[int, int]
    visits: dict[int, int]
    length: int
    is_doubtful: bool


class Tracer:
    """Follows the threads of one CTA. With a `setting` that is what the kernel is launched with, in the cluster of that number."""

    def __init__(
        self,
        routine: Routine,
        rank: int,
        ranks: int,
        setting: Setting | None = None,
        cluster: int = 0,
        examples: bool = False,
        launched_block: ThreadBlock | None = None,
        loaded: Mapping[Key, tuple[int, ...]] | None = None,
        end: float = math.inf,
        number: int = NUMBER,
    ) -> None:
        self.routine = routine
        self.number = number
        """What parameters are that may be counts."""
        self.rank = rank
        self.ranks = ranks
        self.setting = setting
        self.cluster = cluster
        self.examples = examples
        """Whether those who only ask for a phase find it completed."""
        self.loaded = loaded or {}
        """What is known of what threads load from shared memory: by CTA, thread, instruction, and how many times it came there before."""
        self.end = end
        """When nothing is followed further, by the monotonic clock."""
        self.out_of_bounds: set[int] = set()
        """Stores that may write what is loaded: where they write is not known."""
        self.used: set[int] = set()
        """The loads for which it was given what they load."""
        self.most = Most() if setting is None else MOST
        self.seen: set[int] = set()
        """The blocks that threads come to, or may come to."""
        self.reads_index = False
        """Whether anything depended on where in the grid the CTA is."""
        self.is_sized = cluster_size(routine) is not None
        """Whether it is known how many CTAs a cluster has."""
        self.flow = control_flow(routine)
        self.known = values(routine)
        self.thread_block = launched_block or thread_block_of(routine)
        self.steps = steps(routine) if setting is None else launched_steps(routine)
        self.spins = spins(routine)
        self.post = dominators(routine).post
        self.headers = {loop.header: loop for loop in loops(routine).loops}
        self._bases = layout(routine)
        self._parameters: list[tuple[str, Path]] = []
        if setting is not None:
            self._parameters = _parameters(routine)
            self._bases = self._bases | {key: PARAMETERS + (position << PARAMETER) for position, key in enumerate(self._parameters)}
        self._settle = (settler if setting is None else launched_settler)(routine).term
        self._put: dict[Term, Term] = {}
        self.guards: dict[int, Term] = {}
        self.events: dict[int, list[int]] = {}
        for i in self.steps:
            self.events.setdefault(self.flow.block_of[i], []).append(i)
            guard = self.known.guard(i)
            if guard is not None:
                self.guards[i] = guard
        self.calls: dict[int, int] = {}
        """By block, the first call after which nothing is known."""
        for i in calls(routine):
            if may_synchronize(routine, i):
                self.calls.setdefault(self.flow.block_of[i], i)
        self.sync_blocks = {
            self.flow.block_of[i] for i, own in self.steps.items() if any(step.does in SYNCHRONIZES and not _peeks(step) for step in own)
        }
        self.sync_blocks |= self.calls.keys()
        self.branches: dict[int, Term] = {}
        for block in self.flow.blocks:
            if len(block.edges) > 1 or (block.edges and block.leaves):
                guard = self.known.guard(block.end - 1)
                if guard is not None:
                    self.branches[block.index] = guard
        wanted = [*self.guards.values(), *self.branches.values()]
        own = [step for one in self.steps.values() for step in one]
        wanted += [term for step in own for term in (step.address, step.amount, step.target) if term is not None]
        if setting is not None:
            wanted += [term for step in own for term in (step.mask, step.pairs, step.map) if term is not None]
        self.fetches: dict[int, Fetch] = {}
        self.stores: dict[int, Store] = {}
        self.evaluator = self._evaluator(wanted)
        self._held: dict[Term, dict[int, int]] = {}
        """What was fetched, by thread, where that is not the same for all."""
        self._moves: dict[int, Step] = {}
        self._skipped: dict[int, list[tuple[int, Term | None]]] = {}
        """When something was not followed, by whom, and what was not known."""
        self._memory: dict[int, dict[Term, int | None]] = {}
        self._all_same: dict[Term, bool] = {}
        """Whether a term is the same for all threads."""
        self._by_launch: dict[int, bool] = {}
        self._left_out: dict[tuple[int, bool], bool] = {}
        self._regions: dict[tuple[int, int], int | None] = {}
        self._found: list[Trace] = []
        self._unknown: Term | None = None

    def _evaluator(self, wanted: list[Term]) -> Evaluator:
        if self.setting is None:
            # the same for all ranks, and for all numbers of threads
            shared = _evaluators(self.routine)
            if not shared:
                shared.append(Evaluator(self.routine, [self._settle(term) for term in wanted]))
            return shared[0]
        followed = frozenset([number for fetch in all_fetches(self.routine).values() for number in fetch.numbers])
        terms = [self._settle(term) for term in wanted]
        while True:
            found = Evaluator(self.routine, terms, followed)
            need = plan(self.routine, found.needed)
            if need.fetches.keys() == self.fetches.keys() and need.stores.keys() == self.stores.keys():
                break
            self.fetches, self.stores = need.fetches, need.stores
            terms = [self._settle(term) for term in (*wanted, *need.terms)]
        for i in (*self.fetches, *self.stores):
            guard = self.known.guard(i)
            if guard is not None:
                self.guards[i] = guard
            own = self.events.setdefault(self.flow.block_of[i], [])
            if i not in own:
                own.append(i)
                own.sort()
        return found

    # --- numbers

    def _given(self, term: Term) -> Term:
        """A term in which what the kernel is launched with are numbers."""
        term = self._settle(term)
        done = self._put
        found = done.get(term)
        if found is not None:
            return found
        stack = [term]
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            if at.operator == "join":
                done[at] = at
            elif at.is_leaf:
                number = self._leaf(at)
                done[at] = at if number is None else self.known.terms.constant(number, at.width)
            else:
                missing = [inner for inner in at.inner if inner not in done]
                if missing:
                    stack += missing
                    continue
                same = all(done[inner] is inner for inner in at.inner)
                done[at] = at if same else rebuilt(self.known.terms, at, done)
            stack.pop()
        return done[term]

    def _leaf(self, leaf: Term) -> int | None:
        """The number of a leaf that is the same for all threads of the CTA."""
        if leaf.operator == "parameter":
            return _parameter(leaf, self.number) if self.setting is None else _given_parameter(leaf, self.setting)
        if leaf.operator == "address":
            symbol = self.known.symbol(leaf)
            base = self._bases.get((symbol.name, symbol.path)) if symbol is not None else None
            return base if base is None or base >= PARAMETERS else base | self.rank << RANK
        if leaf.operator == "window":
            if leaf.data[0] == ".param" and self.setting is not None:
                return 0
            return SHARED_WINDOW if leaf.data[0] == ".shared" else None
        if leaf.operator == "peer":
            rank = leaf.data[0]
            assert isinstance(rank, Term)
            number = self._given(rank).constant if self.is_sized else None
            # what it is added to names this CTA
            return None if number is None else (number - self.rank) << RANK
        if leaf.operator == "special":
            name = str(leaf.data[0])
            stem, _, component = name.partition(".")
            position = "xyz".find(component) if component else -1
            if self.setting is not None:
                return self._launched(stem, position)
            if stem == "%ctaid":
                return self.rank if position == 0 else 0
            if stem == "%nctaid":
                return GRID[position]
            if stem == "%ntid":
                return self.thread_block.shape[position]
            if not self.is_sized:
                return None
            return {
                "%cluster_ctarank": self.rank,
                "%cluster_nctarank": self.ranks,
                "%cluster_ctaid.x": self.rank,
                "%cluster_ctaid.y": 0,
                "%cluster_ctaid.z": 0,
                "%cluster_nctaid.x": self.ranks,
                "%cluster_nctaid.y": 1,
                "%cluster_nctaid.z": 1,
            }.get(name)
        return None

    def _launched(self, stem: str, position: int) -> int | None:
        """The number in a special register of a kernel that is launched so."""
        setting = self.setting
        assert setting is not None
        if stem in ("%ctaid", "%clusterid"):
            self.reads_index = True
            at = setting.index(self.cluster, self.rank)[position]
            return at if stem == "%ctaid" else at // setting.cluster[position]
        if stem in ("%nctaid", "%nclusterid"):
            return setting.grid[position] if stem == "%nctaid" else setting.grid[position] // setting.cluster[position]
        return {
            "%ntid": setting.block[position],
            "%cluster_ctaid": setting.within(self.rank)[position],
            "%cluster_nctaid": setting.cluster[position],
            "%cluster_ctarank": self.rank,
            "%cluster_nctarank": self.ranks,
        }.get(stem)

    def numbers(self, term: Term, path: _Path) -> Numbers | None:
        """What a term is for each thread of a path, or once for all; None if it is not known."""
        put = self.evaluator.term(self._given(term), path.environment)
        if put.constant is not None:
            return (put.constant,)
        return self._numbers(put, path.mask)

    def _numbers(self, put: Term, mask: int) -> Numbers | None:
        vector = self.thread_block.vector(put)
        if vector is not None:
            return vector if mask == self.thread_block.everyone else tuple([vector[thread] for thread in listed(mask)])
        threads = listed(mask)
        is_same = self._all_same.get(put)
        if is_same is None:
            is_same = self._all_same[put] = not any(map(self._differs, put.leaves()))
        found = []
        for thread in threads[:1] if is_same else threads:
            memory = self._memory.setdefault(thread, {})
            number = number_of(put, lambda leaf, thread=thread: self._of_thread(leaf, thread), memory)  # type: ignore[misc]
            if number is None:
                return None
            found.append(number)
        return tuple(found) * len(threads) if is_same else tuple(found)

    def _differs(self, leaf: Term) -> bool:
        """Whether a leaf may be something else for another thread."""
        return leaf.operator in ("collective", "peer", "held") or (
            leaf.operator == "special" and self.thread_block.vector(leaf) is not None
        )

    def _of_thread(self, leaf: Term, thread: int) -> int | None:
        if leaf.operator == "special":
            vector = self.thread_block.vector(leaf)
            return vector[thread] if vector is not None else self._leaf(leaf)
        if leaf.operator == "collective":
            # the lowest lane is elected
            return int(thread % WARP == 0) if str(leaf.data[0]).startswith("elect") and leaf.width == 1 else None
        if leaf.operator == "peer":
            rank = leaf.data[0]
            assert isinstance(rank, Term)
            number = number_of(self._given(rank), lambda inner: self._of_thread(inner, thread)) if self.is_sized else None
            return None if number is None else (number - self.rank) << RANK
        if leaf.operator == "held":
            return self._held[leaf].get(thread)
        if leaf.operator == "value" and leaf.width == 1:
            value = ssa(self.routine).values[leaf.data[0]]  # type: ignore[call-overload]
            own = self.steps.get(value.instruction, ())
            if value.origin is Origin.WRITE and any(step.does is Does.WAIT for step in own):
                return int(self.examples or value.instruction in self.spins)
        return self._leaf(leaf)

    # --- paths

    def run(self) -> list[Trace]:
        """The traces of all threads of the CTA."""
        first = _Path(0, 0, -1, -1, self.thread_block.everyone, {}, [], {}, {}, 0, False)
        stack = [first]
        found = self._found
        while stack:
            path = stack.pop()
            if len(stack) + len(found) >= self.most.paths:
                found.append(self._end(path, lost=True))
                continue
            while True:
                after = self._through(path, stack)
                if after is not None:
                    found.append(after)
                    break
                if path.is_doubtful:
                    # what the path would do otherwise, others may wait for
                    found.append(self._end(path, lost=True))
                    break
        return found

    def _end(self, path: _Path, lost: bool = False, cut: bool = False, why: int = -1, unknown: Term | None = None) -> Trace:
        if self.setting is not None:
            unknown = self._blamed(unknown, path)
        return Trace(self.rank, listed(path.mask), path.events, cut, lost, path.is_doubtful, why, unknown)

    def _fork(self, path: _Path, mask: int) -> _Path:
        """The other threads of a path, which go on by themselves."""
        other = attrs.evolve(path, mask=path.mask & ~mask, rounds=dict(path.rounds), visits=dict(path.visits))
        keep = [position for position, thread in enumerate(listed(path.mask)) if not mask >> thread & 1]
        other.events = [_narrowed(event, keep) for event in path.events]
        kept = [position for position, thread in enumerate(listed(path.mask)) if mask >> thread & 1]
        path.events = [_narrowed(event, kept) for event in path.events]
        path.mask &= mask
        return other

    def _holds(self, condition: Term, path: _Path) -> int | None:
        """The threads of a path for which a condition holds; None if it is not known."""
        numbers = self.numbers(condition, path)
        if numbers is None:
            return None
        if len(set(numbers)) == 1:
            return path.mask if numbers[0] else 0
        found = 0
        for thread, number in zip(listed(path.mask), numbers, strict=True):
            found |= bool(number) << thread
        return found

    def _through(self, path: _Path, stack: list[_Path]) -> Trace | None:
        """Takes a path through its block and on to the next. A trace if it ends there; those that part from it are put on the stack."""
        block = self.flow.blocks[path.block]
        if path.at == 0:
            self.seen.add(path.block)
            path.length += 1
            is_late = path.length & 255 == 0 and self.setting is not None and time.monotonic() > self.end
            if path.length > self.most.blocks or len(path.events) > self.most.events or is_late:
                return self._end(path, cut=True, why=block.start)
            if path.source >= 0 or path.skipped >= 0:
                if path.skipped >= 0:
                    path.environment = self.evaluator.skip(path.block, path.skipped, path.environment, path.length)
                else:
                    path.environment = self.evaluator.enter(path.block, path.source, path.environment, path.length, self._given)
            loop = self.headers.get(path.block)
            if loop is not None and path.source >= 0:
                rounds = path.rounds.get(path.block, 0) + 1 if loop.blocks >> path.source & 1 else 0
                path.rounds[path.block] = rounds
                if rounds > self.most.rounds:
                    return None if self._leave_loop(path, loop) else self._end(path, cut=True, why=block.start)
        called = self.calls.get(path.block, block.end)
        for i in self.events.get(path.block, ()):
            if i < block.start + path.at:
                continue
            if i > called:
                break
            if i in self.fetches:
                self._fetch(self.fetches[i], path)
            if i in self.stores:
                self._store(self.stores[i], path)
            if i not in self.steps:
                continue
            guard = self.guards.get(i)
            if guard is not None and not (i == block.end - 1 and block.edges and len(block.edges) > 1):
                where = self._holds(guard, path)
                if where is None:
                    if any(step.does in SYNCHRONIZES and not _peeks(step) for step in self.steps[i]):
                        return self._end(path, lost=True, why=i, unknown=guard)
                    continue
                if not where:
                    if any(step.does in SYNCHRONIZES for step in self.steps[i]) and self._is_by_launch(guard, path, False):
                        path.is_doubtful = True
                        return self._end(path, lost=True, why=i, unknown=guard)
                    continue
                if where != path.mask and self.setting is not None and all(step.does in ACCESSES for step in self.steps[i]):
                    self._access(i, path, where)
                    continue
                if where != path.mask:
                    other = self._fork(path, where)
                    other.at = i + 1 - block.start
                    stack.append(other)
            if not self._execute(i, path):
                return self._end(path, lost=True, why=i, unknown=self._unknown)
        if called < block.end:
            return self._end(path, lost=True, why=called)
        return self._leave(path, stack)

    def _execute(self, i: int, path: _Path) -> bool:
        """Adds the events of an instruction. False if it synchronizes with what is not known."""
        visit = path.visits.get(i, 0)
        path.visits[i] = visit + 1
        for step in self.steps[i]:
            synchronizes = step.does in SYNCHRONIZES and not _peeks(step)
            self._unknown = None
            if not synchronizes and visit >= self.most.visits:
                continue
            mask_ = step.mask if step.pairs is None or self.setting is None else step.pairs
            address, amount, target, mask = [
                None if term is None else self.numbers(term, path) for term in (step.address, step.amount, step.target, mask_)
            ]
            if not synchronizes and step.does is not Does.FENCE and (address is None or not (step.bytes or _peeks(step))):
                continue
            if synchronizes:
                missing = _missing(step, address, amount, mask)
                if missing is not _NOTHING:
                    self._unknown = missing if isinstance(missing, Term) else None
                    return False
            if self.setting is not None and mask is None and step.is_everywhere:
                mask = ((1 << self.ranks) - 1,)
            map_ = self._map(step, path) if step.map is not None and self.setting is not None else ""
            event = Event(step, address, amount, target, visit, mask, self._bytes(step, amount, map_), map=map_)
            store = self.stores.get(i) if step.does is Does.COPY else None
            if store is not None:
                event = attrs.evolve(event, values=self._data(store, path), unit=store.unit)
            fetch = self.fetches.get(i) if step.does is Does.JOIN else None
            if fetch is not None and (fetch.lane is not None or fetch.votes):
                values_ = (self.numbers(fetch.inputs[0], path), self._members(fetch, path))
                event = attrs.evolve(event, visit=path.visits[~i] - 1, values=values_, exchange=fetch)
            path.events.append(event)
        return True

    def _access(self, i: int, path: _Path, where: int) -> None:
        """Adds the accesses of some threads of a path; the others take the same path, and access nothing."""
        first = len(path.events)
        self._execute(i, path)
        threads = listed(path.mask)
        for position in range(first, len(path.events)):
            event = path.events[position]
            assert event.address is not None
            own = event.address * len(threads) if len(event.address) == 1 else event.address
            address = tuple([one if where >> thread & 1 else NOWHERE for one, thread in zip(own, threads, strict=True)])
            path.events[position] = attrs.evolve(event, address=address)

    # --- what is loaded and stored

    def _fetch(self, fetch: Fetch, path: _Path) -> None:
        """Puts what an instruction gives registers into the environment of a path."""
        threads = listed(path.mask)
        guard = self.guards.get(fetch.instruction)
        where = path.mask if guard is None else self._holds(guard, path)
        visit = path.visits.get(~fetch.instruction, 0)
        path.visits[~fetch.instruction] = visit + 1
        columns: list[Numbers | None] = [None] * len(fetch.numbers)
        if where is not None:
            columns = self._fetched(fetch, path, where, visit)
        environment = dict(path.environment)
        for number, before, column in zip(fetch.numbers, fetch.before, columns, strict=True):
            width = self.known.of(number).width
            if column is not None and where != path.mask:
                old = self.numbers(before, path) if before is not None else None
                if old is None:
                    column = None
                else:
                    old = old * len(threads) if len(old) == 1 else old
                    column = tuple([column[k] if where >> thread & 1 else old[k] for k, thread in enumerate(threads)])  # type: ignore[operator]
            if column is None:
                environment[number] = self.known.terms.leaf("value", width, (number, path.length))
            elif len(set(column)) == 1:
                environment[number] = self.known.terms.constant(column[0] & (1 << width) - 1, width)
            else:
                leaf = self.known.terms.leaf("held", width, (number, path.length))
                self._held.setdefault(leaf, {}).update(zip(threads, [one & (1 << width) - 1 for one in column], strict=True))
                environment[number] = leaf
        path.environment = environment

    def _fetched(self, fetch: Fetch, path: _Path, where: int, visit: int) -> list[Numbers | None]:
        """What each register gets, for each thread of a path; threads that are not in `where` get no matter what there is."""
        count = path.mask.bit_count()
        unknown: list[Numbers | None] = [None] * len(fetch.numbers)
        if fetch.address is not None:
            return self._load(fetch, path, where, visit) or unknown
        if fetch.lane is not None or fetch.votes:
            return [self._exchanged(fetch, path, where, visit)]
        inputs = self.numbers(fetch.inputs[0], path)
        if inputs is None:
            return unknown
        inputs = inputs * count if len(inputs) == 1 else inputs
        if fetch.compares:
            others = self.numbers(fetch.inputs[1], path)
            if others is None:
                return unknown
            pairs = zip(inputs, others * count if len(others) == 1 else others, strict=True)
            return [tuple([compared(fetch.compares, fetch.kind, fetch.flushes, one, other) for one, other in pairs])]
        mask = (1 << COORDINATE) - 1
        return [tuple([one >> low & (mask if low < CANCELED else 1) for one in inputs]) for low in fetch.low]

    def _exchanged(self, fetch: Fetch, path: _Path, where: int, visit: int) -> Numbers | None:
        """What warps find out together, from the threads on this path or else as it was in a run."""
        threads = listed(path.mask)
        inputs = self.numbers(fetch.inputs[0], path)
        members = self._members(fetch, path)
        held: dict[int, dict[int, int]] = {}
        if inputs is not None:
            for thread, number in zip(threads, inputs * len(threads) if len(inputs) == 1 else inputs, strict=True):
                if where >> thread & 1:
                    held.setdefault(thread // WARP, {})[thread % WARP] = number
        found: list[int] = []
        for position, thread in enumerate(threads):
            if not where >> thread & 1:
                found.append(0)
                continue
            number_ = None
            if members is not None:
                mask = members[0 if len(members) == 1 else position]
                number_ = exchanged(fetch, thread % WARP, held.get(thread // WARP, {}), mask)
            if number_ is None:
                number_ = self.loaded.get((self.rank, thread, fetch.instruction, visit), (None,))[0]
            if number_ is None:
                return None
            found.append(number_)
        return tuple(found)

    def _members(self, fetch: Fetch, path: _Path) -> Numbers | None:
        return self.numbers(fetch.inputs[1], path) if fetch.votes else ((1 << WARP) - 1,)

    def _load(self, fetch: Fetch, path: _Path, where: int, visit: int) -> list[Numbers | None] | None:
        assert fetch.address is not None and self.setting is not None
        threads = listed(path.mask)
        addresses = self.numbers(fetch.address, path) if fetch.space in (SHARED, "") else None
        is_shared = fetch.space == SHARED or (addresses is not None and fetch.space == "" and all(map(_in_window, addresses)))
        if fetch.space == ".param" or (fetch.space == "" and addresses and all(self._parameter_at(one) for one in addresses)):
            return self._load_parameter(fetch, path)
        if not is_shared:
            if fetch.space == "" and (addresses is None or any(map(_in_window, addresses))):
                return None
            return self._outside(fetch, path)
        if addresses is None or fetch.updates:
            return None
        addresses = addresses * len(threads) if len(addresses) == 1 else addresses
        step = self._move(fetch.instruction, Does.FETCH, fetch.address, fetch.unit * (max(fetch.positions) + 1) if fetch.positions else 0)
        own = tuple([address if where >> thread & 1 else NOWHERE for thread, address in zip(threads, addresses, strict=True)])
        path.events.append(Event(step, own, None, None, visit, unit=fetch.unit))
        columns: list[list[int]] = [[] for _ in fetch.numbers]
        for thread in threads:
            if not where >> thread & 1:
                found: tuple[int, ...] | None = (0,) * (max(fetch.positions) + 1)
            else:
                found = self.loaded.get((self.rank, thread, fetch.instruction, visit))
            if found is None:
                return None
            for column, position in zip(columns, fetch.positions, strict=True):
                column.append(_extended(found[position], fetch))
        return [tuple(column) for column in columns]

    def _load_parameter(self, fetch: Fetch, path: _Path) -> list[Numbers | None] | None:
        """What lies in parameters, at an address that is known on a path only."""
        assert fetch.address is not None and self.setting is not None
        addresses = self.numbers(fetch.address, path)
        if addresses is None:
            return None
        columns: list[Numbers | None] = []
        for position in fetch.positions:
            column = []
            for address in addresses:
                at = self._parameter_at(address + position * fetch.unit)
                number = _given(at[0], at[1], self.setting) if at is not None else None
                if number is None:
                    return None
                column.append(_extended(number, fetch))
            columns.append(tuple(column) * (path.mask.bit_count() if len(column) == 1 else 1))
        return columns

    def _outside(self, fetch: Fetch, path: _Path) -> list[Numbers | None] | None:
        """What a load of other memory gives, as the launch says."""
        assert fetch.address is not None and self.setting is not None
        if fetch.space not in (".global", ".const", ""):
            return None
        memory, base = self.setting.memory.get(ANY), 0
        for leaf in fetch.address.leaves():
            if leaf.operator in ("parameter", "address") and str(leaf.data[0]) in self.setting.memory:
                memory = self.setting.memory[str(leaf.data[0])]
            if leaf.operator == "parameter" and leaf.width == POINTER_BITS:
                base = _given_parameter(leaf, self.setting) or 0
        if memory is None:
            return None
        first, more = memory
        addresses: Numbers | None = (base,)
        if more:
            addresses = self.numbers(fetch.address, path)
        if addresses is None:
            return None
        self.used.add(fetch.instruction)
        count = path.mask.bit_count() if len(addresses) == 1 else 1
        indices = [(address - base) // fetch.unit for address in addresses]
        return [tuple([_extended(first + (index + position) * more, fetch) for index in indices]) * count for position in fetch.positions]

    def _store(self, store: Store, path: _Path) -> None:
        """Notes what is written to shared memory."""
        if any(step.does is Does.COPY for step in self.steps.get(store.instruction, ())):
            # it comes later, and has an event of its own
            return
        guard = self.guards.get(store.instruction)
        where = path.mask if guard is None else self._holds(guard, path)
        if where == 0:
            return
        addresses = self.numbers(store.address, path)
        if addresses is None:
            self.out_of_bounds.add(store.instruction)
            return
        values = self._data(store, path) if where is not None else (None,) * len(store.data)
        if where not in (None, path.mask):
            threads = listed(path.mask)
            addresses = addresses * len(threads) if len(addresses) == 1 else addresses
            addresses = tuple([one if where and where >> thread & 1 else NOWHERE for one, thread in zip(addresses, threads, strict=True)])
        step = self._move(store.instruction, Does.STORE, store.address, store.unit * len(store.data))
        path.events.append(Event(step, addresses, None, None, 0, values=values, unit=store.unit))

    def _data(self, store: Store, path: _Path) -> tuple[Numbers | None, ...]:
        return tuple([None if term is None else self.numbers(term, path) for term in store.data])

    def _move(self, i: int, does: Does, address: Term, size: int) -> Step:
        """The step that a fetch or a store is; each instruction has one."""
        if i not in self._moves:
            self._moves[i] = Step(i, does, address, bytes=size)
        return self._moves[i]

    def _blamed(self, term: Term | None, path: _Path) -> Term | None:
        """What in a term is not known."""
        if term is None:
            return None
        put = self.evaluator.term(self._given(term), path.environment)
        thread = listed(path.mask)[0]
        for leaf in put.leaves():
            if self._of_thread(leaf, thread) is None:
                if leaf.operator == "skipped":
                    tick = leaf.data[1]
                    for mask, cause in self._skipped.get(tick, ()) if isinstance(tick, int) else ():
                        if mask >> thread & 1 and cause is not None:
                            return cause
                return leaf
        return term

    def _map(self, step: Step, path: _Path) -> str:
        """The tensor map of a copy, as launches name it; empty if it is not known."""
        assert step.map is not None
        numbers = self.numbers(step.map, path)
        if numbers is not None and len(set(numbers)) == 1:
            found = self._parameter_at(numbers[0])
            if found is not None:
                return f"{found[0]}+{found[1]}" if found[1] else found[0]
        for leaf in step.map.leaves():
            if leaf.operator in ("address", "parameter"):
                offset = step.map.linear[0] if leaf.operator == "address" else leaf.data[2]
                return f"{leaf.data[0]}+{offset}" if offset else str(leaf.data[0])
        return ""

    def _parameter_at(self, address: int) -> tuple[str, int] | None:
        """The parameter that lies at an address, and how far from its start."""
        if not PARAMETERS <= address < PARAMETERS + (len(self._parameters) << PARAMETER):
            return None
        position, offset = divmod(address - PARAMETERS, 1 << PARAMETER)
        return self._parameters[position][0], offset

    def _bytes(self, step: Step, amount: Numbers | None, map_: str) -> int | None:
        """How many bytes a step copies or accesses."""
        if step.bytes is not None or step.does is not Does.COPY:
            return step.bytes
        if amount is not None:
            return amount[0] if len(set(amount)) == 1 else None
        if step.map is None or self.setting is None:
            return None
        for key in (map_, map_.partition("+")[0]):
            if key in self.setting.boxes:
                return self.setting.boxes[key]
        return None

    def _leave(self, path: _Path, stack: list[_Path]) -> Trace | None:
        block = self.flow.blocks[path.block]
        if not block.edges:
            return self._end(path, lost=block.leaves not in ("return", "exit"), why=block.end - 1)
        condition = self.branches.get(path.block)
        if condition is None:
            if len(block.successors) != 1:
                return self._end(path, lost=True, why=block.end - 1)
            self._to(path, block.successors[0])
            return None
        where = self._holds(condition, path)
        if where is None:
            return self._over(path)
        if where not in (0, path.mask):
            other = self._fork(path, where)
            ended = self._along(other, False)
            if ended is None:
                stack.append(other)
            else:
                self._found.append(ended)
            where = path.mask
        elif not self._are_all(path) and self._leaves_out(path.block, bool(where)) and self._is_by_launch(condition, path, bool(where)):
            path.is_doubtful = True
        return self._along(path, bool(where))

    def _along(self, path: _Path, holds: bool) -> Trace | None:
        """On by the edge that is taken if the guard holds, or not."""
        for edge in self.flow.blocks[path.block].edges:
            if _agrees(edge, holds):
                self._to(path, edge.target)
                return None
        return self._end(path)

    def _to(self, path: _Path, target: int) -> None:
        path.source, path.skipped, path.block, path.at = path.block, -1, target, 0

    def _over(self, path: _Path) -> Trace | None:
        """To where the paths merge again, if nothing on them matters to other threads; what is known of those accesses is dropped."""
        meet = self.post.parent[path.block] if path.block in self.post else -1
        region = self._region(path.block, meet) if 0 <= meet < len(self.flow.blocks) else None
        if region is None or any(region >> block & 1 for block in self.sync_blocks):
            return self._end(path, lost=True, why=self.flow.blocks[path.block].end - 1, unknown=self.branches.get(path.block))
        self._leave_open(region)
        if self.setting is not None:
            cause = self._blamed(self.branches.get(path.block), path)
            self._skipped.setdefault(path.length + 1, []).append((path.mask, cause))
        path.source, path.skipped, path.block, path.at = path.block, region, meet, 0
        return None

    def _leave_loop(self, path: _Path, loop: Loop) -> bool:
        """To where a loop in which nothing matters to other threads is left; False if something does."""
        if any(loop.blocks >> block & 1 for block in self.sync_blocks):
            return False
        meet = path.block
        while meet >= 0 and loop.blocks >> meet & 1:
            meet = self.post.parent[meet] if meet in self.post else -1
        if not 0 <= meet < len(self.flow.blocks):
            return False
        self._leave_open(loop.blocks)
        path.source, path.skipped, path.block, path.at = path.block, loop.blocks, meet, 0
        return True

    def _leave_open(self, blocks: int) -> None:
        """Notes blocks that threads may come to, and are not followed through."""
        self.seen.update(bits(blocks))
        self.out_of_bounds.update([i for i in self.stores if blocks >> self.flow.block_of[i] & 1])

    def _region(self, start: int, meet: int) -> int | None:
        """The blocks on the paths from a block to where they meet; None if they come back to it."""
        key = (start, meet)
        if key not in self._regions:
            found = 0
            work = list(self.flow.blocks[start].successors)
            while work:
                at = work.pop()
                if at == meet or found >> at & 1:
                    continue
                if at == start:
                    found = -1
                    break
                found |= 1 << at
                work += self.flow.blocks[at].successors
            self._regions[key] = None if found < 0 else found
        return self._regions[key]

    # --- what the launch decides

    def _are_all(self, path: _Path) -> bool:
        """Whether all whom the path could be waited for by are on it: threads that meet nowhere but at barriers of their CTA."""
        return path.mask == self.thread_block.everyone and self.ranks == 1 and self.setting is None and meets_at_barriers_only(self.routine)

    def _leaves_out(self, index: int, holds: bool) -> bool:
        """Whether a path that leaves a block this path leaves out barriers that it would come to on the other."""
        key = (index, holds)
        if key not in self._left_out:
            self._left_out[key] = any(
                self._meets(edge.target, self.post.parent[index])
                for edge in self.flow.blocks[index].edges
                if not _agrees(edge, holds) and edge.target != self.post.parent[index]
            )
        return self._left_out[key]

    def _meets(self, start: int, meet: int) -> bool:
        """Whether something that others wait for is on a path from a block to where paths merge."""
        seen = 1 << meet if 0 <= meet < len(self.flow.blocks) else 0
        work = [start]
        while work:
            at = work.pop()
            if seen >> at & 1:
                continue
            seen |= 1 << at
            if at in self.sync_blocks:
                return True
            work += self.flow.blocks[at].successors
        return False

    def _is_by_launch(self, condition: Term, path: _Path, holds: bool) -> bool:
        """Whether a condition would not be what it is for all threads of a path if the kernel were launched with other numbers."""
        if self.setting is not None:
            return False
        key = condition.serial
        found = self._by_launch.get(key)
        if found is None:
            found = self._by_launch[key] = self._find_launch(condition)
        if not found:
            return False
        term = self.evaluator.term(self._settle(condition), path.environment)
        threads = listed(path.mask)
        if not any(leaf.operator in ("special", "collective", "peer") for leaf in term.leaves()):
            # nothing in it distinguishes threads
            threads = threads[:1]
        for other in (0, 1, 1 << 20):
            for thread in threads:
                number = number_of(term, lambda leaf, thread=thread, other=other: self._otherwise(leaf, thread, other))  # type: ignore[misc]
                if number is None or bool(number) is not holds:
                    return True
        return False

    def _otherwise(self, leaf: Term, thread: int, number: int) -> int | None:
        """What a leaf may be in another launch."""
        if leaf.operator == "parameter" or (leaf.operator == "special" and "ctaid" in str(leaf.data[0])):
            return number
        return self._of_thread(leaf, thread)

    def _find_launch(self, term: Term) -> bool:
        seen: set[int] = set()
        work = [term]
        while work:
            at = work.pop()
            for leaf in at.leaves():
                if leaf.operator == "parameter" or (leaf.operator == "special" and "ctaid" in str(leaf.data[0])):
                    return True
            for number in self.evaluator.needs(self._settle(at)):
                if number not in seen:
                    seen.add(number)
                    value = self.evaluator.numbering[number]
                    if value.origin is Origin.PHI:
                        work += [self.known.of(operand) for operand in value.operands if operand >= 0]
        return False


@fact
def meets_at_barriers_only(routine: Routine) -> bool:
    """Whether threads wait for one another at barriers of their CTA and nowhere else, for one piece of work.

    How often a CTA takes another piece, by the size of the grid, is for who launches the kernel to say: perhaps never.
    """
    if any(name.startswith("%nctaid") for name in specials(routine)):
        return False
    return not any(step.does in SYNCHRONIZES - MEETS for own in steps(routine).values() for step in own)


_NOTHING = object()


def _missing(step: Step, address: Numbers | None, amount: Numbers | None, mask: Numbers | None) -> object:
    """What would have to be known to follow a step that others wait for: a term, or None where there is not even that."""
    if address is None and (step.address is not None or step.does in _NEEDS_ADDRESS):
        return step.address
    if amount is None and step.amount is not None and step.does is not Does.COPY:
        return step.amount
    if mask is None and step.is_multicast:
        return step.mask
    return _NOTHING


_NEEDS_ADDRESS = frozenset((Does.INIT, Does.INVAL, Does.EXPECT, Does.ARRIVE, Does.WAIT, Does.COPY, Does.BARRIER_SYNC, Does.BARRIER_ARRIVE))


def _agrees(edge: Edge, holds: bool) -> bool:
    return edge.via is (Via.TAKEN if holds else Via.NOT_TAKEN)


def _peeks(step: Step) -> bool:
    """Whether it only asks, and goes on no matter what the answer is."""
    return step.does is Does.WAIT and not step.is_spinning


def _narrowed(event: Event, keep: list[int]) -> Event:
    """An event for some of its threads."""
    address, amount, target, mask = [_some(numbers, keep) for numbers in (event.address, event.amount, event.target, event.mask)]
    values_ = tuple([_some(numbers, keep) for numbers in event.values]) if event.values else ()
    return attrs.evolve(event, address=address, amount=amount, target=target, mask=mask, values=values_)


def _some(numbers: Numbers | None, keep: list[int]) -> Numbers | None:
    return numbers if numbers is None or len(numbers) == 1 else tuple([numbers[position] for position in keep])


@fact
def _evaluators(routine: Routine) -> list[Evaluator]:
    """The evaluator of all runs of a kernel of which the launch is not known, if there was one."""
    return []


def _parameters(routine: Routine) -> list[tuple[str, Path]]:
    """The parameters of a function."""
    return [
        (symbol.name, symbol.path)
        for path, scope in routine.names.scopes.items()
        if path[: len(routine.path)] == routine.path
        for symbol in scope.symbols.values()
        if symbol.kind is Kind.PARAMETER
    ]


def _in_window(address: int) -> bool:
    """Whether a generic address is one of shared memory."""
    return SHARED_WINDOW <= address < SHARED_WINDOW + (1 << RANK + 8)


def _extended(number: int, fetch: Fetch) -> int:
    """A number as it stands in a register after it was loaded; of narrower types with its sign."""
    bits_ = 8 * fetch.unit
    number &= (1 << bits_) - 1
    return number - (1 << bits_) if fetch.is_signed and number >> bits_ - 1 else number


def _parameter(leaf: Term, number: int) -> int:
    """What a parameter is: a pointer if it is as wide as one, else a count, which is that number."""
    if leaf.width == 64:
        return POINTER + (hash_of(leaf) << 28)
    return number if leaf.width >= 16 else 1


def _given_parameter(leaf: Term, setting: Setting) -> int | None:
    """What a parameter, or a part of one, is in a launch; None if that is not said."""
    number = _given(str(leaf.data[0]), leaf.data[2], setting)
    return None if number is None else number & ((1 << leaf.width) - 1)


def _given(name: str, offset: object, setting: Setting) -> int | None:
    """What lies so far from the start of a parameter."""
    number = setting.parameters.get(f"{name}+{offset}")
    if number is None and not offset:
        number = setting.parameters.get(name)
    return setting.parameters.get(ANY) if number is None else number


def hash_of(leaf: Term) -> int:
    """A number that distinguishes parameters, the same on every run."""
    return sum(ord(letter) * (position + 1) for position, letter in enumerate(f"{leaf.data[0]}+{leaf.data[2]}")) & 0x3FF


@fact
def layout(routine: Routine) -> dict[tuple[object, ...], int]:
    """The addresses of shared variables: those of a declared size one after the other, after them all others, which share a location."""
    found: dict[tuple[object, ...], int] = {}
    of_function = _shared_variables(routine.names)
    shared = of_function.get((), []) + of_function.get(routine.path, [])
    at = FIRST
    open_: list[tuple[object, ...]] = []
    for symbol in shared:
        size = size_of(symbol)
        if symbol.linkage == ".extern" or not size:
            open_.append((symbol.name, symbol.path))
            continue
        align = max(1, alignment_of(symbol))
        at = (at + align - 1) // align * align
        found[symbol.name, symbol.path] = at
        at += size
    at = (at + 1023) // 1024 * 1024
    for key in open_:
        found[key] = at
    return found


@per_object
def _shared_variables(names: Names) -> dict[Path, list[Symbol]]:
    """The shared variables of the module itself and, by its path, of each function."""
    found: dict[Path, list[Symbol]] = {}
    for path, scope in names.scopes.items():
        own = [symbol for symbol in scope.symbols.values() if symbol.kind is Kind.VARIABLE and (symbol.space or "").startswith(".shared")]
        if own:
            found.setdefault(path[:1], []).extend(own)
    return found


def traces(routine: Routine, ranks: int, launched_block: ThreadBlock | None = None, number: int = NUMBER) -> list[Trace]:
    """The traces of all threads of a cluster of so many CTAs with the threads of `squad`. Parameters that may be counts are `number`."""
    found: list[Trace] = []
    for rank in range(ranks):
        found += Tracer(routine, rank, ranks, launched_block=launched_block, number=number).run()
    return found


def warps_of(threads: Iterable[int]) -> dict[int, list[int]]:
    """By warp, the locations in a sequence of threads where those of the warp stand."""
    found: dict[int, list[int]] = {}
    for position, thread in enumerate(threads):
        found.setdefault(thread // WARP, []).append(position)
    return found
