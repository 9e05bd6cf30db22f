"""The asynchronous operations that one thread has started, in the groups that its waits count (9.7.10.24, 9.7.16.7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import dropwhile

import attrs

from ptxkit.analyses.events.effects import Effect
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.frozen import frozen

ITERATION = -2


@frozen(eq=False)
class Trail:
    """The steps of a path, from its end backwards."""

    instruction: int
    """The instruction executed; `ITERATION - header` at the header of a loop."""
    what: str
    before: Trail | None
    length: int


@frozen(eq=False)
class Operation:
    """An asynchronous operation started on a path."""

    instruction: int
    queue: str
    terms: tuple[Term, ...]
    """The values, for this execution, of the terms watched at its instruction."""
    condition: Term | None
    """The predicate under which it is started, if not known to hold."""
    threads: int
    """The threads that start it on this path, as bits."""
    crowd: int
    """All threads that reach the instruction together with those of the path, as bits."""
    trail: Trail
    """Ends with the operation itself."""
    decided: int
    """The number of choices that the path had made before."""
    idle: Term | None
    """The predicate under which it copies nothing and only fills with zeros; None if it always copies."""

    @property
    def signature(self) -> Hashable:
        """Equal for operations that are indistinguishable from here on."""
        return (self.instruction, self.terms, self.condition, self.threads)


@frozen(eq=False)
class Group:
    """Operations that were committed together; may be empty."""

    operations: tuple[Operation, ...]
    commit: int
    """The instruction that committed them."""
    has_read: bool
    """Whether a wait has ensured that the operations have read their sources."""
    trail: Trail

    @property
    def signature(self) -> Hashable:
        return (tuple([operation.signature for operation in self.operations]), self.has_read)


@frozen(eq=False)
class Queue:
    """A thread's operations in flight of one kind: the open group, and the pending groups, oldest first."""

    open: tuple[Operation, ...] = ()
    groups: tuple[Group, ...] = ()
    signalled_: frozenset[Operation] = frozenset()
    """Operations that signal an mbarrier when they complete."""

    def __iter__(self) -> Iterator[Operation]:
        """All operations that may be in flight, oldest first."""
        for group in self.groups:
            yield from group.operations
        yield from self.open

    @property
    def unread(self) -> Iterator[Operation]:
        """Operations that may not have read their sources yet."""
        for group in self.groups:
            if not group.has_read:
                yield from group.operations
        yield from self.open

    @property
    def is_idle(self) -> bool:
        """Whether every operation in flight has read its sources."""
        return not self.open and all(group.has_read or not group.operations for group in self.groups)

    def group_of(self, operation: Operation) -> int | None:
        """The index of an operation's group among the pending ones, 0 being the oldest; None if it is uncommitted."""
        return next((position for position, group in enumerate(self.groups) if operation in group.operations), None)

    def opened(self, operation: Operation) -> Queue:
        return Queue((*self.open, operation), self.groups, self.signalled_)

    def committed(self, trail: Trail) -> Queue:
        return Queue((), (*self.groups, Group(self.open, trail.instruction, False, trail)), self.signalled_)

    def signalled(self) -> Queue:
        """Marks every operation in flight as signalling an mbarrier."""
        return Queue(self.open, self.groups, frozenset(self))

    def signalled_of(self) -> Queue:
        """What is left after a wait at an mbarrier. Which mbarrier is not considered: every operation that may have completed counts as
        complete."""
        if not self.signalled_:
            return self
        groups = [attrs.evolve(group, operations=_without(group.operations, self.signalled_)) for group in self.groups]
        return Queue(_without(self.open, self.signalled_), tuple(groups))

    def waited(self, effect: Effect) -> Queue:
        """What is left after a wait. A wait for an unknown number of groups may cover all of them, so it leaves nothing to base a proof
        on."""
        if effect.leave is None:
            return Queue((), ())
        young = len(self.groups) - effect.leave
        if effect.reading:
            return Queue(
                self.open,
                tuple([_read(group) if position < young else group for position, group in enumerate(self.groups)]),
                self.signalled_,
            )
        return Queue(() if effect.takes_open else self.open, self.groups[max(0, young) :], self.signalled_)

    @property
    def signature(self) -> Hashable:
        # old groups that no access can concern any more are left out
        groups = dropwhile(lambda group: group.has_read or not group.operations, self.groups)
        return (
            tuple([operation.signature for operation in self.open]),
            tuple([group.signature for group in groups]),
            bool(self.signalled_),
        )


def _without(operations: tuple[Operation, ...], gone: frozenset[Operation]) -> tuple[Operation, ...]:
    return tuple([operation for operation in operations if operation not in gone])


def _read(group: Group) -> Group:
    return group if group.has_read else attrs.evolve(group, has_read=True)


EMPTY = Queue()
