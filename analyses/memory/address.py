"""A symbolic address: what it starts from, and how far from there it is.

The root is a variable, or else anything an address is made of that is not known. The offset stands in the domain that the asker needs, as
`symbolic.domains` has them: a term, a number, or the interval of all that it may be.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from ptxkit.analyses.numbers.intervals import Interval
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.names import Symbol

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741


class Address(NamedTuple, Generic[R, O]):
    """An address: equal roots and equal offsets are the same byte."""

    root: R
    offset: O


Root = Symbol | Term
"""A variable, or the unknown term that an address starts from."""
Range = Address[Root, Interval]
"""An address that lies somewhere in an interval from its root."""


def may_overlap(one: Range, other: Range, size: int) -> bool:
    """Whether `size` bytes from each of two addresses on may have a byte in common: not if they lie apart from one root, or in different
    variables."""
    if one.root is not other.root:
        return not (isinstance(one.root, Symbol) and isinstance(other.root, Symbol))
    return one.offset.low < other.offset.high + size and other.offset.low < one.offset.high + size
