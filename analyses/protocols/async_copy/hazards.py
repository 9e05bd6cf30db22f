"""Hazards of asynchronous copies: which error a hazard is (9.7.10.24), and the finding that explains it.

A hazard is an access that conflicts with a copy in flight. The error depends on the waits and commits between the two on the path: no
wait, one that is too weak, one before the commit, or one for groups of the other kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.events.effects import Action, effects
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import Access
from ptxkit.analyses.protocols.async_copy.kinds import BULK, COPY, CopyFault
from ptxkit.analyses.symbolic.thread_block import ThreadBlock
from ptxkit.analyses.symex.async_groups import ITERATION, Operation, Trail
from ptxkit.analyses.symex.moments import Moment
from ptxkit.analyses.symex.path_condition import Model
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.frozen import frozen

_FIRST = (CopyFault.WRONG_ASYNC_GROUP_KIND, CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE, CopyFault.WAIT_BEFORE_COMMIT)
"""Reported first if accesses have the same cause."""
_EARLY = {*_FIRST, CopyFault.WAIT_GROUP_TOO_WEAK, CopyFault.CPASYNC_READ_BEFORE_WAIT}

_SAID: dict[str, str] = {
    CopyFault.WAIT_BEFORE_COMMIT: "this wait does not cover copies that are committed to a group only after it",
    CopyFault.WAIT_GROUP_TOO_WEAK: "this wait may leave in flight the group whose bytes are {accessed} next: it must leave fewer",
    CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE: (
        "this wait relies on one group per iteration, but on this path an iteration commits none"
    ),
    CopyFault.WRONG_ASYNC_GROUP_KIND: "this wait covers bulk groups only; the copy that is {accessed} next is not a bulk copy",
}


@frozen(eq=False)
class Hazard:
    """An access that conflicts with an operation in flight."""

    kind: str
    """`pending`: the operation may be in flight. `waited`: its thread has waited for it, but no barrier followed. `signalled`: only a
    barrier of the warp followed. `overlap`: both are copies of one group and write the same bytes."""
    moment: Moment
    operation: Operation
    access: Access
    threads: tuple[int, int]
    """The accessing thread, and the thread that started the operation."""
    latest: tuple[Operation, ...]
    were_used: bool
    """Whether any data of the last wait was read before."""
    model: Model | None
    """Inputs that take the path; None if none were found, and what lies between the two is the same on all paths."""


def report(
    routine: Routine,
    thread_block: ThreadBlock,
    hazards: Sequence[Hazard],
    ends: Sequence[tuple[Moment, Operation]],
    found: Mapping[tuple[str, int], Finding],
) -> list[Finding]:
    """The findings of a function in text order, those in `found`, by kind and instruction, included. `ends` are bulk copies that may still
    read shared memory where their thread exits."""
    return list(_Report(routine, thread_block, hazards, ends, found).findings())


def instructions(routine: Routine, queue: str, *actions: Action) -> set[int]:
    """The instructions that perform one of the actions on a queue."""
    return {i for i, own in effects(routine).items() if any(e.queue == queue and e.action in actions for e in own)}


def notes_of(thread_block: ThreadBlock, moment: Moment, *operations: Operation) -> tuple[str, ...]:
    """The inputs that take the path and start the operations, as notes."""
    model = moment.model(*operations) or {}
    given = [f"{leaf} = {number}" for leaf, number in model.items() if leaf.operator in ("parameter", "special")]
    notes = ["this happens with " + ", ".join(sorted(given))] if given else []
    if thread_block.is_assumed:
        notes.append(f"for a CTA of {'x'.join(map(str, thread_block.shape))} threads")
    return tuple(notes)


def _steps(moment: Moment, operation: Operation, at: int | None = None) -> tuple[tuple[int, str], ...]:
    return tuple(dict.fromkeys([step for step in moment.witness(operation) if step[0] != at]))


class _Report:
    def __init__(
        self,
        routine: Routine,
        thread_block: ThreadBlock,
        hazards: Sequence[Hazard],
        ends: Sequence[tuple[Moment, Operation]],
        found: Mapping[tuple[str, int], Finding],
    ) -> None:
        self.routine = routine
        self.thread_block = thread_block
        self.hazards = hazards
        self.ends = ends
        self.found = dict(found)

    def findings(self) -> Iterator[Finding]:
        """The findings in text order. For accesses with the same cause, the first on a path is reported."""
        early: dict[Hashable, list[tuple[str, int, Hazard]]] = {}
        for hazard in self.hazards:
            if hazard.kind == "pending" and hazard.operation.queue == COPY:
                rule, at = self._why_early(hazard)
                early.setdefault(self._cause(hazard), []).append((rule, at, hazard))
        for found in early.values():
            found = [one for one in found if not self._is_ahead(one[2])] or [one for one in found if one[2].access.writes] or found
            self._early(*next((one for one in found if one[0] in _FIRST), found[0]))
        reported: set[Hashable] = {rule for rule, _ in self.found}
        for hazard in self.hazards:
            kind = hazard.kind
            cause = (kind, self._cause(hazard))
            if kind == "overlap" and hazard.operation.instruction == hazard.moment.instruction and reported & _EARLY:
                continue
            if cause in reported or (kind == "pending" and hazard.operation.queue == COPY):
                continue
            reported.add(cause)
            if kind == "overlap":
                self._overlap(hazard)
            elif kind in ("waited", "signalled"):
                self._unpublished(hazard)
            else:
                self._overwritten(hazard)
        overwritten = {hazard.operation.instruction for hazard in self.hazards if hazard.operation.queue == BULK}
        for moment, operation in self.ends:
            if operation.instruction not in overwritten:
                self._unfinished(moment, operation)
        yield from sorted(self.found.values(), key=lambda finding: (finding.instruction, finding.kind))

    def _cause(self, hazard: Hazard) -> Hashable:
        """A key that is equal for hazards with the same cause: the last insufficient wait, or else the commit, or else the start."""
        steps = hazard.moment.since(hazard.operation)
        waits = instructions(self.routine, hazard.operation.queue, Action.WAIT, Action.COMMIT)
        last = [step.instruction for step in steps if step.instruction in waits]
        return last[-1] if last else hazard.operation.instruction

    def _add(self, finding: Finding) -> None:
        self.found.setdefault((finding.kind, finding.instruction), finding)

    def _overlap(self, hazard: Hazard) -> None:
        who = self.thread_block.name(hazard.threads[0])
        self._add(
            Finding(
                hazard.moment.instruction,
                f"two copies of one group write the same bytes: {who} starts both",
                ((hazard.operation.instruction, "the other is started here"),),
                notes=notes_of(self.thread_block, hazard.moment, hazard.operation),
                kind=CopyFault.CPASYNC_OVERLAP_IN_GROUP,
                child=hazard.access.child,
            )
        )

    def _unpublished(self, hazard: Hazard) -> None:
        moment, operation = hazard.moment, hazard.operation
        reader, owner = (self.thread_block.name(thread) for thread in hazard.threads)
        if operation.queue == COPY:
            does = "reads" if hazard.access.reads else "overwrites"
            message = f"{reader} {does} what {owner} copied: {owner} has waited for it, but no barrier followed the wait"
            notes, steps_ = notes_of(self.thread_block, moment, operation), _steps(moment, operation)
            is_certain = hazard.access.reads or not self._is_ahead(hazard)
            self._add(
                Finding(
                    moment.instruction,
                    message,
                    steps_,
                    is_certain,
                    notes,
                    kind=CopyFault.CPASYNC_MISSING_BARRIER_AFTER_WAIT,
                    child=hazard.access.child,
                )
            )
            return
        waits = self._waits(moment, operation, BULK)
        at = waits[-1].instruction if waits else moment.instruction
        message = f"{owner} waits until its bulk copy has read the source, but {reader} overwrites it with no barrier in between"
        steps = [*_steps(moment, operation, at), (moment.instruction, f"{reader} overwrites the source here")]
        self._add(
            Finding(at, message, tuple(steps), notes=notes_of(self.thread_block, moment, operation), kind=CopyFault.BULK_WAIT_BY_NON_ISSUER)
        )

    def _early(self, rule: str, at: int, hazard: Hazard) -> None:
        """Reports a read of data that a copy may still be writing."""
        moment, operation = hazard.moment, hazard.operation
        reader, owner = (self.thread_block.name(thread) for thread in hazard.threads)
        does = "reads" if hazard.access.reads else "overwrites"
        who = f"{reader} {does} {'its own copy' if reader == owner else f'what {owner} copies'}"
        steps = _steps(moment, operation, at)
        if at == moment.instruction:
            message = f"{who} while the copy may be in flight"
            child: int | None = hazard.access.child
        else:
            message = _SAID[rule].format(accessed="read" if hazard.access.reads else "overwritten")
            child = None
            steps = (*steps, (moment.instruction, f"{who} here, while it may be in flight"))
        notes = notes_of(self.thread_block, moment, operation)
        # a read needs the data; an overwrite loses it, though it may only be zeros that arrive late
        is_ahead = self._is_ahead(hazard)
        is_note = is_ahead and hazard.access.reads
        if is_note:
            notes = (*notes, "not a bug if copies for iterations that never execute have a size of 0")
        self._add(Finding(at, message, steps, not is_ahead, notes, kind=rule, child=child, is_note=is_note))

    def _is_ahead(self, hazard: Hazard) -> bool:
        """Whether a loop, or code before it, started a copy that may be empty, and only code after the loop reads its destination.

        Such a loop prefetches, and its last copies are empty depending on sizes; which sizes are possible is unknown. If it iterates fewer
        times than it prefetches, these copies come from before the loop.
        """
        if hazard.operation.idle is None:
            return False
        flow = control_flow(self.routine)
        start, end = hazard.operation.instruction, hazard.moment.instruction
        starts = instructions(self.routine, COPY, Action.OPEN)
        for loop in loops(self.routine).loops:
            own = [i for i in starts if flow.block_of[i] in loop]
            if own and flow.block_of[end] not in loop and all(comes_to(self.routine, i, end) for i in own):
                if start in own or all(comes_to(self.routine, start, i) for i in own):
                    return True
        return False

    def _why_early(self, hazard: Hazard) -> tuple[str, int]:
        moment, operation = hazard.moment, hazard.operation
        waits = self._waits(moment, operation, COPY)
        if not waits:
            foreign = self._waits(moment, operation, BULK)
            return (
                (CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction)
                if foreign
                else (CopyFault.CPASYNC_READ_BEFORE_WAIT, moment.instruction)
            )
        last = waits[-1]
        steps = moment.since(operation)
        before, after = steps[: steps.index(last)], steps[steps.index(last) + 1 :]
        starts, commits = instructions(self.routine, COPY, Action.OPEN), instructions(self.routine, COPY, Action.COMMIT)
        is_committed = any(step.instruction in commits for step in before)
        late = any(step.instruction in commits for step in after)
        if not is_committed:
            crossed = any(step.instruction <= ITERATION for step in before)
            return (
                CopyFault.WAIT_BEFORE_COMMIT if late or not crossed else CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE
            ), last.instruction
        tail = before[max(position for position, step in enumerate(before) if step.instruction in commits) + 1 :]
        if late and any(step.instruction in starts for step in tail):
            return CopyFault.WAIT_BEFORE_COMMIT, last.instruction
        if self._skips_commit(before, last.instruction, commits):
            return CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE, last.instruction
        if hazard.latest and not hazard.were_used:
            return CopyFault.CPASYNC_READ_BEFORE_WAIT, moment.instruction
        return CopyFault.WAIT_GROUP_TOO_WEAK, last.instruction

    def _skips_commit(self, steps: Sequence[Trail], wait: int, commits: set[int]) -> bool:
        """Whether the loop around the wait starts copies, and the path completed an iteration of it without a commit."""
        index = loops(self.routine).innermost[control_flow(self.routine).block_of[wait]]
        if index is None:
            return False
        loop = loops(self.routine).loops[index]
        flow = control_flow(self.routine)
        if not any(flow.block_of[i] in loop for i in instructions(self.routine, COPY, Action.OPEN)):
            return False
        rounds = [position for position, step in enumerate(steps) if step.instruction == ITERATION - loop.header]
        if any(not any(step.instruction in commits for step in steps[start:end]) for start, end in pairwise(rounds)):
            return True
        # the iteration that contains the wait: no commit before it, though other paths have one
        if not rounds or any(step.instruction in commits for step in steps[rounds[-1] :]):
            return False
        return any(flow.block_of[commit] in loop and self._leads(commit, wait, loop) for commit in commits)

    def _leads(self, first: int, then: int, loop: Loop) -> bool:
        """Whether an instruction comes before another in one iteration of a loop."""
        flow = control_flow(self.routine)
        start, goal = flow.block_of[first], flow.block_of[then]
        if start == goal:
            return first < then
        before = closure([start], lambda at: [after for after in flow.successors(at) if after in loop and after != loop.header])
        return goal != loop.header and any(goal in flow.successors(at) for at in before)

    def _overwritten(self, hazard: Hazard) -> None:
        """Reports a write to data that a bulk copy may still be reading."""
        moment, operation = hazard.moment, hazard.operation
        waits = self._waits(moment, operation, BULK)
        foreign = self._waits(moment, operation, COPY)
        stranger = self._stranger(operation)
        writer, owner = (self.thread_block.name(thread) for thread in hazard.threads)
        wrong = (moment.instruction, f"{writer} overwrites the source here")
        if waits and moment.queue(BULK).group_of(operation) is None:
            rule, at, message = (
                CopyFault.BULK_STORE_NOT_COMMITTED,
                waits[-1].instruction,
                "the bulk copy is not committed to a group, so this wait does not cover it",
            )
        elif not waits and foreign:
            rule, at = CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction
            message = "this wait covers groups of non-bulk copies only; the copy in flight is a bulk copy"
        elif not waits and stranger is not None:
            rule, at = CopyFault.BULK_WAIT_BY_NON_ISSUER, stranger
            message = f"{owner} started the bulk copy; waits by other threads do not cover it"
        else:
            rule, at, message = (
                CopyFault.BULK_SOURCE_OVERWRITTEN,
                moment.instruction,
                f"{writer} overwrites what a bulk copy of {owner} may still be reading",
            )
        steps = _steps(moment, operation, at)
        child = hazard.access.child if rule == CopyFault.BULK_SOURCE_OVERWRITTEN else None
        self._add(
            Finding(
                at,
                message,
                steps if rule == CopyFault.BULK_SOURCE_OVERWRITTEN else (*steps, wrong),
                hazard.model is not None,
                notes=notes_of(self.thread_block, moment, operation),
                kind=rule,
                child=child,
            )
        )

    def _stranger(self, operation: Operation) -> int | None:
        """A wait for bulk copies that no thread that started this one executes, although others may."""
        started = operation.threads
        for i in sorted(instructions(self.routine, operation.queue, Action.WAIT)):
            runs = lanes(self.routine).execution(i)
            if started & runs.everyone and not started & runs.may:
                return i
        return None

    def _waits(self, moment: Moment, operation: Operation, queue: str) -> list[Trail]:
        waits = instructions(self.routine, queue, Action.WAIT)
        return [step for step in moment.since(operation) if step.instruction in waits]

    def _unfinished(self, moment: Moment, operation: Operation) -> None:
        """Reports a bulk copy that may still read shared memory when its thread exits."""
        waits = self._waits(moment, operation, BULK)
        foreign = self._waits(moment, operation, COPY)
        if waits and moment.queue(BULK).group_of(operation) is None:
            rule, at = CopyFault.BULK_STORE_NOT_COMMITTED, waits[-1].instruction
            message = "the bulk copy is not committed to a group, so this wait does not cover it"
        elif not waits and foreign:
            rule, at = CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction
            message = "this wait covers groups of non-bulk copies only; the copy in flight is a bulk copy"
        else:
            rule, at = CopyFault.BULK_STORE_NOT_WAITED_BEFORE_EXIT, moment.instruction
            message = "the thread ends while a bulk copy that it started may still read shared memory"
        self._add(
            Finding(
                at,
                message,
                _steps(moment, operation, at),
                rule == CopyFault.WRONG_ASYNC_GROUP_KIND,
                notes_of(self.thread_block, moment, operation),
                kind=rule,
            )
        )
