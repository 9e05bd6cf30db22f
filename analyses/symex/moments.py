"""A point on a path: what is in flight there, which threads are on it, and inputs that lead to it; and the observer of such points."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from ptxkit.analyses.cfg.paths import between
from ptxkit.analyses.events.effects import Action, Effect, Sync, effects
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import ThreadBlock
from ptxkit.analyses.symbolic.values import Values
from ptxkit.analyses.symex.async_groups import EMPTY, Operation, Queue, Trail
from ptxkit.analyses.symex.path_condition import Choices, Model
from ptxkit.frozen import frozen


@frozen(eq=False)
class Moment:
    """A path that has reached an instruction but not executed it."""

    routine: Routine
    thread_block: ThreadBlock
    instruction: int
    terms: tuple[Term, ...]
    """The values on this path of the terms watched here."""
    condition: Term | None
    """The predicate under which the instruction is executed, if not known to hold."""
    threads: int
    """The threads that may be on this path, as bits: nothing on it distinguishes them."""
    crowd: int
    """All threads that arrive here together: those of the path, and those that never diverged from them or have reconverged with them."""
    before: Mapping[str, Queue]
    after: Mapping[str, Queue]
    """The queues after the instruction."""
    effects: tuple[Effect, ...]
    sync: Sync | None
    leaves: bool
    """Whether control leaves the function here."""
    choices: Choices
    trail: Trail
    """The path up to here, without this instruction."""
    started: Operation | None
    """The operation that the instruction starts, if any."""
    values: Values

    def queue(self, name: str) -> Queue:
        """The queue before the instruction."""
        return self.before.get(name, EMPTY)

    def pending(self, name: str) -> Iterator[Operation]:
        """The operations of a queue that may be in flight before the instruction, oldest first."""
        return iter(self.queue(name))

    def completed(self, name: str) -> list[Operation]:
        """The operations that certainly complete at this instruction."""
        left = set(self.after.get(name, EMPTY))
        return [operation for operation in self.queue(name) if operation not in left]

    def read(self, name: str) -> list[Operation]:
        """The operations whose sources have certainly been read after this instruction, but not before."""
        left = set(self.after.get(name, EMPTY).unread)
        return [operation for operation in self.queue(name).unread if operation not in left]

    def model(
        self,
        *operations: Operation,
        thread: int | None = None,
        others: Iterable[int] = (),
        also: Sequence[tuple[Term, bool]] = (),
        idle: bool | None = False,
    ) -> Model | None:
        """Values of the kernel's inputs with which a thread takes this path, starts the operations and executes the instruction.

        The operations copy data, not only zeros, unless `idle` is None. `thread` defaults to the first that may be on the path; `others`
        take the path, too. None if no values are found: the path is not proved feasible.
        """
        conditions = [one.condition for one in operations] + [self.condition]
        wanted = [(condition, True) for condition in conditions if condition is not None]
        wanted += [(one.idle, idle) for one in operations if one.idle is not None and idle is not None]
        chosen = (self.threads & -self.threads).bit_length() - 1 if thread is None else thread
        return self.choices.model(self.thread_block, (max(0, chosen),), [*wanted, *also], others)

    def is_possible(self) -> bool:
        """Whether values are found with which a thread takes this path, regardless of what it does on it."""
        first = (self.threads & -self.threads).bit_length() - 1
        return self.choices.model(self.thread_block, (max(0, first),)) is not None

    def since(self, operation: Operation) -> list[Trail]:
        """The steps of the path from the start of an operation up to here, both excluded."""
        found = []
        at: Trail | None = self.trail
        while at is not None and at is not operation.trail:
            found.append(at)
            at = at.before
        return found[::-1]

    def hinges(self, operation: Operation) -> bool:
        """Whether the path since the start of an operation depends on unknown values, such as loaded ones."""
        chosen = list(self.choices.taken)[operation.decided :]
        return any(leaf.operator not in ("parameter", "special") for term in chosen for leaf in term.leaves())

    def skipped(self, operation: Operation) -> set[int]:
        """The waits for operations of this kind, and the commits they count, on other paths from an operation to here."""
        counted = {
            i
            for i, own in effects(self.routine).items()
            if any(effect.queue == operation.queue and effect.action in (Action.COMMIT, Action.WAIT) for effect in own)
        }
        counted = between(self.routine, operation.instruction, self.instruction, counted)
        return counted - {step.instruction for step in self.since(operation)}

    def witness(self, operation: Operation) -> list[tuple[int, str]]:
        """The instructions that show that an operation is in flight here: its start, its commit and later waits, each with its effect."""
        found = [(operation.instruction, "started here")]
        for step in self.since(operation):
            if step.what:
                found.append((step.instruction, step.what))
        return found


class Observer:
    """The callback for a path. Its state distinguishes paths: it must be hashable and must repeat in loops."""

    start: Hashable = None
    """The state at entry."""

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        """The state after an instruction of interest. Called before the instruction is executed."""
        return memory

    def rests(self, memory: Hashable) -> bool:
        """Whether nothing is left to observe if no operation is in flight and none is started."""
        return True
