"""Shapes of operands: not their text, only what determines whether a form accepts them.

The functions here return the same object for equal shapes; shapes are compared by identity, so that looking up an instruction costs one
dictionary access. A shape made otherwise works too, but is bound anew each time.
"""

from __future__ import annotations

from functools import lru_cache

from ptxkit.frozen import frozen


@frozen(eq=False)
class OperandShape:
    """How an operand is written.

    `kind` is one of register, immediate, address, vector, pair, list, sink, symbol, element, function, label, special, unknown.
    `type` is a register's or variable's declared type (`.f32`; empty if not known), for an immediate the kind of its constant
    (`int`, `f32` as 0f3f800000, `f64` as 1.0), for a special register its name (`%tid.x`).
    """

    kind: str
    type: str = ""
    space: str = ""
    parts: tuple[OperandShape, ...] = ()
    count: int = 1
    negated: bool = False

    def __str__(self) -> str:
        """A description of the operand, for messages."""
        if self.kind == "register":
            vector = f".v{self.count} " if self.count > 1 else ""
            return f"{'negated ' if self.negated else ''}`{vector}{self.type}` register"
        if self.kind == "immediate":
            return {"int": "integer constant", "f32": "float constant", "f64": "float constant"}[self.type]
        if self.kind == "vector":
            return f"vector of {len(self.parts)}"
        if self.kind == "symbol":
            return f"`{self.space}` variable" if self.space else "variable"
        if self.kind == "special":
            return f"special register `{self.type}`"
        if self.kind == "element":
            return "element of an array"
        return {"address": "address", "sink": "`_`", "pair": "pair", "list": "list", "unknown": "operand"}.get(self.kind, self.kind)


UNKNOWN = OperandShape("unknown")
"""An operand of which nothing is known, such as an undeclared register: it never causes a mismatch."""

SINK = OperandShape("sink")
"""`_`."""

SCALAR = OperandShape("scalar")
"""An indexed name that is not an array."""

COMPUTED = OperandShape("computed")
"""An index that is neither a constant nor a register with a constant added."""

LABEL = OperandShape("label")
FUNCTION = OperandShape("function")
KERNEL = OperandShape("function", "kernel")
"""The name of an `.entry`: also a function, but its address is a later feature than that of others."""


@lru_cache(maxsize=4096)
def register(type: str, count: int = 1, negated: bool = False) -> OperandShape:
    """A register declared with a type; `count` 4 for one declared `.v4`. One component of such a vector is a plain register."""
    return OperandShape("register", type, count=count, negated=negated)


@lru_cache(maxsize=4096)
def immediate(kind: str) -> OperandShape:
    """A constant expression: `int`, `f32` (written 0f…) or `f64` (any other float)."""
    return OperandShape("immediate", kind)


@lru_cache(maxsize=4096)
def symbol(space: str = "", type: str = "") -> OperandShape:
    """The name of a variable, with or without an offset, declared in a state space (`.shared`) with a type."""
    return OperandShape("symbol", type, space)


@lru_cache(maxsize=4096)
def element(array: OperandShape, index: OperandShape) -> OperandShape:
    """`a[i]`: the address of an element of a variable that is an array."""
    return OperandShape("element", array.type, array.space, (array, index))


@lru_cache(maxsize=4096)
def special(name: str) -> OperandShape:
    """A special register, as `%tid.x`."""
    return OperandShape("special", name)


@lru_cache(maxsize=4096)
def address(*parts: OperandShape) -> OperandShape:
    """`[base+offset]` as the shape of its base; `[map, {x, y}]` as the shapes of its parts."""
    return OperandShape("address", parts=parts)


@lru_cache(maxsize=4096)
def vector(*parts: OperandShape) -> OperandShape:
    """`{a, b}`."""
    return OperandShape("vector", parts=parts)


@lru_cache(maxsize=4096)
def pair(first: OperandShape, second: OperandShape) -> OperandShape:
    """`p|q`."""
    return OperandShape("pair", parts=(first, second))


@lru_cache(maxsize=4096)
def operands(*parts: OperandShape) -> OperandShape:
    """`(a, b)`, as in a call."""
    return OperandShape("list", parts=parts)
