"""Values of literals and constant expressions (4.5)."""

from __future__ import annotations

import operator
from collections.abc import Callable

from ptxkit.syntax.leaves import Name, Number, Operator
from ptxkit.syntax.operands import Cast, Conditional, Expression, Group, Unary
from ptxkit.syntax.tree import Node

PRECEDENCE = {
    symbol: level
    for level, symbols in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), start=2)
    for symbol in symbols.split()
}
"""Binary operators by precedence."""

WARP_SIZE = 32

_OPERATIONS: dict[str, Callable[[int | float, int | float], int | float | bool]] = {
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}


def constant_value(node: Node) -> int | float | None:
    """The value of a constant expression, or None if it is not constant, contains a name, or divides by zero.

    Integers are exact: they are not truncated to 64 bits.
    """
    if isinstance(node, Number):
        try:
            return node.value
        except ValueError:
            return None
    if isinstance(node, Name):
        return WARP_SIZE if node.text == "WARP_SZ" else None
    if isinstance(node, Group):
        return constant_value(node.children[0]) if len(node.children) == 1 else None
    if isinstance(node, Unary):
        return _unary(node.operator, constant_value(node.operand))
    if isinstance(node, Cast):
        return _cast(node.children[0].text, constant_value(node.children[1]))
    if isinstance(node, Conditional):
        condition, then, other = [constant_value(child) for child in node.children]
        return None if condition is None else then if condition else other
    if isinstance(node, Expression):
        return _expression(node)
    return None


def constant_integer(node: Node) -> int | None:
    """The value of a constant expression if it is an integer; otherwise None."""
    value = constant_value(node)
    return value if isinstance(value, int) else None


def _unary(symbol: str, value: int | float | None) -> int | float | None:
    if value is None:
        return None
    if symbol == "!":
        return int(not value)
    if symbol == "~":
        return ~value if isinstance(value, int) else None
    return -value if symbol == "-" else value


def _cast(kind: str, value: int | float | None) -> int | float | None:
    if value is None:
        return None
    value = int(value) & (1 << 64) - 1
    return value - (1 << 64) if kind == ".s64" and value >> 63 else value


def _expression(node: Expression) -> int | float | None:
    values: list[int | float] = []
    waiting: list[str] = []

    def reduce() -> bool:
        right, left = values.pop(), values.pop()
        result = _binary(waiting.pop(), left, right)
        if result is None:
            return False
        values.append(result)
        return True

    for child in node.children:
        if isinstance(child, Operator):
            while waiting and PRECEDENCE[waiting[-1]] >= PRECEDENCE[child.text]:
                if not reduce():
                    return None
            waiting.append(child.text)
            continue
        value = constant_value(child)
        if value is None:
            return None
        values.append(value)
    while waiting:
        if not reduce():
            return None
    return values[0]


def _binary(symbol: str, left: int | float, right: int | float) -> int | float | None:
    if symbol in _OPERATIONS:
        result = _OPERATIONS[symbol](left, right)
        return int(result) if isinstance(result, bool) else result
    if symbol == "/" and isinstance(left, float | int) and isinstance(right, float):
        return left / right if right else None
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if symbol in "/%":
        if not right:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if symbol == "/" else left - quotient * right
    if symbol in ("<<", ">>"):
        if not 0 <= right < 64:
            return 0
        return left << right if symbol == "<<" else left >> right
    return left & right if symbol == "&" else left | right if symbol == "|" else left ^ right
