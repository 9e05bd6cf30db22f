"""Sizes and alignments of what declarations declare (ISA 5.4)."""

from __future__ import annotations

from ptxkit.directives import is_power_of_two, plain_integer
from ptxkit.isa.types import Type, types
from ptxkit.syntax import Align, Declaration, Dimension, Parameter, VectorWidth


def vector_of(declaration: Declaration | Parameter) -> int:
    """The number of elements of `.v2` and similar; 1 without it."""
    width = next((child.text[2:] for child in declaration.children if isinstance(child, VectorWidth)), "1")
    return int(width) if len(width) < 6 else 1


def extent(dimension: Dimension) -> int | None:
    """The number of elements in a dimension of an array; None if it is left out or no plain integer."""
    return plain_integer(dimension.children[0]) if dimension.children else None


def natural_alignment(declared: Parameter | Declaration, known: Type) -> int:
    """The explicit alignment, otherwise that of the type; 1 if neither makes sense."""
    written = next((child for child in reversed(declared.children) if isinstance(child, Align)), None)
    value = plain_integer(written.children[0]) if written is not None else known.bytes * vector_of(declared)
    return value if value is not None and is_power_of_two(value) else 1


def bytes_of(declaration: Declaration) -> int:
    """The bytes of memory that a declaration takes, without padding between its variables."""
    known = types().get(declaration.type or "")
    if known is None:
        return 0
    total = 0
    for declarator in declaration.declarators:
        size = known.bytes * vector_of(declaration)
        for dimension in declarator.dimensions:
            size *= extent(dimension) or 1
        total += size
    return total
