"""The contract between the instruction table and the semantics: `Operation` in, `Semantics` out. The README beside it explains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.types import types
from ptxkit.machine.types import dtype_of


class Unsupported(Exception):
    """A form that the machine does not execute, or what only shows when it is executed, with the reason."""

    kind = "unsupported"


@attrs.frozen(eq=False)
class Operation:
    """An instruction as its semantics see it: the form with its modifiers, and the constants among its operands.

    `constants` has the value of every operand that is written as a constant (an `int`, or a `float` for one written as such), by the
    form's name of it; a vector is a tuple in which what is no constant is None. `parts` has what is picked from an operand of a video
    instruction, by the same names (`%r1.b0` as `.b0`, `%r1.h10` as `.h10`), `negated` the names of those written with a minus (`vmad`).
    """

    bound: Bound
    target: str = "sm_90a"
    constants: Mapping[str, Any] = attrs.field(factory=dict)
    parts: Mapping[str, str] = attrs.field(factory=dict)
    negated: frozenset[str] = frozenset()

    def has(self, *modifiers: str) -> bool:
        """Whether all of these modifiers are there."""
        return self.bound.has(*modifiers)

    def slot(self, name: str) -> str:
        """The modifier in a slot (`op.slot(".rnd")`), or an empty string."""
        return self.bound.slot(name)

    @property
    def type(self) -> str:
        """The instruction type, as `.f32`."""
        return self.bound.type

    def operand(self, name: str) -> BoundOperand | None:
        """What the table says of an operand, or None if it is left out."""
        return self.bound.operand(name)

    @property
    def reads(self) -> tuple[BoundOperand, ...]:
        """The operands that `run` is given, in order: all that are read, constants among them."""
        return tuple(o for o in self.bound.operands if o.reads or o.role in ("imm", "sym"))

    @property
    def writes(self) -> tuple[BoundOperand, ...]:
        """The operands whose values `run` returns, in order."""
        return tuple(o for o in self.bound.operands if o.writes)

    def width(self, name: str) -> int:
        """How many elements an operand has, 1 if it is no vector."""
        operand = self.operand(name)
        return operand.width if operand is not None and operand.width else 1

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype in which an operand is handed over, unless the semantics ask otherwise."""
        operand = self.operand(name)
        if operand is None or not operand.types:
            return np.dtype(np.uint64)
        return dtype_of(fitting(operand))

    def space(self, name: str) -> str:
        """The state space of an address operand (`.shared::cta` as `.shared`), `.generic` if none is written."""
        operand = self.operand(name)
        space = operand.spaces[0] if operand is not None and operand.spaces else ".generic"
        return ".shared" if space == ".shared::cta" else space


def fitting(operand: BoundOperand) -> str:
    """Of the types of which an operand may be, the first that has the size of the register that stands there; else the first."""
    if len(operand.types) == 1:
        return operand.types[0]
    shape = operand.shape.parts[0] if operand.shape.kind == "vector" and operand.shape.parts else operand.shape
    known = types()
    if shape.kind == "register" and shape.type in known:
        bits = known[shape.type].bits
        return next((name for name in operand.types if known[name].bits == bits), operand.types[0])
    return operand.types[0]


@attrs.frozen(eq=False)
class Semantics:
    """What an instruction does. `run` and the others are called with arrays, as the README says.

    `reads` and `writes` give dtypes by operand where they differ from `Operation.dtype`.
    """

    run: Callable[..., Any]
    reads: Mapping[str, Any] = attrs.field(factory=dict)
    writes: Mapping[str, Any] = attrs.field(factory=dict)
    lanes: bool = False
    enter: Callable[..., Any] | None = None
    ready: Callable[..., Any] | None = None
    gives_up: bool = False
    takes_token: bool = False
    """Whether `run` is given the token of `enter` before the operands."""
    parts_address: bool = False
    """Whether `run` may be given an address as a `SplitAddress`: the register as it is, and the offset beside it."""
    variants: Mapping[str, Callable[..., Any]] = attrs.field(factory=dict)
    """`run` where less is asked of it, by what is known: `any nan`, a NaN among the operands or the results may be any NaN; `normal`, no
    operand is subnormal, and no result ever is (`.ftz`); or `any nan, normal`, both."""
