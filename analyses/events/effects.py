"""Effects of an instruction on asynchronous queues and on barriers, from the instruction table (9.7.10.24, 9.7.14.15, 9.7.16).

Queues are named as in the table: `cp.async`, `bulk`, `wgmma`, `tcgen05`, `tcgen05.ld`, `tcgen05.st`.
"""

from __future__ import annotations

import enum

from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Async
from ptxkit.syntax import constant_value


class Action(enum.StrEnum):
    """What an instruction does to a queue."""

    OPEN = "open"
    """Starts an operation, which stays in the open group until a commit."""
    COMMIT = "commit"
    """Closes the open group, even if it is empty, and opens another."""
    WAIT = "wait"
    SIGNAL = "signal"
    """Operations in flight signal an mbarrier when they complete, and so the threads that wait there."""


@frozen
class Effect:
    """The effect of an instruction on one queue."""

    queue: str
    action: Action
    leave: int | None = 0
    """The number of most recent groups that a wait leaves pending; None if unknown."""
    takes_open: bool = False
    """Whether a wait covers all operations, committed or not."""
    reading: bool = False
    """Whether a wait only ensures that the operations have read their sources."""
    signals: bool = False
    """Whether the operations in flight (after a commit, too) signal an mbarrier when they complete."""


class Reach(enum.IntEnum):
    """The scope within which a barrier orders memory."""

    WARP = 1
    MBARRIER = 2
    """The threads that use an mbarrier."""
    CTA = 3
    """The CTA, or those of its warps that use a barrier number."""
    CLUSTER = 4


@frozen
class Sync:
    """The effect of an instruction on a barrier."""

    reach: Reach
    arrives: bool
    waits: bool
    operand: int
    """The index of the operand that names the barrier; -1 if none does."""


@fact
def effects(routine: Routine) -> dict[int, tuple[Effect, ...]]:
    """By instruction, its effects on queues; instructions without effects are omitted."""
    own = matching(routine, lambda bound: bound.asynchronous)
    return {i: tuple([_effect(routine, i, bound, word) for word in bound.asynchronous]) for i, bound in own}


def _effect(routine: Routine, i: int, bound: Bound, word: Async) -> Effect:
    action = Action(word.action)
    if action is not Action.WAIT:
        signalled = action is Action.SIGNAL or (action is Action.COMMIT and any(word.mechanism == "mbarrier" for word in bound.completes))
        return Effect(word.group, action, signals=signalled)
    if not word.operand:
        return Effect(word.group, action, 0, True, word.reading)
    operand = bound.operand(word.operand)
    value = constant_value(routine.instructions[i].operands[operand.path[0]]) if operand is not None else None
    return Effect(word.group, action, value if isinstance(value, int) else None, False, word.reading)


@fact
def syncs(routine: Routine) -> dict[int, Sync]:
    """By instruction, the barrier at which it arrives or waits; an mbarrier's initialization, for example, does neither."""
    return {i: sync for i, bound in matching(routine, lambda bound: bound.barrier) if (sync := _sync(bound)) is not None}


def _sync(bound: Bound) -> Sync | None:
    actions = {word.action for word in bound.barrier}
    if not actions & {"arrive", "wait"}:
        return None
    name = next((word.operand for word in bound.barrier if word.operand), "")
    operand = bound.operand(name) if name else None
    scopes = {word.what for word in bound.form.scope}
    if operand is not None and operand.role == "addr":
        reach = Reach.MBARRIER
    elif operand is not None or "cta" in scopes:
        reach = Reach.CTA
    else:
        reach = Reach.WARP if "warp" in scopes else Reach.CLUSTER
    return Sync(reach, "arrive" in actions, "wait" in actions, operand.path[0] if operand is not None else -1)
