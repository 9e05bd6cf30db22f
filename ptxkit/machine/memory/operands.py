"""Addresses as a register and an offset: what has been found out about the register serves every access through it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ptxkit.machine.memory.buffer import progression

MOST = 8
"""Of so many registers it is remembered."""


class SplitAddress(tuple[Any, int]):
    """A register, of 32 or 64 bits, and a constant that is not negative: the address is their sum, in the register's width."""

    __slots__ = ()

    @property
    def address(self) -> Any:
        """The address as uint64."""
        register, offset = self
        register = _unsigned(register)
        return (register + register.dtype.type(offset & (1 << 8 * register.dtype.itemsize) - 1)).astype(np.uint64)


@attrs.define(eq=False)
class Known:
    """What is known of a register's values as addresses."""

    register: Any
    base: Any
    """The array of where each lane's memory begins in the buffer, or None."""
    low: int
    high: int
    bits: int
    """All bits that are set in any."""
    at: Any
    """The addresses in the buffer."""
    is_even: bool
    """Whether they go up evenly: then a slice is faster than a gather."""
    indices: dict[int, Any] = attrs.field(factory=dict)

    def index(self, origin: int, size: int) -> Any:
        """Which element of a size lies at each address."""
        found = self.indices.get(size)
        if found is None:
            found = self.indices[size] = (self.at - origin) >> (size.bit_length() - 1)
        return found


class AddressCache:
    """What is known of the last few registers that were used as addresses. An array in a register is never changed."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def clear(self) -> None:
        self._known = {}

    def known(self, register: Any, base: Any) -> Known:
        """What is known of a register's values, each beside its lane's `base`."""
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
