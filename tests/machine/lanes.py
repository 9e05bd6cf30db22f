"""Semantics without a machine: operations made of an opcode, and lanes of full warps with a shared memory of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ptxkit.isa import shapes
from ptxkit.isa.binding import Bound, bind
from ptxkit.machine.operation import Operation


def regs(type: str, count: int = 0) -> shapes.OperandShape:
    """A register of this type, or a vector of so many."""
    register = shapes.register(type)
    return shapes.vector(*[register] * count) if count else register


def operation(opcode: str, *operands: shapes.OperandShape, target: str = "sm_90a", **constants: Any) -> Operation:
    """The operation of an instruction, with the values of the operands that are constants."""
    bound = bind(opcode, operands)
    assert isinstance(bound, Bound), bound
    return Operation(bound, target=target, constants=constants)


class Agents:
    """What is in flight, in one group that is waited for as a whole."""

    def __init__(self) -> None:
        self.flights: list[Any] = []

    def start(self, flight: Any, queue: str = "") -> None:
        self.flights.append(flight)

    def wait(self, lanes: Any, queue: str, pending: int | None) -> None:
        for flight in self.flights:
            flight.land(np.arange(flight.lanes.count))
        self.flights = []


class Lanes:
    """So many full warps, four in each CTA. Memory is one array of bytes for each CTA, at addresses from 0."""

    def __init__(self, warps: int, memory: int = 0, index: Any = None) -> None:
        self.index = np.arange(32 * warps) if index is None else index
        self.count = len(self.index)
        self.lane, self.warp, self.cta = self.index % 32, self.index // 32, self.index // 128
        self.thread = self.index % 128
        self.agents = Agents()
        self.memory = SimpleNamespace(watch=None)
        self.launch = SimpleNamespace(first_lines=False)
        self.bytes = np.zeros((max(1, (warps + 3) // 4), memory), np.uint8)

    def broadcast(self, x: Any) -> Any:
        return np.broadcast_to(x, self.count)

    def by_warp(self, x: Any, fill: Any = 0) -> Any:
        return self._by(x, 32, fill)

    def by_warpgroup(self, x: Any, fill: Any = 0) -> Any:
        return self._by(x, 128, fill)

    def _by(self, x: Any, size: int, fill: Any) -> Any:
        x = np.broadcast_to(x, self.count)
        groups, number = np.unique(self.index // size, return_inverse=True)
        result = np.full((len(groups), size), fill, x.dtype)
        result[number, self.index % size] = x
        return result

    def from_warp(self, y: Any) -> Any:
        return self._from(y, 32)

    def from_warpgroup(self, y: Any) -> Any:
        return self._from(y, 128)

    def _from(self, y: Any, size: int) -> Any:
        _, number = np.unique(self.index // size, return_inverse=True)
        return y[number, self.index % size]

    def subset(self, mask: Any) -> Lanes:
        part = Lanes(0, 0, self.index[mask])
        part.bytes = self.bytes
        return part

    repeated = subset

    def _octets(self, address: Any, size: int) -> Any:
        return self.cta[:, None], np.asarray(address, np.int64)[:, None] + np.arange(size)

    def load(self, space: str, address: Any, dtype: Any, width: int = 1) -> Any:
        octets = np.ascontiguousarray(self.bytes[self._octets(address, np.dtype(dtype).itemsize * width)])
        values = octets.view(dtype)
        return values[:, 0] if width == 1 else tuple(values.T)

    def store(self, space: str, address: Any, values: Any) -> None:
        joined = np.stack(values if isinstance(values, tuple) else (values,), -1)
        octets = np.ascontiguousarray(joined).view(np.uint8)
        self.bytes[self._octets(address, octets.shape[1])] = octets
