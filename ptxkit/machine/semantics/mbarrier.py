"""mbarriers in shared memory (ISA 9.7.14.15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.asynchronous import copies
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.operation import Operation, Semantics, Unsupported

_WORD = np.dtype(np.uint64)
_POLL = 256
"""Number of loop iterations that an unsuccessful phase test counts for."""


def mbarrier(op: Operation) -> Semantics:
    """An operation on an mbarrier."""
    if op.has(".multicast::cluster::32b") or op.has(".phase_type::conditional") or op.operand("q") or op.operand("value"):
        raise Unsupported("multicast and reports of validity of mbarriers are not executed")
    for name, make in _OPERATIONS.items():
        if op.has(name):
            return make(op)
    raise Unsupported(f"`{op.bound.opcode}` is not executed")


def cp(op: Operation) -> Semantics:
    """`cp.async.mbarrier.arrive`: triggers an arrival when the thread's earlier copies are complete (ISA 9.7.14.15.15)."""
    return copies.arrive(op)


def _init(op: Operation) -> Semantics:
    space, layout = op.space("m"), "v1" if op.has(".layout::v1") else "v0"

    def run(lanes: Any, m: Any, count: Any) -> None:
        bad = (np.asarray(count) < 1) | (np.asarray(count) > objects.MOST)
        if bad.any():
            reason = f"the count of an mbarrier must be between 1 and {objects.MOST}"
            lanes.fault(np.broadcast_to(bad, lanes.count), reason, "mbarrier", "count")
        lanes.store(space, m, objects.made(count, layout))

    return Semantics(run, lanes=True)


def _inval(op: Operation) -> Semantics:
    space = op.space("m")

    def run(lanes: Any, m: Any) -> None:
        objects.check(lanes, lanes.load(space, m, _WORD))
        lanes.store(space, m, np.uint64(0))

    return Semantics(run, lanes=True)


def _count(op: Operation, sign: int) -> Semantics:
    """Expects or completes transactions."""
    space = op.space("m")

    def run(lanes: Any, m: Any, tx: Any, *_: Any) -> None:
        objects.change(lanes, space, m, 0, sign * np.asarray(tx).astype(np.int64))

    return Semantics(run, lanes=True)


def _arrive(op: Operation) -> Semantics:
    space, dropping = op.space("m"), op.has(".arrive_drop")
    may_complete = not op.has(".noComplete")

    def run(lanes: Any, given: Any) -> Any:
        count = 1 if given.count is None else np.asarray(given.count).astype(np.int64)
        tx = 0 if given.tx is None else np.asarray(given.tx).astype(np.int64)
        old = objects.change(lanes, space, given.m, count, tx, count if dropping else 0)
        if not may_complete:
            bad = (objects.pending(old) == count) & (objects.transactions(old) + tx == 0)
            if np.any(bad):
                reason = "mbarrier.arrive.noComplete completes the phase, which it must not"
                lanes.fault(np.broadcast_to(bad, lanes.count), reason, "mbarrier", "completes")
        return old

    return Semantics(by_name(op, run), lanes=True)


def _wait(op: Operation) -> Semantics:
    """Tests whether a phase has completed: the parity of the mbarrier then differs from that of the phase."""
    space = op.space("m")
    of_state = op.operand("parity") is None

    def complete(lanes: Any, given: Any, watched: bool = True) -> Any:
        word = lanes.memory.load(lanes, space, given.m, _WORD, watched=watched)
        if not np.all(objects.is_one(word)):
            objects.check(lanes, word)
        phase = objects.parity(given.state) if of_state else np.asarray(given.parity & 1).astype(np.uint64)[()]
        return objects.parity(word) != phase

    def barriers(lanes: Any, given: Any, missing: Any) -> None:
        some = lanes.subset(missing)
        m = given.m[missing] if getattr(given.m, "ndim", 0) else given.m
        for _, at, _mine in some.memory.locate(some, space, m, 8, "read", watched=False):
            some.agents.want(at)

    def enter(lanes: Any, given: Any) -> None:
        lanes.load(space, given.m, _WORD)

    def ready(lanes: Any, given: Any) -> Any:
        # of its accesses, monitors see the first and the last: those in between find nothing new
        found = np.broadcast_to(complete(lanes, given, watched=False), lanes.count)
        if not found.all():
            barriers(lanes, given, ~found)
        return found

    def test(lanes: Any, given: Any) -> Any:
        found = complete(lanes, given)
        if not np.all(found):
            # a polling loop must terminate: operations that signal this mbarrier complete before its next test
            barriers(lanes, given, np.broadcast_to(~np.asarray(found), lanes.count))
            lanes.agents.signal_wanted()
            if not np.any(found):
                lanes.residents.polls = _POLL
        return found

    if op.has(".test_wait"):
        return Semantics(by_name(op, test), lanes=True)
    look = by_name(op, ready)
    return Semantics(
        by_name(op, complete), lanes=True, enter=by_name(op, enter), ready=lambda lanes, token, *values: look(lanes, *values), gives_up=True
    )


def _pending_count(op: Operation) -> Semantics:
    return Semantics(lambda state: np.asarray(objects.pending(state)).astype(np.uint32)[()])


def _check_layout(op: Operation) -> Semantics:
    space, layout = op.space("m"), "v1" if op.has(".layout::v1") else "v0"
    return Semantics(lambda lanes, m: objects.has_layout(lanes.load(space, m, _WORD), layout), lanes=True)


_OPERATIONS = {
    ".init": _init,
    ".inval": _inval,
    ".arrive": _arrive,
    ".arrive_drop": _arrive,
    ".expect_tx": lambda op: _count(op, 1),
    ".complete_tx": lambda op: _count(op, -1),
    ".test_wait": _wait,
    ".try_wait": _wait,
    ".pending_count": _pending_count,
    ".check_layout": _check_layout,
}
"""By the modifier that names the operation; `.arrive.expect_tx` is an arrival."""
