"""Operands of an instruction by name, for forms with many operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxkit.machine.operation import Operation


def order(op: Operation) -> tuple[str, ...]:
    """The names of the operands that `run` receives, in order; omitted operands are passed as None."""
    form = op.bound.form
    longest = max(form.variants, key=len, default=())
    names = dict.fromkeys([name for item in longest for name in item.names()] + list(form.rules))
    found = []
    for name in names:
        operand = op.operand(name)
        if operand is not None:
            given = operand.reads or operand.role in ("imm", "sym")
        else:
            given = any(rule.role in ("r", "rw", "addr", "imm", "sym", "sreg") for rule in form.rules[name])
        if given:
            found.append(name)
    return tuple(found)


class Operands:
    """The arguments of an instruction as attributes, by their names in the form; None if omitted."""

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self.__dict__.update(zip(names, values, strict=True))

    def __getattr__(self, name: str) -> Any:
        return None


def by_name(op: Operation, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Adapts `function(lanes, operands)` to the signature `run(lanes, *values)`."""
    names = order(op)
    return lambda lanes, *values: function(lanes, Operands(names, values))
