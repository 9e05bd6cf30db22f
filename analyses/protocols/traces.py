"""What the threads of a CTA do, one thing after the other, when the kernel is launched with certain numbers.

Threads that go the same way are followed together; where a branch or a guard tells them apart they go on in groups. Everything that does
not depend on memory is a number then: shared variables are given addresses, parameters and the place of the CTA numbers that suit most
kernels. So a ring of stages needs no recognising, however its index and its parity are made. What is loaded is not known: a trace ends
where it would have to be, which makes it `lost`; one that goes round a loop too often is `cut`. Nothing may be concluded from what does
not happen after either.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ptxkit.analyses.accesses import size_of
from ptxkit.analyses.bits import bits, listed
from ptxkit.analyses.cfg import Edge, Via, callees, control_flow, flow_of
from ptxkit.analyses.dominators import dominators
from ptxkit.analyses.launch import WARP
from ptxkit.analyses.loops import Loop, loops
from ptxkit.analyses.protocols.environment import Environment, Evaluator, rebuilt, settler
from ptxkit.analyses.protocols.setting import ANY, Setting
from ptxkit.analyses.protocols.steps import SYNCHRONIZES, Does, Step, spins, steps
from ptxkit.analyses.protocols.team import Team, team
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import Origin, ssa
from ptxkit.analyses.terms import Term, evaluate, inside
from ptxkit.analyses.values import alignment_of, values
from ptxkit.frozen import frozen
from ptxkit.memo import per_object
from ptxkit.names import Kind, Names, Symbol
from ptxkit.syntax.constants import constant_value
from ptxkit.syntax.nodes import Path

SHARED_WINDOW = 1 << 44
"""Where generic addresses of shared memory begin."""
RANK = 24
"""From this bit on, an address of shared memory says which CTA of the cluster it lies in."""
FIRST = 1024
NUMBER = 4096
"""What a parameter is that may be a count: such a number has many divisors, and is more than any ring is long."""
POINTER = 1 << 40
GRID = (128, 16, 16)
Numbers = tuple[int, ...]


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
    """The CTAs whose objects are told, of what is multicast."""
    bytes: int | None = None
    """How many bytes are copied or touched, if that is known."""


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
        luck: bool = False,
        squad: Team | None = None,
    ) -> None:
        self.routine = routine
        self.rank = rank
        self.ranks = ranks
        self.setting = setting
        self.cluster = cluster
        self.luck = luck
        """Whether those who only ask for a phase find it completed."""
        self.most = Most() if setting is None else MOST
        self.seen: set[int] = set()
        """The blocks that threads come to, or may come to."""
        self.looks_at_place = False
        """Whether anything depended on where in the grid the CTA is."""
        self.is_sized = cluster_size(routine) is not None
        """Whether it is known how many CTAs a cluster has."""
        self.flow = control_flow(routine)
        self.known = values(routine)
        self.team = squad or team(routine)
        self.steps = steps(routine)
        self.spins = spins(routine)
        self.post = dominators(routine).post
        self.headers = {loop.header: loop for loop in loops(routine).loops}
        self._bases = layout(routine)
        self._settle = settler(routine).term
        self._put: dict[Term, Term] = {}
        self.guards: dict[int, Term] = {}
        self.events: dict[int, list[int]] = {}
        for i in self.steps:
            self.events.setdefault(self.flow.block_of[i], []).append(i)
            guard = self.known.guard(i)
            if guard is not None:
                self.guards[i] = guard
        self.calls: dict[int, int] = {}
        """By block, the first call behind which nothing is known."""
        for i, one in enumerate(routine.instructions):
            if flow_of(one.opcode.text) == "call" and self._is_inside(i):
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
        self.evaluator = Evaluator(routine, [self._settle(term) for term in wanted])
        self._memory: dict[int, dict[Term, int | None]] = {}
        self._alike: dict[Term, bool] = {}
        """Whether a term is the same for all threads."""
        self._by_launch: dict[int, bool] = {}
        self._left_out: dict[tuple[int, bool], bool] = {}
        self._regions: dict[tuple[int, int], int | None] = {}
        self._found: list[Trace] = []
        self._unknown: Term | None = None

    def _is_inside(self, i: int) -> bool:
        called = callees(self.routine, i, self.routine.instructions[i])
        return not called.names or called.is_indirect or any(not is_quiet(self.routine, name) for name in called.names)

    # --- numbers

    def _given(self, term: Term) -> Term:
        """A term in which what the kernel is launched with are numbers."""
        term = self._settle(term)
        done = self._put
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
                missing = [inner for inner in inside(at) if inner not in done]
                if missing:
                    stack += missing
                    continue
                same = all(done[inner] is inner for inner in inside(at))
                done[at] = at if same else rebuilt(self.known.terms, at, done)
            stack.pop()
        return done[term]

    def _leaf(self, leaf: Term) -> int | None:
        """The number of a leaf that is the same for all threads of the CTA."""
        if leaf.operator == "parameter":
            return _parameter(leaf) if self.setting is None else _given_parameter(leaf, self.setting)
        if leaf.operator == "address":
            symbol = self.known.symbol(leaf)
            base = self._bases.get((symbol.name, symbol.path)) if symbol is not None else None
            return None if base is None else base | self.rank << RANK
        if leaf.operator == "window":
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
            place = "xyz".find(component) if component else -1
            if self.setting is not None:
                return self._launched(stem, place)
            if stem == "%ctaid":
                return self.rank if place == 0 else 0
            if stem == "%nctaid":
                return GRID[place]
            if stem == "%ntid":
                return self.team.shape[place]
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

    def _launched(self, stem: str, place: int) -> int | None:
        """The number in a special register of a kernel that is launched so."""
        setting = self.setting
        assert setting is not None
        if stem in ("%ctaid", "%clusterid"):
            self.looks_at_place = True
            at = setting.place(self.cluster, self.rank)[place]
            return at if stem == "%ctaid" else at // setting.cluster[place]
        if stem in ("%nctaid", "%nclusterid"):
            return setting.grid[place] if stem == "%nctaid" else setting.grid[place] // setting.cluster[place]
        return {
            "%ntid": setting.block[place],
            "%cluster_ctaid": setting.within(self.rank)[place],
            "%cluster_nctaid": setting.cluster[place],
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
        vector = self.team.vector(put)
        if vector is not None:
            return vector if mask == self.team.everyone else tuple([vector[thread] for thread in listed(mask)])
        threads = listed(mask)
        is_alike = self._alike.get(put)
        if is_alike is None:
            is_alike = self._alike[put] = not any(map(self._differs, put.leaves()))
        found = []
        for thread in threads[:1] if is_alike else threads:
            memory = self._memory.setdefault(thread, {})
            number = evaluate(put, lambda leaf, thread=thread: self._of_thread(leaf, thread), memory)  # type: ignore[misc]
            if number is None:
                return None
            found.append(number)
        return tuple(found) * len(threads) if is_alike else tuple(found)

    def _differs(self, leaf: Term) -> bool:
        """Whether a leaf may be something else for another thread."""
        return leaf.operator in ("collective", "peer") or (leaf.operator == "special" and self.team.vector(leaf) is not None)

    def _of_thread(self, leaf: Term, thread: int) -> int | None:
        if leaf.operator == "special":
            vector = self.team.vector(leaf)
            return vector[thread] if vector is not None else self._leaf(leaf)
        if leaf.operator == "collective":
            # the lowest lane is elected
            return int(thread % WARP == 0) if str(leaf.data[0]).startswith("elect") and leaf.width == 1 else None
        if leaf.operator == "peer":
            rank = leaf.data[0]
            assert isinstance(rank, Term)
            number = evaluate(self._given(rank), lambda inner: self._of_thread(inner, thread)) if self.is_sized else None
            return None if number is None else (number - self.rank) << RANK
        if leaf.operator == "value" and leaf.width == 1:
            value = ssa(self.routine).values[leaf.data[0]]  # type: ignore[call-overload]
            own = self.steps.get(value.instruction, ())
            if value.origin is Origin.WRITE and any(step.does is Does.WAIT for step in own):
                return int(self.luck or value.instruction in self.spins)
        return self._leaf(leaf)

    # --- ways

    def run(self) -> list[Trace]:
        """The traces of all threads of the CTA."""
        first = _Path(0, 0, -1, -1, self.team.everyone, {}, [], {}, {}, 0, False)
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
        return Trace(self.rank, listed(path.mask), path.events, cut, lost, path.is_doubtful, why, unknown)

    def _fork(self, path: _Path, mask: int) -> _Path:
        """The other threads of a path, which go on by themselves."""
        other = attrs.evolve(path, mask=path.mask & ~mask, rounds=dict(path.rounds), visits=dict(path.visits))
        keep = [place for place, thread in enumerate(listed(path.mask)) if not mask >> thread & 1]
        other.events = [_narrowed(event, keep) for event in path.events]
        kept = [place for place, thread in enumerate(listed(path.mask)) if mask >> thread & 1]
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
            if path.length > self.most.blocks or len(path.events) > self.most.events:
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
            address, amount, target, mask = [
                None if term is None else self.numbers(term, path) for term in (step.address, step.amount, step.target, step.mask)
            ]
            if not synchronizes and step.does is not Does.FENCE and (address is None or not (step.bytes or _peeks(step))):
                continue
            if synchronizes:
                missing = _missing(step, address, amount, mask)
                if missing is not _NOTHING:
                    self._unknown = missing if isinstance(missing, Term) else None
                    return False
            path.events.append(Event(step, address, amount, target, visit, mask, self._bytes(step, amount)))
        return True

    def _bytes(self, step: Step, amount: Numbers | None) -> int | None:
        """How many bytes a step copies or touches."""
        if step.bytes is not None or step.does is not Does.COPY:
            return step.bytes
        if amount is not None:
            return amount[0] if len(set(amount)) == 1 else None
        if step.map is None or self.setting is None:
            return None
        for leaf in step.map.leaves():
            if leaf.operator in ("address", "parameter"):
                name, offset = str(leaf.data[0]), step.map.linear[0] if leaf.operator == "address" else leaf.data[2]
                for key in (f"{name}+{offset}", name):
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
        elif self._leaves_out(path.block, bool(where)) and self._is_by_launch(condition, path, bool(where)):
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
        """To where the ways meet again, if nothing on them matters to other threads; what is known of those accesses is dropped."""
        meet = self.post.parent[path.block] if path.block in self.post else -1
        region = self._region(path.block, meet) if 0 <= meet < len(self.flow.blocks) else None
        if region is None or any(region >> block & 1 for block in self.sync_blocks):
            return self._end(path, lost=True, why=self.flow.blocks[path.block].end - 1, unknown=self.branches.get(path.block))
        self.seen.update(bits(region))
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
        self.seen.update(bits(loop.blocks))
        path.source, path.skipped, path.block, path.at = path.block, loop.blocks, meet, 0
        return True

    def _region(self, start: int, meet: int) -> int | None:
        """The blocks on the ways from a block to where they meet; None if they come back to it."""
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

    def _leaves_out(self, index: int, holds: bool) -> bool:
        """Whether a path that leaves a block this way leaves out barriers that it would come to on the other."""
        key = (index, holds)
        if key not in self._left_out:
            self._left_out[key] = any(
                self._meets(edge.target, self.post.parent[index])
                for edge in self.flow.blocks[index].edges
                if not _agrees(edge, holds) and edge.target != self.post.parent[index]
            )
        return self._left_out[key]

    def _meets(self, start: int, meet: int) -> bool:
        """Whether something that others wait for is on a way from a block to where ways meet."""
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
            # nothing in it tells threads apart
            threads = threads[:1]
        for other in (0, 1, 1 << 20):
            for thread in threads:
                number = evaluate(term, lambda leaf, thread=thread, other=other: self._otherwise(leaf, thread, other))  # type: ignore[misc]
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


def is_quiet(routine: Routine, name: str) -> bool:
    """Whether a function that is called, with all that it calls, does nothing that others wait for; one without a body does not."""
    by_name = _functions(routine)
    work, seen = [name], {name}
    while work:
        called = by_name.get(work.pop())
        if called is None:
            continue
        if any(step.does in SYNCHRONIZES for own in steps(called).values() for step in own):
            return False
        for i, instruction in enumerate(called.instructions):
            if flow_of(instruction.opcode.text) != "call":
                continue
            whom = callees(called, i, instruction)
            if not whom.names or whom.is_indirect:
                return False
            work += [one for one in whom.names if one not in seen]
            seen.update(whom.names)
    return True


@fact
def _functions(routine: Routine) -> dict[str, Routine]:
    """The functions that can be called, by name."""
    return {one.name: one for one in routine.siblings}


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
    """Whether it only asks, and goes on whatever the answer is."""
    return step.does is Does.WAIT and not step.is_spinning


def _narrowed(event: Event, keep: list[int]) -> Event:
    """An event for some of its threads."""
    address, amount, target, mask = [_some(numbers, keep) for numbers in (event.address, event.amount, event.target, event.mask)]
    return attrs.evolve(event, address=address, amount=amount, target=target, mask=mask)


def _some(numbers: Numbers | None, keep: list[int]) -> Numbers | None:
    return numbers if numbers is None or len(numbers) == 1 else tuple([numbers[place] for place in keep])


def _parameter(leaf: Term) -> int:
    """What a parameter is: a pointer if it is as wide as one, else a count."""
    if leaf.width == 64:
        return POINTER + (hash_of(leaf) << 28)
    return NUMBER if leaf.width >= 16 else 1


def _given_parameter(leaf: Term, setting: Setting) -> int | None:
    """What a parameter, or a part of one, is in a launch; None if that is not said."""
    name, offset = str(leaf.data[0]), leaf.data[2]
    number = setting.parameters.get(f"{name}+{offset}")
    if number is None and not offset:
        number = setting.parameters.get(name)
    if number is None:
        number = setting.parameters.get(ANY)
    return None if number is None else number & ((1 << leaf.width) - 1)


def hash_of(leaf: Term) -> int:
    """A number that tells parameters apart, the same on every run."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(f"{leaf.data[0]}+{leaf.data[2]}")) & 0x3FF


@fact
def layout(routine: Routine) -> dict[tuple[object, ...], int]:
    """The addresses of shared variables: those of a declared size one after the other, behind them all others, which share a place."""
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


def cluster_size(routine: Routine) -> int | None:
    """How many CTAs a cluster has, if the kernel says it."""
    for directive in routine.function.header.directives:
        if directive.name == ".reqnctapercluster":
            sizes = [constant_value(argument) for argument in directive.arguments]
            product = 1
            for size in sizes:
                if not isinstance(size, int):
                    return None
                product *= size
            return product if sizes else None
    return None


def traces(routine: Routine, ranks: int, squad: Team | None = None) -> list[Trace]:
    """The traces of all threads of a cluster of so many CTAs, which have the threads of `squad`."""
    found: list[Trace] = []
    for rank in range(ranks):
        found += Tracer(routine, rank, ranks, squad=squad).run()
    return found


def warps_of(threads: Iterable[int]) -> dict[int, list[int]]:
    """By warp, the places in a sequence of threads where those of the warp stand."""
    found: dict[int, list[int]] = {}
    for place, thread in enumerate(threads):
        found.setdefault(thread // WARP, []).append(place)
    return found
