"""Operands of an instruction by name, for forms with many operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.groups import Array
from ptxkit.machine.operation import Operation


@lru_cache(maxsize=4096)
def order(bound: Bound) -> tuple[str, ...]:
    """The names of the operands that `run` receives, in order; omitted operands are passed as None."""
    form = bound.form
    longest = max(form.variants, key=len, default=())
    names = dict.fromkeys([name for item in longest for name in item.names()] + list(form.rules))
    found = []
    for name in names:
        operand = bound.operand(name)
        if operand is not None:
            given = operand.reads or operand.role in ("imm", "sym")
        else:
            given = any(rule.role in ("r", "rw", "addr", "imm", "sym", "sreg") for rule in form.rules[name])
        if given:
            found.append(name)
    return tuple(found)


def named(bound: Bound, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of an instruction by name."""
    return dict(zip(order(bound), arguments, strict=False))


def located(lanes: Any, bound: Bound, address: Any, name: str, size: int = 8) -> Array:
    """For each lane, the position in its buffer of the memory that the operand `name` addresses."""
    found = np.empty(lanes.count, np.int64)
    for _, at, mine in lanes.memory.locate(lanes, Operation(bound).space(name), address, size, "read", watched=False):
        found[slice(None) if mine is None else mine] = at
    return found


class Operands:
    """The arguments of an instruction as attributes, by their names in the form; None if omitted."""

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self.__dict__.update(zip(names, values, strict=True))

    def __getattr__(self, name: str) -> Any:
        return None


def by_name(op: Operation, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Adapts `function(lanes, operands)` to the signature `run(lanes, *values)`."""
    names = order(op.bound)
    return lambda lanes, *values: function(lanes, Operands(names, values))
