"""One instruction on given lanes, without a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
from stand_in import Lanes

import ptxkit
from ptxkit.checking import Bounds
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous.arguments import order
from ptxkit.machine.operation import Operation
from ptxkit.machine.semantics import semantics_of
from ptxkit.names import resolve


def operation(instruction: str, constants: dict[str, Any] | None = None) -> Operation:
    """An instruction as its semantics see it. Registers are `%p %h %r %rd %q %f %d` with a number."""
    text = (
        ".version 9.3\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n"
        ".reg .pred %p<99>; .reg .b16 %h<99>; .reg .b32 %r<99>; .reg .b64 %rd<99>; .reg .b128 %q<99>; .reg .f32 %f<99>; .reg .f64 %d<99>;\n"
        f"{instruction};\nret;\n}}\n"
    )
    names = resolve(ptxkit.parse(text))
    bound = Bounds(names).of((3, 1))[0]
    assert isinstance(bound, Bound), bound
    return Operation(bound, "sm_100a", constants or {})


def execute(instruction: str, lanes: Lanes, *values: Any, **constants: Any) -> Any:
    """What an instruction gives on lanes, waiting until all are ready. `values` are its operands that are read, in order, or by name."""
    op = operation(instruction, constants)
    if values and isinstance(values[0], dict):
        values = tuple(values[0].get(name) for name in order(op.bound))
    semantics = semantics_of(op)
    if semantics.enter is not None:
        token = semantics.enter(lanes, *values)
        assert semantics.ready is not None
        while not np.all(semantics.ready(lanes, token, *values)):
            if not lanes.agents.step():
                if semantics.gives_up:
                    break
                raise TimeoutError("deadlock")
    return semantics.run(lanes, *values) if semantics.lanes else semantics.run(*values)
