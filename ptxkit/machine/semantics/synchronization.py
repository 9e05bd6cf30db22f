"""Barriers of a CTA, fences, and warp-level operations (ISA 9.7.14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.groups import Lanes
from ptxkit.machine.operation import Operation, Semantics

Array = np.ndarray[Any, Any]
_BITS = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
ALL = np.uint32(0xFFFFFFFF)


# --- barriers


def bar(op: Operation) -> Semantics:
    """Barriers of a CTA; `bar.warp.sync` is a barrier of a warp (ISA 9.7.14.1, 9.7.14.2)."""
    if op.has(".warp"):
        return Semantics(_nothing, lanes=True)
    return _barrier(op)


def barrier(op: Operation) -> Semantics:
    """Barriers of a CTA (ISA 9.7.14.1)."""
    return _barrier(op)


def _barrier(op: Operation) -> Semantics:
    if op.has(".arrive"):

        def arrive(lanes: Lanes, a: Any, b: Any) -> None:
            lanes.residents.barriers.arrive(lanes, a, b)

        return Semantics(arrive, lanes=True)
    if op.has(".red"):
        return _reducing(op)

    def enter(lanes: Lanes, a: Any, b: Any) -> Any:
        residents = lanes.residents
        if b is None and lanes.count == residents.alive_count and not a.ndim and a < 16 and not residents.barriers.arrived.any():
            return None  # everybody is here, and nothing else is going on
        return residents.barriers.arrive(lanes, a, b)

    def ready(lanes: Lanes, token: Any, *_: Any) -> Any:
        return True if token is None else lanes.residents.barriers.passed(token)

    return Semantics(_nothing, lanes=True, enter=enter, ready=ready)


def _reducing(op: Operation) -> Semantics:
    kind = op.slot(".op") or ".popc"

    def enter(lanes: Lanes, a: Any, b: Any, c: Any) -> Any:
        return lanes.residents.barriers.arrive(lanes, a, b, c)

    def ready(lanes: Lanes, token: Any, *_: Any) -> Any:
        return lanes.residents.barriers.passed(token)

    def run(lanes: Lanes, token: Any, *_: Any) -> Any:
        true, total = lanes.residents.barriers.found(token)
        if kind == ".popc":
            return true.astype(np.uint32)
        return true > 0 if kind == ".or" else true == total

    return Semantics(run, lanes=True, enter=enter, ready=ready, takes_token=True)


# --- fences: memory is sequentially consistent here, so they have no effect


def fence(op: Operation) -> Semantics:
    """Orders memory accesses (ISA 9.7.14.4)."""
    return Semantics(_nothing)


def membar(op: Operation) -> Semantics:
    """Orders memory accesses (ISA 9.7.14.4)."""
    return Semantics(_nothing)


def griddepcontrol(op: Operation) -> Semantics:
    """Dependences between grids (ISA 9.7.14.13). Launches run one after another, so earlier grids have completed."""
    return Semantics(_nothing)


def _nothing(*_: object) -> None:
    return None


# --- warp-level operations


def _reduced(lanes: Lanes, rows: Array, mask: Any, reduce: Callable[..., Any], neutral: Any) -> Array:
    """Reduces rows of 32 over the lanes that are present and in each lane's mask; one result for each row, or for each lane."""
    if mask is None or not mask.ndim:
        bits = (ALL if mask is None else mask.astype(np.uint32)) & _BITS != 0
        return reduce(np.where(bits & lanes.active, rows, neutral), axis=1)  # type: ignore[no-any-return]
    named = lanes.by_warp(mask)[:, :, None] & _BITS != 0
    return reduce(np.where(named & lanes.active[:, None, :], rows[:, None, :], neutral), axis=2)  # type: ignore[no-any-return]


def _ballot(lanes: Lanes, rows: Array, mask: Any) -> Array:
    return _reduced(lanes, np.where(rows, _BITS, np.uint32(0)), mask, np.bitwise_or.reduce, np.uint32(0))


def vote(op: Operation) -> Semantics:
    """Combines predicates in a warp (ISA 9.7.14.8, 9.7.14.9)."""
    if op.has(".ballot"):
        return Semantics(lambda lanes, a, mask=None: lanes.from_warp(_ballot(lanes, lanes.by_warp(a, False), mask)), lanes=True)
    mode = op.slot(".mode")

    def run(lanes: Lanes, a: Any, mask: Any = None) -> Any:
        rows = lanes.by_warp(a, False)
        if mode == ".any":
            return lanes.from_warp(_reduced(lanes, rows, mask, np.logical_or.reduce, False))
        every = _reduced(lanes, rows, mask, np.logical_and.reduce, True)
        if mode == ".uni":
            every = every | ~_reduced(lanes, rows, mask, np.logical_or.reduce, False)
        return lanes.from_warp(every)

    return Semantics(run, lanes=True)


