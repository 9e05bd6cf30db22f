"""The launches that are executed: a shape, and arguments that are made anew for each run, as a kernel changes what they point to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from ptxkit.analyses.execution.contents import Contents

Shape = tuple[int, int, int]
Made = tuple[Any, tuple[tuple[int, int], ...]]
"""An argument as `Machine.launch` takes it, and the addresses (first, end) of memory whose contents were made up."""


@attrs.frozen
class Given:
    """An argument that somebody gave: `make` returns it as `Machine.launch` takes it, fresh for each run."""

    make: Callable[[], Any]

    @property
    def made_up(self) -> str:
        """What of it was made up, in words: nothing."""
        return ""

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on a machine."""
        return self.make(), ()


@attrs.frozen
class MadeUp:
    """An argument that nobody gave: `size` bytes of a number, of a pointer, or of a structure of both.

    At each offset of `pointers` there is the address of a buffer of `room` bytes, at each of `textures` and `surfaces` a handle, in all
    other words of 4 bytes `number`.
    """

    size: int
    number: int = 0
    pointers: tuple[int, ...] = ()
    textures: tuple[tuple[int, int], ...] = ()
    """Offsets, each with the dimensions of the texture."""
    surfaces: tuple[tuple[int, int], ...] = ()
    room: int = 1 << 20
    is_float: bool = False

    @property
    def made_up(self) -> str:
        """What of it was made up, in words."""
        if self.pointers or self.textures or self.surfaces:
            return "contents"
        return "number"

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on a machine."""
        data = bytearray(self._numbers(contents))
        made = []
        for n, at in enumerate(self.pointers):
            buffer = machine.alloc(self.room)
            buffer.write(contents.data(self.room, number * 16 + n))
            made.append((buffer.address, buffer.address + self.room))
            data[at : at + 8] = buffer.address.to_bytes(8, "little")
        for at, dimensions in self.textures:
            data[at : at + 8] = machine.texture(contents.image(dimensions, number)).encode(_Of(machine))
        for at, dimensions in self.surfaces:
            data[at : at + 8] = machine.surface(contents.image(dimensions, number)).encode(_Of(machine))
        return bytes(data), tuple(made)

    def _numbers(self, contents: Contents) -> bytes:
        import numpy as np

        number = self.number * contents.scale
        if self.is_float:
            return np.float64(1.0).tobytes() if self.size == 8 else np.float32(1.0).tobytes() if self.size == 4 else b"\0\x3c"[: self.size]
        if self.size in (1, 2, 4, 8):
            return min(number, (1 << self.size * 8 - 1) - 1).to_bytes(self.size, "little")
        words, rest = divmod(self.size, 4)
        return number.to_bytes(4, "little") * words + bytes(rest)


@attrs.frozen
class _Of:
    machine: Any


class Argument(Protocol):
    """An argument that is made anew for each run."""

    @property
    def made_up(self) -> str:
        """What of it was made up, in words: nothing, a number, contents."""

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on a machine."""


@attrs.frozen
class Launch:
    """How a kernel is launched: `arguments` in the order of its parameters, `shared` the bytes of its dynamic shared memory."""

    kernel: str
    grid: Shape
    block: Shape
    arguments: tuple[Argument, ...] = ()
    cluster: Shape | None = None
    shared: int = 0

    @property
    def longest(self) -> int:
        """The most threads along one dimension of the grid."""
        return max([g * b for g, b in zip(self.grid, self.block, strict=True)])

    @property
    def threads(self) -> int:
        return math.prod(self.grid) * math.prod(self.block)

    @property
    def made_up(self) -> tuple[int, ...]:
        """The positions of the arguments of which something was made up."""
        return tuple([i for i, argument in enumerate(self.arguments) if argument.made_up])
