"""Values that depend on reads: integers, reads, and functions of them.

A thread is followed before the values of its reads are known, so registers hold expressions over the reads of the path.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxkit.analyses.memory_model.mbarriers import OPERATORS
from ptxkit.frozen import frozen

MASK = (1 << 64) - 1


@frozen(eq=False)
class Read:
    """The value that the event with this number, counted along the path of its thread, returns."""

    event: int


@frozen(eq=False)
class Apply:
    """A function of expressions, modulo 2^64. `reads` are the numbers of all reads that it depends on, as a bit mask."""

    function: Callable[..., int]
    operands: tuple[Expression, ...]
    reads: int


Expression = int | Read | Apply


def reads_of(expression: Expression) -> int:
    """The reads that an expression depends on, as a bit mask: its syntactic dependencies, even if the function ignores one."""
    if isinstance(expression, int):
        return 0
    return 1 << expression.event if isinstance(expression, Read) else expression.reads


def apply(function: Callable[..., int], *operands: Expression) -> Expression:
    """Applies a function: the result is a number if all operands are."""
    if all(isinstance(one, int) for one in operands):
        return function(*operands) & MASK
    reads = 0
    for one in operands:
        reads |= reads_of(one)
    return Apply(function, operands, reads)


def value_of(expression: Expression, read: Callable[[int], int | None]) -> int | None:
    """The value of an expression, given the values of reads; None if `read` does not know one."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, Read):
        return read(expression.event)
    values = []
    for one in expression.operands:
        value = value_of(one, read)
        if value is None:
            return None
        values.append(value)
    return expression.function(*values) & MASK


@frozen
class Function:
    """A function with its PTX name: `setp.lt` and similar, or an arithmetic instruction, on 64-bit integers."""

    name: str
    call: Callable[..., int]

    def __call__(self, *operands: int) -> int:
        return self.call(*operands)


COPY = Function("mov", lambda a: a)
COMPARISONS = {
    name: Function(f"setp.{name}", call)
    for name, call in {
        "eq": lambda a, b: int(a == b),
        "ne": lambda a, b: int(a != b),
        "lt": lambda a, b: int(signed(a) < signed(b)),
        "le": lambda a, b: int(signed(a) <= signed(b)),
        "gt": lambda a, b: int(signed(a) > signed(b)),
        "ge": lambda a, b: int(signed(a) >= signed(b)),
    }.items()
}


def arithmetic(name: str) -> Function:
    """`add`, `sub`, `mul`, `div`, `and`, `or`, `xor`, `min` or `max` on 64 bits."""
    return Function(name, atomic_function(name, 8))


def truncated(size: int) -> Callable[[int], int]:
    """A function that keeps the low `size` bytes of a value."""
    mask = (1 << 8 * size) - 1
    return lambda value: value & mask


def signed(value: int, bits: int = 64) -> int:
    """The two's complement value of the bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def atomic_function(operator: str, size: int) -> Callable[[int, int], int]:
    """The value that `atom.OPERATOR` (9.7.14.5), or an operation on an mbarrier, writes, given the value read and the operand.

    Raises KeyError for an unknown operator.
    """
    bits = 8 * size
    mask = (1 << bits) - 1

    def quotient(a: int, b: int) -> int:
        a, b = signed(a, bits), signed(b, bits)
        if b == 0:
            return mask
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": quotient,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "exch": lambda a, b: b,
        "min": lambda a, b: min(a & mask, b & mask),
        "max": lambda a, b: max(a & mask, b & mask),
        "min.s": lambda a, b: min(signed(a, bits), signed(b, bits)),
        "max.s": lambda a, b: max(signed(a, bits), signed(b, bits)),
        "inc": lambda a, b: 0 if (a & mask) >= (b & mask) else a + 1,
        "dec": lambda a, b: b if (a & mask) == 0 or (a & mask) > (b & mask) else a - 1,
    }
    function = functions.get(operator) or OPERATORS[operator]
    return lambda a, b: function(a, b) & mask
