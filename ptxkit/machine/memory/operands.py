"""Addresses as register plus offset. Properties of the register are cached and reused by all accesses through it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.memory.buffer import progression

MOST = 8
"""Maximum number of cached registers."""


class SplitAddress(tuple[Any, int]):
    """A 32-bit or 64-bit register and a non-negative constant. The address is their sum, in the width of the register."""

    __slots__ = ()

    @property
    def address(self) -> Any:
        """The address as uint64."""
        register, offset = self
        register = _unsigned(register)
        return (register + register.dtype.type(offset & (1 << 8 * register.dtype.itemsize) - 1)).astype(np.uint64)


@define(eq=False)
class Known:
    """Properties of a register's values as addresses."""

    register: Any
    base: Any
    """The start of each lane's memory in the buffer, as an array, or None."""
    low: int
    high: int
    bits: int
    """The bitwise or of all values."""
    at: Any
    """The addresses in the buffer."""
    is_even: bool
    """Whether they form an arithmetic progression, for which a slice is faster than a gather."""
    indices: dict[int, Any] = attrs.field(factory=dict)

    def index(self, origin: int, size: int) -> Any:
        """The index of the element of a given size at each address."""
        found = self.indices.get(size)
        if found is None:
            found = self.indices[size] = (self.at - origin) >> (size.bit_length() - 1)
        return found


class AddressCache:
    """Properties of the registers used last as addresses. Arrays in registers are immutable."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def clear(self) -> None:
        self._known = {}

    def known(self, register: Any, base: Any) -> Known:
        """The properties of a register's values, relative to each lane's `base`."""
        found = self._known.get(id(register))
        if found is not None and found.register is register and found.base is base:
            return found
        if len(self._known) >= MOST:
            self._known = {}
        values = _unsigned(register)
        at = values.astype(np.int64)
        if base is not None:
            at += base
        low, high, bits = int(values.min()), int(values.max()), int(np.bitwise_or.reduce(values))
        found = self._known[id(register)] = Known(register, base, low, high, bits, at, progression(at) > 0)
        return found


def _unsigned(register: Any) -> Any:
    return register.view(np.uint32 if register.dtype.itemsize == 4 else np.uint64)
