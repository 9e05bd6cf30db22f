"""Control flow (ISA 9.7.13). Branches, calls and exits are handled by the scheduler and compute nothing."""

from __future__ import annotations

from ptxkit.machine.operation import Operation, Semantics


def bra(op: Operation) -> Semantics:
    """Branches to a label (ISA 9.7.13.3)."""
    return Semantics(_nothing)


def brx(op: Operation) -> Semantics:
    """Branches to one of several labels (ISA 9.7.13.4)."""
    return Semantics(_nothing)


def call(op: Operation) -> Semantics:
    """Calls a function (ISA 9.7.13.5)."""
    return Semantics(_nothing)


def ret(op: Operation) -> Semantics:
    """Returns from a function (ISA 9.7.13.6)."""
    return Semantics(_nothing)


def exit(op: Operation) -> Semantics:
    """Ends the thread (ISA 9.7.13.7)."""
    return Semantics(_nothing)


def _nothing(*_: object) -> None:
    return None