def activemask(op: Operation) -> Semantics:
    """The lanes of the warp that execute the instruction together (ISA 9.7.14.11)."""
    return Semantics(lambda lanes: lanes.from_warp(lanes.warp_mask), lanes=True)


def match(op: Operation) -> Semantics:
    """The lanes with the same value (ISA 9.7.14.10)."""
    everyone = op.has(".all")
    with_predicate = op.operand("p") is not None

    def run(lanes: Lanes, a: Any, mask: Any) -> Any:
        rows = lanes.by_warp(a)
        named = (lanes.by_warp(mask)[:, :, None] & _BITS != 0) & lanes.active[:, None, :]
        same = (rows[:, :, None] == rows[:, None, :]) & named
        if not everyone:
            return lanes.from_warp(np.where(same, _BITS, np.uint32(0)).sum(axis=2, dtype=np.uint32))
        equal = (same == named).all(axis=2)
        found = np.where(equal, np.where(named, _BITS, np.uint32(0)).sum(axis=2, dtype=np.uint32), np.uint32(0))
        result = lanes.from_warp(found)
        return (result, lanes.from_warp(equal)) if with_predicate else result

    return Semantics(run, lanes=True)


def redux(op: Operation) -> Semantics:
    """Reduces a value over the lanes of a mask (ISA 9.7.14.12)."""
    kind = op.slot(".op")
    if op.type == ".f32":
        return _redux_float(op, kind)
    dtype = op.dtype("a")
    if kind in (".and", ".or", ".xor"):
        reduce = {".and": np.bitwise_and, ".or": np.bitwise_or, ".xor": np.bitwise_xor}[kind].reduce
        neutral = (
            dtype.type(-1).astype(dtype) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max) if kind == ".and" else dtype.type(0)
        )
        if kind != ".and":
            neutral = dtype.type(0)
    elif kind == ".add":
        neutral = dtype.type(0)

        def reduce(x: Any, axis: int) -> Any:  # type: ignore[misc]
            return np.add.reduce(x, axis=axis, dtype=dtype)
    else:
        limits = np.iinfo(dtype)
        reduce = np.minimum.reduce if kind == ".min" else np.maximum.reduce
        neutral = dtype.type(limits.max if kind == ".min" else limits.min)
    return Semantics(lambda lanes, a, mask: lanes.from_warp(_reduced(lanes, lanes.by_warp(a), mask, reduce, neutral)), lanes=True)


def _redux_float(op: Operation, kind: str) -> Semantics:
    spreads, absolute = op.has(".NaN"), op.has(".abs")
    quiet = np.uint32(0x7FFFFFFF).view(np.float32)
    ignoring = np.fmin.reduce if kind == ".min" else np.fmax.reduce
    spreading = np.minimum.reduce if kind == ".min" else np.maximum.reduce
    limit = np.float32(np.inf if kind == ".min" else -np.inf)

    def run(lanes: Lanes, a: Any, mask: Any) -> Any:
        rows = lanes.by_warp(a)
        rows = np.abs(rows) if absolute else rows
        found = _reduced(lanes, rows, mask, spreading if spreads else ignoring, limit if spreads else np.float32(np.nan))
        return lanes.from_warp(np.where(np.isnan(found), quiet, found))

    return Semantics(run, lanes=True)


def elect(op: Operation) -> Semantics:
    """Elects a lane of a mask, and for equal masks always the same (ISA 9.7.14.14): the first, as GPUs do, or the last if the schedule says
    so."""
    with_lane = op.operand("d") is not None

    def run(lanes: Lanes, mask: Any) -> Any:
        candidates = _reduced(lanes, np.broadcast_to(_BITS, (len(lanes.active), 32)), mask, np.bitwise_or.reduce, np.uint32(0))
        if not lanes.residents.elects_last:
            candidates &= ~candidates + np.uint32(1)
        leader = np.log2(np.maximum(candidates, 1).astype(np.float64)).astype(np.uint32)
        chosen = lanes.from_warp(leader)
        elected = chosen == lanes.lane
        return (chosen, elected) if with_lane else elected

    return Semantics(run, lanes=True)
