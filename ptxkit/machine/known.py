"""What all instructions with the same form, shape and constants have in common: how their operands are read and their results written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.machine.code import Site
from ptxkit.machine.fault import Stop
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.semantics import semantics_of
from ptxkit.operands import COMPONENTS, part
from ptxkit.syntax import Address, Component, Name, Unary, Vector, constant_value

U64 = np.dtype(np.uint64)


@frozen(eq=False)
class Known:
    """What all instructions with the same form, shape and constants have in common."""

    operation: Operation
    semantics: Semantics
    reads: tuple[tuple[str, BoundOperand | None, np.dtype[Any]], ...]
    """The arguments in order: name in the form, operand (None if omitted), and dtype; without flags and the stack."""
    writes: tuple[tuple[BoundOperand, np.dtype[Any]], ...]
    """The results in order."""
    names: list[str]
    """The names of all arguments, in order."""


def known(operation: Operation) -> Known:
    """What is common to all instructions with this operation. Raises `Stop` if it cannot be executed."""
    bound = operation.bound
    if not bound.form.modelled:
        raise Stop("unsupported", f"`{bound.opcode}` is known by name only, so it cannot be executed")
    try:
        semantics = semantics_of(operation)
    except Unsupported as why:
        raise Stop("unsupported", str(why)) from None
    reads: list[tuple[str, BoundOperand | None, np.dtype[Any]]] = []
    for name in operand_order(bound.form):
        operand = bound.operand(name)
        if operand is None:
            if is_read(bound.form, name):
                reads.append((name, None, U64))
        elif operand.reads or operand.role in ("imm", "sym"):
            reads.append((name, operand, _asked(semantics.reads, operation, name)))
    count = len(reads) + ("r" in bound.carry) + reads_stack(bound)
    if any(operand is None for _, operand, _ in reads) and not takes(semantics, count):
        reads = [one for one in reads if one[1] is not None]
    writes = [(operand, _asked(semantics.writes, operation, operand.name)) for operand in operation.writes]
    names = [name for name, _, _ in reads]
    if "r" in bound.carry:
        names.append("CC")
    if reads_stack(bound):
        names.append("TOP")
    return Known(operation, semantics, tuple(reads), tuple(writes), names)


def _asked(dtypes: Mapping[str, Any], operation: Operation, name: str) -> np.dtype[Any]:
    """The dtype of an operand: the one that the semantics request, or that of its type."""
    asked = dtypes.get(name)
    return np.dtype(asked) if asked is not None else operation.dtype(name)


def reads_stack(bound: Bound) -> bool:
    """Whether an instruction reads the stack pointer (9.7.13)."""
    return any(effect in ("alloca", "stacksave", "stackrestore") for effect in bound.effects)


def changes_stack(bound: Bound) -> bool:
    """Whether an instruction moves the stack pointer."""
    return any(effect in ("alloca", "stackrestore") for effect in bound.effects)


def is_plain(site: Site) -> bool:
    """Whether all operands of an instruction are names or addresses in a single register, so that it has no constants."""
    for node in site.instruction.operands:
        if type(node) is not Name and (type(node) is not Address or type(node.parts[0]) is not Name or len(node.parts) != 1):
            return False
    return True


def described(site: Site, bound: Bound, target: str) -> Operation:
    """The operation of an instruction, with its constants."""
    constants: dict[str, Any] = {}
    parts: dict[str, str] = {}
    negated: set[str] = set()
    operands = site.instruction.operands
    for operand in bound.operands:
        node = part(operands[operand.path[0]], operand.path[1:])
        kind = type(node)
        if kind is Name:
            continue
        if isinstance(node, Vector):
            values = tuple([constant_value(element) for element in node.children])
            if any(value is not None for value in values):
                constants[operand.name] = values
            continue
        if isinstance(node, Unary) and constant_value(node) is None and node.operator == "-":
            negated.add(operand.name)
            node = node.operand
        if isinstance(node, Component):
            if node.selector[1:] not in COMPONENTS:
                parts[operand.name] = node.selector
            continue
        value = constant_value(node)
        if value is not None:
            constants[operand.name] = value
    return Operation(bound, target, constants, parts, frozenset(negated))


@lru_cache(maxsize=4096)
def operand_order(form: Any) -> tuple[str, ...]:
    """The names of all operands that a form can have, in the order of its operand list."""
    longest = max(form.variants, key=len, default=())
    names: list[str] = []
    for item in longest:
        names += item.names()
    return tuple(dict.fromkeys([*names, *form.rules]))


@lru_cache(maxsize=16384)
def is_read(form: Any, name: str) -> bool:
    """Whether an operand that is omitted would be read."""
    return any(rule.role in ("r", "rw", "addr", "imm", "sym", "sreg") for rule in form.rules[name])


def takes(semantics: Semantics, count: int) -> bool:
    """Whether `run` accepts this many operands. Semantics that handle omitted operands by the operation need not accept them."""
    run = semantics.run
    if isinstance(run, np.ufunc):
        return run.nin >= count
    try:
        inspect.signature(run).bind(*[None] * (count + semantics.lanes + semantics.takes_token))
    except (TypeError, ValueError):
        return False
    return True
