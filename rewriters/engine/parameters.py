"""Kernel parameters: their layout (7.1), and headers with an additional one."""

from __future__ import annotations

import attrs

from ptxkit.isa.types import types
from ptxkit.rewriters.engine.rewrite import Argument, Variable
from ptxkit.sizes import natural_alignment, vector_of
from ptxkit.syntax import (
    Declaration,
    Declarator,
    Function,
    FunctionKind,
    Header,
    Module,
    Parameter,
    Parameters,
    constant_value,
    parse,
    shape,
)


def layout(header: Header) -> tuple[Argument, ...]:
    """The parameters of a kernel with their offsets and sizes in its parameter space, in bytes."""
    found: list[Argument] = []
    at = 0
    for parameter in header.parameters:
        known = types().get(parameter.type or "")
        align = natural_alignment(parameter, known) if known is not None else 1
        size = bytes_of(parameter, parameter.declarator)
        at = -(-at // align) * align
        found.append(Argument(header.name.text, parameter.name, parameter.type or "", at, size))
        at += size
    return tuple(found)


def bytes_of(declared: Declaration | Parameter, declarator: Declarator) -> int:
    """The bytes of a variable or parameter; 0 for an array without a size."""
    known = types().get(declared.type or "")
    size = (8 if known is not None and known.kind == "opaque" else known.bytes if known is not None else 0) * vector_of(declared)
    for dimension in declarator.dimensions:
        value = constant_value(dimension.children[0]) if dimension.children else 0
        size *= int(value or 0)
    return size


def variables(declaration: Declaration) -> tuple[Variable, ...]:
    """The variables that a declaration declares."""
    space = declaration.space or ""
    return tuple([Variable(one.name.text, space, bytes_of(declaration, one)) for one in declaration.declarators])


def space_for(module: Module) -> int:
    """The bytes of parameters that a kernel may have in a module (7.1)."""
    version = module.version or (1, 0)
    modern = any(_number(word) >= 70 for word in module.targets)
    return 32764 if version >= (8, 1) and modern else 4352 if version >= (1, 5) else 256


def _number(target: str) -> int:
    digits = target.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdecimal() else 0


def with_parameter(module: Module, header: Header, name: str, type_: str) -> tuple[Header, Argument] | str:
    """The header with an additional parameter, and its layout; or the reason why it cannot be added."""
    known = types().get(type_)
    if known is None or known.kind in ("predicate", "opaque"):
        return f"no parameter can be added of type `{type_}`"
    if not header.is_entry:
        return f"`{header.name.text}` is not a kernel: a new parameter would break those who call it"
    before = layout(header)
    end = before[-1].offset + before[-1].bytes if before else 0
    offset = -(-end // known.bytes) * known.bytes
    most = space_for(module)
    if offset + known.bytes > most:
        return f"the parameters of `{header.name.text}` would take {offset + known.bytes} bytes, and {most} are there"
    return _added(header, f".param {type_} {name}"), Argument(header.name.text, name, type_, offset, known.bytes)


def _added(header: Header, text: str) -> Header:
    (made,) = parse(f".entry k({text}){{}}").children
    assert isinstance(made, Function)
    (parameter,) = made.header.parameters
    at = next((i for i, child in enumerate(header.children) if isinstance(child, Parameters)), None)
    if at is None:
        kind = next(i for i, child in enumerate(header.children) if child is header.name)
        assert any(isinstance(child, FunctionKind) for child in header.children[:kind])
        literals = header.shape.literals
        parameters = Parameters(shape("(", ")"), (parameter,))
        grown = shape(*literals[: kind + 1], "", *literals[kind + 1 :])
        return attrs.evolve(header, shape=grown, children=(*header.children[: kind + 1], parameters, *header.children[kind + 1 :]))
    old = header.children[at]
    assert isinstance(old, Parameters)
    literals = old.shape.literals
    if not old.children:
        new = Parameters(shape("(", ")"), (parameter,))
    else:
        between = literals[1] if len(old.children) > 1 else "," + (literals[0][1:] if literals[0][1:].isspace() else " ")
        new = Parameters(shape(*literals[:-1], between, literals[-1]), (*old.children, parameter))
    return header.with_children((*header.children[:at], new, *header.children[at + 1 :]))
