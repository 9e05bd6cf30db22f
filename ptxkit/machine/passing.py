"""Parameters of device functions and calls, byte by byte (7.1.2): what calls pass, and what instructions load and store by name."""

from __future__ import annotations

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.machine.code import Body, Site
from ptxkit.machine.loading import size_of
from ptxkit.machine.plans import mask_of
from ptxkit.names import Kind, Symbol
from ptxkit.operands import part
from ptxkit.syntax import Address, Name, Node, Number, Vector, constant_value

Byte = tuple[int, str, int]
"""A byte of a parameter: its symbol, by `id`, its name, and the offset. Several parameters may be declared by one symbol."""


@frozen
class Passed:
    """An argument or a result of a call: registers, as a bit set, or a variable of `size` bytes."""

    registers: int = 0
    variable: tuple[int, str] = (0, "")
    size: int = 0


def passed_as(body: Body, site: Site, node: Node) -> Passed:
    """An argument or a result of a call. A constant is neither a register nor a variable."""
    symbol = site.scope.lookup(node.text) if type(node) is Name else None
    if symbol is not None and symbol.space == ".param":
        return Passed(0, (id(symbol), node.text), size_of(symbol))
    return Passed(mask_of(body.registers_of(site.scope, node)))


def formals(body: Body) -> list[Passed]:
    """The results and parameters of a device function."""
    return [
        Passed(1 << number) if symbol.kind is Kind.REGISTER else Passed(0, (id(symbol), symbol.name), size_of(symbol))
        for symbol, number in body.formals
    ]


def accessed(site: Site) -> frozenset[Byte] | None:
    """The bytes of a parameter that an instruction loads or stores by the parameter's name; None if it accesses none by name."""
    bound = site.bound
    address = next(site.instruction.find(Address), None)
    if not isinstance(bound, Bound) or address is None or type(address.base) is not Name:
        return None
    name = address.base.text
    symbol = site.scope.lookup(name)
    if symbol is None or symbol.space != ".param":
        return None
    values = [part(site.instruction.operands[one.path[0]], one.path[1:]) for one in bound.operands if one.role != "addr"]
    count = max([len(node.children) for node in values if type(node) is Vector], default=1)
    start = sum([int(number) for node in address.find(Number) if (number := constant_value(node)) is not None])
    return frozenset([(id(symbol), name, at) for at in range(start, start + count * types()[bound.type].bytes)])


def taken(site: Site) -> set[int]:
    """The parameters, by `id` of their symbols, whose address an instruction uses as a value. Those of the kernel, to which nothing is
    stored, are left out."""
    bound = site.bound
    if not isinstance(bound, Bound) or bound.memory or bound.flow:
        return set()
    symbols = [site.scope.lookup(name.text) for operand in site.instruction.operands for name in operand.find(Name)]
    return {id(one) for one in symbols if one is not None and one.space == ".param" and not _is_of_a_kernel(site, one)}


def _is_of_a_kernel(site: Site, symbol: Symbol) -> bool:
    header = site.body.function.header
    return header.is_entry and symbol.name in [one.name for one in header.parameters]
