"""A symbolic address: a root and an offset.

The root is a variable, or an unknown part of the address. The offset is in the domain that the caller needs, as in `symbolic.domains`: a
term, a number, or an interval of possible offsets.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from ptxkit.analyses.numbers.intervals import Interval
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.names import Symbol

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741


class Address(NamedTuple, Generic[R, O]):
    """An address: equal roots with equal offsets are the same byte."""

    root: R
    offset: O


Root = Symbol | Term
"""A variable, or the unknown term on which an address is based."""
Range = Address[Root, Interval]
"""An address within an interval from its root."""


def may_overlap(one: Range, other: Range, size: int) -> bool:
    """Whether `size` bytes at each of two addresses may overlap: not if they are disjoint relative to one root, or in different
    variables."""
    if one.root is not other.root:
        return not (isinstance(one.root, Symbol) and isinstance(other.root, Symbol))
    return one.offset.low < other.offset.high + size and other.offset.low < one.offset.high + size
