"""Asynchronous stores and reductions to shared memory of the cluster and to global memory (ISA 9.7.10.12, 9.7.14.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.asynchronous.agents import Flight, footprint
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.asynchronous.transfers import complete_transactions, mbarriers_at, places
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.memory.combining import combining
from ptxkit.machine.memory.updates import serially
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]


def store_asynchronously(op: Operation) -> Semantics:
    """`st.async`: the stored bytes are counted by an mbarrier, if there is one."""
    dtype = dtype_of(op.type)
    space = op.space("a") if op.slot(".ss") or op.operand("mbar") else ".global"

    def run(lanes: Any, given: Any) -> None:
        values = given.b if isinstance(given.b, tuple) else (given.b,)
        size = dtype.itemsize * len(values)
        there, to = places(lanes, space, given.a, size, "write", size)
        whole = tuple(lanes.broadcast(v) for v in values)

        def land(positions: Array) -> None:
            lanes.memory.accessed(lanes.at(positions), there, to[positions], size, "write", "generic")
            there.put(to[positions], tuple(v[positions] for v in whole), dtype)

        _start(lanes, space, given.mbar, land, size, ("write", there, to))

    return Semantics(by_name(op, run), reads={"b": dtype}, lanes=True)


def reduce_asynchronously(op: Operation) -> Semantics:
    """`red.async`: an atomic reduction; its bytes are counted by an mbarrier, if there is one."""
    change = combining(op.slot(".op") or ".add", op.type, False)
    dtype = change.dtype
    # the table allows both windows if no space is given: the address is then generic
    space = op.space("a") if op.slot(".ss") else ".generic"

    def run(lanes: Any, given: Any) -> None:
        there, to = places(lanes, space, given.a, dtype.itemsize, "update", dtype.itemsize)
        values = lanes.broadcast(given.b)

        def land(positions: Array) -> None:
            lanes.memory.accessed(lanes.at(positions), there, to[positions], dtype.itemsize, "update", "generic")
            index = there.index(to[positions], dtype.itemsize)
            serially(there.view(dtype), index, change.update.silent(), (values[positions],), len(positions), False)

        _start(lanes, space, given.mbar, land, dtype.itemsize, ("update", there, to))

    return Semantics(by_name(op, run), reads={"b": dtype}, lanes=True)


def _start(lanes: Any, space: str, mbar: Any, land: Any, size: int, what: tuple[str, Buffer, Array]) -> None:
    if mbar is None:
        lanes.agents.start(Flight(lanes, land, footprints=lambda: [footprint(lanes, *what, size)]))
        return
    at = mbarriers_at(lanes, space, mbar)

    def both(positions: Array) -> None:
        land(positions)
        complete_transactions(lanes.at(positions), at[positions], np.int64(size))

    lanes.agents.start(Flight(lanes, both, at[:, None], footprints=lambda: [footprint(lanes, *what, size, signal=at)]))
