"""The cluster barrier, and cluster launch control (ISA 9.7.14.3, 9.7.13.17 of PTX 9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.groups import Lanes
from ptxkit.machine.operation import Operation, Semantics


def barrier(op: Operation) -> Semantics:
    """`barrier.cluster.arrive` and `barrier.cluster.wait` (ISA 9.7.14.3)."""
    if op.has(".arrive"):
        return Semantics(lambda lanes: lanes.residents.cluster_barriers.arrive(lanes), lanes=True)

    def enter(lanes: Lanes) -> Any:
        return lanes.residents.cluster_barriers.token(lanes)

    def ready(lanes: Lanes, token: Any) -> Any:
        return lanes.residents.cluster_barriers.passed(token)

    return Semantics(lambda lanes: None, lanes=True, enter=enter, ready=ready)


def clusterlaunchcontrol(op: Operation) -> Semantics:
    """`try_cancel` always fails, since every cluster is launched. The response is 16 zero bytes (ISA 9.7.13.17, 9.7.13.18 of PTX 9)."""
    if op.has(".query_cancel"):
        if op.has(".is_canceled"):
            return Semantics(lambda response: (response["lo"] & np.uint64(1)) != 0)
        if op.has(".v4"):
            return Semantics(_coordinates)
        at = next(i for i, word in enumerate((".get_first_ctaid::x", ".get_first_ctaid::y", ".get_first_ctaid::z")) if op.has(word))
        return Semantics(lambda response: _coordinates(response)[at])
    space, barrier_space = op.space("a"), op.space("mbar")

    def cancel(lanes: Any, a: Any, mbar: Any) -> None:
        from ptxkit.machine.asynchronous.agents import Flight, footprint
        from ptxkit.machine.asynchronous.transfers import complete_transactions, mbarriers_at, places

        there, to = places(lanes, space, a, 16, "write", 16)
        at = mbarriers_at(lanes, barrier_space, mbar)

        def land(positions: Any) -> None:
            zero = np.uint64(0)
            lanes.memory.accessed(lanes.at(positions), there, to[positions], 16, "write", "async")
            there.put(to[positions], (zero, zero), np.dtype(np.uint64))
            complete_transactions(lanes.at(positions), at[positions], np.int64(16))

        footprints = lambda: [footprint(lanes, "write", there, to, 16, signal=at)]  # noqa: E731
        lanes.agents.start(Flight(lanes, land, at[:, None], footprints=footprints))

    return Semantics(cancel, lanes=True)


def _coordinates(response: Any) -> tuple[Any, Any, Any, Any]:
    lo, hi = response["lo"], response["hi"]
    shift = np.uint64(32)
    return (lo >> shift).astype(np.uint32), hi.astype(np.uint32), (hi >> shift).astype(np.uint32), hi.astype(np.uint32) * np.uint32(0)
