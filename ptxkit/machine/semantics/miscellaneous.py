"""Miscellaneous instructions (ISA 9.7.19)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics


def brkpt(op: Operation) -> Semantics:
    """A breakpoint; without a debugger it has no effect (ISA 9.7.19.1)."""
    return Semantics(_nothing)


def nanosleep(op: Operation) -> Semantics:
    """Yields to other groups once (ISA 9.7.19.2)."""

    def enter(lanes: Any, t: Any) -> Any:
        return np.full(lanes.count, lanes.launch.turns)

    def ready(lanes: Any, token: Any, t: Any) -> Any:
        return token < lanes.launch.turns

    return Semantics(_nothing, lanes=True, enter=enter, ready=ready, gives_up=True)


def pmevent(op: Operation) -> Semantics:
    """Triggers performance monitor events, which are not counted (ISA 9.7.19.3)."""
    return Semantics(_nothing)


def trap(op: Operation) -> Semantics:
    """Ends the launch with a fault, raised by the scheduler (ISA 9.7.19.4)."""
    return Semantics(_nothing)


def setmaxnreg(op: Operation) -> Semantics:
    """Reallocates registers between warps; the machine has an unlimited number (ISA 9.7.19.5)."""
    return Semantics(_nothing, lanes=True)


def _nothing(*_: object) -> None:
    return None
