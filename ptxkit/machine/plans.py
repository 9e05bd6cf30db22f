"""Where the instructions of a form have the registers that they read and write, and the parts of their operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Fragment
from ptxkit.isa.mismatch import Mismatch
from ptxkit.machine.operation import fitting
from ptxkit.machine.types import dtype_of
from ptxkit.syntax import Group, Instruction, Node, Path

STACK = 0
"""The register with the address of the thread's frame in `.local`."""
TOP = 1
"""The register with the end of the thread's part of `.local` in use: its frame, and allocations by `alloca`."""
CARRY = 2
"""The condition code register (9.7.2)."""
FIRST = 3
"""Number of the first register of the program."""

HOLDING = ("wgmma", "tcgen05.ld")
"""Groups of asynchronous operations that use registers while in flight."""


@frozen
class Plan:
    """Where instructions of one form and shape have the registers that they read and write: operand, and path within it."""

    operands: tuple[tuple[int, Path, bool, bool, np.dtype[Any] | None], ...]
    """Operand, path within it, whether it is read, whether it is written, and its dtype."""
    reads: list[int]
    writes: list[int]
    flow: str
    """`call` or `return` for instructions that access registers they do not name; otherwise empty."""
    shape: str
    """`reads`: all operands are read; `writes`: the first operand is written and all others are read; otherwise empty."""
    holds: bool


def plan_of(bound: Bound | Mismatch) -> Plan:
    if not isinstance(bound, Bound):
        return Plan((), [], [], "", "", False)
    operands: dict[tuple[int, Path], tuple[int, Path, bool, bool, np.dtype[Any] | None]] = {}
    for operand in bound.operands:
        if operand.role == "addr":
            # everything in an address is read
            operands[operand.path[0], ()] = (operand.path[0], (), True, False, None)
            continue
        reads = not operand.writes or operand.role == "rw"
        dtype = dtype_of(fitting(operand)) if operand.types and operand.how != "wide" else None
        operands[operand.path[0], operand.path[1:]] = (operand.path[0], operand.path[1:], reads, operand.writes, dtype)
    effects = bound.effects
    read_too = [CARRY] if "r" in bound.carry else []
    written_too = [CARRY] if "w" in bound.carry else []
    if "alloca" in effects or "stacksave" in effects or "stackrestore" in effects:
        read_too.append(TOP)
    if "alloca" in effects or "stackrestore" in effects:
        written_too.append(TOP)
    flow = bound.flow if bound.flow in ("call", "return") else ""
    shape = "" if flow or read_too or written_too else _shape(operands.values())
    return Plan(tuple(operands.values()), read_too, written_too, flow, shape, holds(bound) or _has_opaque(bound))


def _shape(operands: Iterable[tuple[int, Path, bool, bool, Any]]) -> str:
    """`reads` if all operands are read, `writes` if the first is written and all others are read; otherwise empty."""
    if not any(writes for _, _, _, writes, _ in operands):
        return "reads"
    simple = all((writes and not reads) if at == 0 else (reads and not writes) for at, _, reads, writes, _ in operands)
    return "writes" if simple else ""


def holds(bound: Bound) -> bool:
    """Whether an instruction starts an asynchronous operation that uses registers while in flight."""
    return next((one.group for one in bound.asynchronous if one.action == "open"), "") in HOLDING


def _has_opaque(bound: Bound) -> bool:
    """Whether an instruction reads or writes matrix fragments whose layout the manual does not specify."""
    return any(one.is_opaque for one in bound.fragments)


def fragments_of(bound: Bound) -> list[tuple[Fragment, BoundOperand]]:
    """The opaque matrix fragments of an instruction, with their operands."""
    found = [(one, bound.operand(one.operand)) for one in bound.fragments if one.is_opaque]
    return [(one, operand) for one, operand in found if operand is not None]


def is_copy(bound: Bound | Mismatch) -> bool:
    """Whether an instruction copies one register to another."""
    if not isinstance(bound, Bound) or bound.memory or bound.converges is not None:
        return False
    reads = [operand for operand in bound.operands if operand.reads]
    writes = [operand for operand in bound.operands if operand.writes]
    if len(reads) != 1 or len(writes) != 1 or reads[0].types != writes[0].types or reads[0].shape.kind != "register":
        return False
    return any(one.what.value == reads[0].name and bound.holds(one.when) for one in bound.form.computes)


@frozen
class CallParts:
    """The operands of a `call` by their role."""

    results: tuple[Node, ...]
    target: Node
    arguments: tuple[Node, ...]
    prototype: str


def call_parts(instruction: Instruction) -> CallParts:
    """The results, function, arguments, and target list or prototype of a call (9.7.13.5)."""
    operands = list(instruction.operands)
    results: tuple[Node, ...] = ()
    if operands and isinstance(operands[0], Group) and len(operands) > 1:
        results = operands.pop(0).children
    target = operands.pop(0)
    arguments: tuple[Node, ...] = ()
    if operands and isinstance(operands[0], Group):
        arguments = operands.pop(0).children
    return CallParts(results, target, arguments, operands[0].text if operands else "")


def mask_of(numbers: Iterable[int]) -> int:
    """The numbers as a bit set."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
