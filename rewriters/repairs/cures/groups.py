"""Groups of asynchronous operations (9.7.10.24.1, 9.7.16.7): commits and waits that are missing, too weak or misplaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to, comes_without
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Form
from ptxkit.rewriters.repairs.candidate import BARRIER, COMMIT, STRONGER, WAIT, Candidate, change, insertion, move
from ptxkit.rewriters.repairs.cures.barriers import OF_THE_CTA
from ptxkit.rewriters.repairs.points import Point, between
from ptxkit.rewriters.repairs.trouble import FEW_PAIRS, MOST_PAIRS, Trouble
from ptxkit.rewriters.repairs.wording import changed, on_queue, position, worded
from ptxkit.syntax import constant_value

LEVELS = {"warp": Level.WARP, "warpgroup": Level.WARPGROUP, "cta": Level.CTA}
MOST_GROUPS = 4
"""Maximum number of groups that an inserted wait leaves in flight."""
FAMILIES = "AWTM"
"""Rules about operations in flight."""


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """All possible faults of the groups in the queues that a finding concerns."""
    if trouble.family not in FAMILIES:
        return
    for queue, mnemonic in _queues(trouble):
        yield from _Queue(trouble, queue, mnemonic).candidates()


def _queues(trouble: Trouble) -> Iterable[tuple[str, str]]:
    """The queues in which instructions of the finding start operations, commit or wait, each with the mnemonic of one."""
    found: dict[str, str] = {}
    ends = {i for pair in trouble.pairs[:MOST_PAIRS] for i in pair}
    for i in (*trouble.instructions, *sorted(ends)):
        bound = trouble.bound(i)
        for one in bound.asynchronous if bound is not None else ():
            if bound is not None and one.group != "fabric":
                found.setdefault(one.group, bound.form.mnemonic)
    return found.items()


def least(form: Form) -> Level:
    """The group of threads that must execute an instruction together."""
    return max([LEVELS.get(one.what.level, Level.THREAD) for one in form.converges], default=Level.THREAD)


class _Queue:
    def __init__(self, trouble: Trouble, queue: str, mnemonic: str) -> None:
        self.trouble = trouble
        self.routine = trouble.routine
        self.queue = queue
        self.commit = next(iter(on_queue(mnemonic, queue, "commit")), None)
        self.wait = next(iter(on_queue(mnemonic, queue, "wait")), None)
        self.opens = self._own("open")
        self.commits = self._own("commit")
        self.waits = self._own("wait")
        self.pairs = self._pairs()

    def _own(self, action: str) -> list[int]:
        def holds(bound: Bound) -> bool:
            return any((one.group, one.action) == (self.queue, action) for one in bound.asynchronous)

        return self.trouble.matching(holds)

    def _pairs(self) -> list[tuple[int, int]]:
        """Operations of the queue, each with an instruction that comes too early after it; if unknown, the ends of the function."""
        found = [(first, last) for first, last in self.trouble.pairs if first in self.opens]
        own = [i for i in self.trouble.instructions if i in self.opens]
        if not found or "exit" in str(self.trouble.finding.witness):
            ends = self.trouble.matching(lambda bound: bound.flow in ("return", "exit"))
            found += [(i, end) for i in own or self.opens[-1:] for end in ends if comes_to(self.routine, i, end)]
        return found[:MOST_PAIRS]

    def _counts(self, bound: Bound) -> bool:
        """Whether it matters to the groups of the queue on which side of an instruction a commit is."""
        return any(one.group == self.queue for one in bound.asynchronous)

    def candidates(self) -> Iterator[Candidate]:
        if not self.trouble.is_unsynchronized:
            yield from self._stronger()
            yield from self._committed()
            yield from self._moved()
            yield from self._of_another_kind()
            yield from self._waited()
        if self.wait is not None and self.trouble.witnesses and not self.trouble.is_of_a_thread:
            for point in self.trouble.common(Level.CTA, _is_barrier, self.pairs):
                yield self._rungs(point, OF_THE_CTA)

    def _stronger(self) -> Iterator[Candidate]:
        """An existing wait with fewer groups left in flight, or for more than reads."""
        for i in self.waits:
            if self.pairs and not any(comes_to(self.routine, first, i) for first, _ in self.pairs):
                continue
            bound = self.trouble.bound(i)
            n = position(bound, "n") if bound is not None else None
            if bound is None or n is None:
                continue
            count = constant_value(self.routine.instructions[i].operands[n])
            if isinstance(count, int) and count > 0:
                lower = [change(self.trouble, i, changed(self.routine, i, operands={n: str(k)}), STRONGER) for k in range(min(count, 8))]
                yield _ladder(lower)
            if bound.has(".read"):
                yield change(self.trouble, i, changed(self.routine, i, opcode=lambda text: text.replace(".read", "")))

    def _committed(self) -> Iterator[Candidate]:
        """A commit between operations and a wait that paths reach without one."""
        if self.commit is None or form_operands(self.commit):
            return
        for point in self._points(self._uncommitted(), least(self.commit)):
            yield insertion(self.trouble, point, COMMIT, worded(self.commit, {}))

    def _uncommitted(self) -> list[tuple[int, int]]:
        """Operations that may be uncommitted at a wait, with that wait; of consecutive operations, the last."""
        found = []
        for n, first in enumerate(self.opens):
            following = self.opens[n + 1] if n + 1 < len(self.opens) else len(self.routine.instructions)
            if following < len(self.routine.instructions) and not self._parts(first, following):
                continue
            comes = comes_without(self.routine, set(self.commits), first)
            found += [(first, wait) for wait in self.waits if comes(wait) and comes_to(self.routine, first, wait)]
        return found

    def _parts(self, first: int, following: int) -> bool:
        """Whether anything between two operations matters to the groups, or control may leave or enter there."""
        flow = control_flow(self.routine)
        if flow.block_of[first] != flow.block_of[following]:
            return True
        return any(first < i < following for i in (*self.commits, *self.waits))

    def _points(self, pairs: Sequence[tuple[int, int]], level: Level) -> list[Point]:
        """Points between the instructions of all pairs, if there are any; otherwise, those between some."""
        found = [between(self.routine, first, last, level, self._counts) for first, last in pairs[:MOST_PAIRS]]
        every = [point for point in found[0] if all(point in other for other in found)] if found else []
        return every or list(dict.fromkeys([point for own in found[:FEW_PAIRS] for point in own]))

    def _moved(self) -> Iterator[Candidate]:
        """Existing commits and waits, moved: a commit before the wait, a wait after the commit and before a barrier."""
        flow, post = control_flow(self.routine), dominators(self.routine).post
        for commit in self.commits:
            for point in self._points([(commit, wait) for wait in self.waits if comes_to(self.routine, commit, wait)], Level.THREAD):
                home, there = flow.block_of[commit], flow.block_of[point.instruction]
                if home != there and post.dominates(there, home):
                    yield move(self.trouble, commit, point)
        for wait in [i for i in self.waits if any(comes_to(self.routine, i, last) for _, last in self.pairs)]:
            for point in self.trouble.common(loud=_is_barrier, pairs=self.pairs):
                if self._passes_something(wait, point):
                    yield move(self.trouble, wait, point)

    def _passes_something(self, wait: int, point: Point) -> bool:
        """Whether a commit or a barrier is between a wait and a point of its block: otherwise, the move has no effect or is too far."""
        flow = control_flow(self.routine)
        if flow.block_of[wait] != flow.block_of[point.instruction]:
            return False
        low, high = sorted((wait, point.instruction + point.after))
        return any(low < i < high for i in self.commits) or any(low <= i < high for i in self.trouble.matching(_is_barrier))

    def _of_another_kind(self) -> Iterator[Candidate]:
        """A wait for the groups of this queue instead of another's."""
        if self.wait is None or not form_operands(self.wait):
            return
        own = worded(self.wait, {}, "0")
        for i in self.trouble.matching(lambda bound: any(one.action == "wait" and one.group != self.queue for one in bound.asynchronous)):
            if self.routine.instructions[i].guard is None and any(comes_to(self.routine, first, i) for first, _ in self.pairs):
                yield change(self.trouble, i, own)

    def _waited(self) -> Iterator[Candidate]:
        """A new wait, with a commit before it if there is none."""
        if self.wait is None:
            return
        points = self.trouble.common(least(self.wait), _is_barrier, self.pairs)
        for point in points:
            yield self._rungs(point)
        if self.commit is not None and not form_operands(self.commit) and not self.commits:
            for point in points:
                yield insertion(self.trouble, point, COMMIT + WAIT, worded(self.commit, {}), self._wait("0"))

    def _rungs(self, point: Point, *then: str) -> Candidate:
        """A wait for all groups at a point; then for all but the most recent ones, and for reads only."""
        assert self.wait is not None
        price = WAIT + (BARRIER if then else 0)
        rungs = [insertion(self.trouble, point, price, self._wait("0"), *then)]
        if form_operands(self.wait):
            reading = {".read": ".read"} if "{.read}" in self.wait.syntax else {}
            if reading:
                rungs.append(insertion(self.trouble, point, price, worded(self.wait, reading, "0"), *then))
            for n in range(1, min(MOST_GROUPS, len(self.commits) + 1)):
                rungs.append(insertion(self.trouble, point, price, worded(self.wait, reading, str(n)), *then))
        return _ladder(rungs)

    def _wait(self, n: str) -> str:
        assert self.wait is not None
        return worded(self.wait, {}, n) if form_operands(self.wait) else worded(self.wait, {})


def _is_barrier(bound: Bound) -> bool:
    """Whether it matters on which side of an instruction a wait is: a later wait covers no less."""
    return bool(bound.barrier or bound.completes)


def form_operands(form: Form) -> bool:
    """Whether instructions of a form have operands."""
    return len(form.syntax.split()) > 1


def _ladder(rungs: list[Candidate]) -> Candidate:
    """The strongest candidate, with the weaker ones."""
    first, *weaker = rungs
    return Candidate(first.says, first.edits, first.price, first.at, weaker=tuple(weaker))
