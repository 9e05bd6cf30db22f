"""The contract between the instruction table and the semantics: `Operation` in, `Semantics` out. See the README."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.types import types
from ptxkit.machine.types import dtype_of


class Unsupported(Exception):
    """The machine cannot execute a form, or an operation of it that is only known at run time; the message gives the reason."""

    kind = "unsupported"


@frozen(eq=False)
class Operation:
    """An instruction as its semantics see it: the form with its modifiers, and the constants among its operands.

    `constants` has the value of every constant operand (an `int`, or a `float` if written as one), by its name in the form; in a vector,
    elements that are not constant are None. `parts` has the selected part of operands of video instructions, by the same names (`%r1.b0` as
    `.b0`, `%r1.h10` as `.h10`); `negated` has the names of operands written with a minus (`vmad`).
    """

    bound: Bound
    target: str = "sm_90a"
    constants: Mapping[str, Any] = attrs.field(factory=dict)
    parts: Mapping[str, str] = attrs.field(factory=dict)
    negated: frozenset[str] = frozenset()

    def has(self, *modifiers: str) -> bool:
        """Whether all of these modifiers are present."""
        return self.bound.has(*modifiers)

    def slot(self, name: str) -> str:
        """The modifier in a slot (`op.slot(".rnd")`), or an empty string."""
        return self.bound.slot(name)

    @property
    def type(self) -> str:
        """The instruction type, such as `.f32`."""
        return self.bound.type

    def operand(self, name: str) -> BoundOperand | None:
        """The table's entry for an operand, or None if it is omitted."""
        return self.bound.operand(name)

    @property
    def reads(self) -> tuple[BoundOperand, ...]:
        """The operands that `run` receives, in order: all that are read, including constants."""
        return tuple(o for o in self.bound.operands if o.reads or o.role in ("imm", "sym"))

    @property
    def writes(self) -> tuple[BoundOperand, ...]:
        """The operands whose values `run` returns, in order."""
        return tuple(o for o in self.bound.operands if o.writes)

    def width(self, name: str) -> int:
        """Number of elements of an operand; 1 if it is not a vector."""
        operand = self.operand(name)
        return operand.width if operand is not None and operand.width else 1

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype in which an operand is passed, unless the semantics request another one."""
        operand = self.operand(name)
        if operand is None or not operand.types:
            return np.dtype(np.uint64)
        return dtype_of(fitting(operand))

    def space(self, name: str) -> str:
        """The state space of an address operand (`.shared` for `.shared::cta`); `.generic` if none is given."""
        operand = self.operand(name)
        space = operand.spaces[0] if operand is not None and operand.spaces else ".generic"
        return ".shared" if space == ".shared::cta" else space


def fitting(operand: BoundOperand) -> str:
    """Of the types that an operand may have, the first that has the size of the actual register; otherwise the first."""
    if len(operand.types) == 1:
        return operand.types[0]
    shape = operand.shape.parts[0] if operand.shape.kind == "vector" and operand.shape.parts else operand.shape
    known = types()
    if shape.kind == "register" and shape.type in known:
        bits = known[shape.type].bits
        return next((name for name in operand.types if known[name].bits == bits), operand.types[0])
    return operand.types[0]


@frozen(eq=False)
class Semantics:
    """The implementation of an instruction. `run` and the other callables receive arrays, as the README describes.

    `reads` and `writes` have the dtypes of operands that differ from `Operation.dtype`.
    """

    run: Callable[..., Any]
    reads: Mapping[str, Any] = attrs.field(factory=dict)
    writes: Mapping[str, Any] = attrs.field(factory=dict)
    lanes: bool = False
    enter: Callable[..., Any] | None = None
    ready: Callable[..., Any] | None = None
    gives_up: bool = False
    takes_token: bool = False
    """Whether `run` receives the token of `enter` before the operands."""
    parts_address: bool = False
    """Whether `run` accepts an address as a `SplitAddress`: the unmodified register, and the offset."""
    variants: Mapping[str, Callable[..., Any]] = attrs.field(factory=dict)
    """Variants of `run` for weaker requirements: `any nan`: any NaN may be returned if operands or result are NaN; `normal`: no operand
    is subnormal, and no result ever is (`.ftz`); or `any nan, normal`."""
