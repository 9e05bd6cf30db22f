"""Miscellaneous instructions (ISA 9.7.19)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics


def brkpt(op: Operation) -> Semantics:
    """Stops for a debugger: there is none, so nothing happens (ISA 9.7.19.1)."""
    return Semantics(_nothing)


def nanosleep(op: Operation) -> Semantics:
    """Lets others go first, once (ISA 9.7.19.2)."""

    def enter(lanes: Any, t: Any) -> Any:
        return np.full(lanes.count, lanes.launch.turns)

    def ready(lanes: Any, token: Any, t: Any) -> Any:
        return token < lanes.launch.turns

    return Semantics(_nothing, lanes=True, enter=enter, ready=ready, gives_up=True)


def pmevent(op: Operation) -> Semantics:
    """Triggers performance monitor events, which nobody counts (ISA 9.7.19.3)."""
    return Semantics(_nothing)


def trap(op: Operation) -> Semantics:
    """Ends the launch with a fault: the scheduler does (ISA 9.7.19.4)."""
    return Semantics(_nothing)


def setmaxnreg(op: Operation) -> Semantics:
    """Moves registers between warps; the machine has as many as are asked for (ISA 9.7.19.5)."""
    return Semantics(_nothing, lanes=True)


def _nothing(*_: object) -> None:
    return None
