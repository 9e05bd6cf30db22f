"""The launches that are executed: a shape, and arguments that are made anew for each run, as a kernel changes what they point to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import attrs

from ptxkit.analyses.execution.contents import Contents, Numbers, Part

Shape = tuple[int, int, int]
WORD = 8
"""The bytes of a pointer."""
MOST_SIDE = 512
"""A grid with a longer side has strides as large as its other numbers."""
LEAST_TILE = 64
"""No tile is smaller."""
FEW, MANY = 4, 12
"""Iterations of a loop that counts to a number: few first, so that it ends soon; then more than any ring has stages."""
STRIDE = 16
"""What an index is multiplied by is so many times as large as other numbers, so that what lies in a row has room in it."""
TABLE = 1 << 10
"""So many pointers are put into a buffer of pointers."""
MIXED = 24
"""So often several parts are drawn together."""
MOST_ROOM = 1 << 27
"""No buffer that is made up is larger, in bytes."""
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
class Image:
    """A texture or surface that is made up, and where its handle lies."""

    at: int
    dimensions: int
    is_texture: bool
    is_float: bool
    is_layered: bool

    def handle(self, machine: Any, contents: Contents, number: int) -> bytes:
        """The handle of a new one."""
        array = contents.image(self.dimensions, number, self.is_float)
        made = machine.texture(array, layered=self.is_layered) if self.is_texture else machine.surface(array, layered=self.is_layered)
        return bytes(made.encode(_Of(machine)))


@attrs.frozen
class MadeUp:
    """What nobody gave: `size` bytes of a number, of a pointer, or of a structure of both.

    At each offset of `pointers` there is the address of a buffer of `room` bytes, at those of `images` a handle, in all other words of 4
    bytes the number of the contents. In the buffers of `tables` there are addresses of further ones: by the offset of the pointer, where
    they begin and how far they are apart. At the offsets of `functions` there are addresses of functions of the module.
    """

    size: int
    pointers: tuple[int, ...] = ()
    images: tuple[Image, ...] = ()
    functions: tuple[tuple[int, str], ...] = ()
    """Offsets of addresses of functions, and their names."""
    tables: tuple[tuple[int, int, int], ...] = ()
    room: int = 1 << 20
    is_float: bool = False
    given: tuple[tuple[int, bytes], ...] = ()
    """Parts that somebody gave, by their offsets."""
    counts: tuple[tuple[int, int, int], ...] = ()
    """Numbers that loops count to: offset, bytes, and how much makes an iteration."""
    strides: tuple[tuple[int, int], ...] = ()
    """Numbers that an index is multiplied by: offset and bytes."""
    fixed: tuple[tuple[int, int, int], ...] = ()
    """Numbers that are to be one: offset, bytes and the number."""
    planes: tuple[tuple[int, int, int], ...] = ()
    """Numbers that are added to an index, where a plane of an array begins: offset, bytes, and the how manyth of them it is."""

    @property
    def made_up(self) -> str:
        """What of it was made up, in words."""
        return "contents" if self.pointers or self.images or self.functions else "number"

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on a machine."""
        data = bytearray(self._numbers(contents, number))
        made = []
        for n, at in enumerate(self.pointers):
            buffer = machine.alloc(self.room)
            held = contents.data(self.room, number * 16 + n)
            made.append((buffer.address, buffer.address + self.room))
            for pointer, first, step in self.tables:
                if pointer == at:
                    held = held.copy()
                    made.append(self._table(machine, held, first, step))
            buffer.write(held)
            data[at : at + 8] = buffer.address.to_bytes(8, "little")
        for at, raw in self.given:
            data[at : at + len(raw)] = raw
        for at, name in self.functions:
            code = machine.codes[-1]
            data[at : at + 8] = machine.function_address(code, name).to_bytes(8, "little")
        for image in self.images:
            data[image.at : image.at + 8] = image.handle(machine, contents, number)
        return bytes(data), tuple(made)

    def _table(self, machine: Any, held: Any, first: int, step: int) -> tuple[int, int]:
        """Puts addresses into a buffer, each of a part of a new one; gives where that is."""
        import numpy as np

        count = max(1, min(TABLE, (len(held) - first) // step if step else 1))
        buffer = machine.alloc(self.room)
        part = self.room // count // 256 * 256
        for n in range(count):
            at = first + n * step
            held[at : at + 8] = np.frombuffer((buffer.address + n * part).to_bytes(8, "little"), np.uint8)
        return buffer.address, buffer.address + self.room

    def _numbers(self, contents: Contents, number: int) -> bytes:
        import numpy as np

        numbers = contents.numbers
        if self.is_float:
            return np.dtype(f"f{self.size}").type(1.0).tobytes() if self.size in (2, 4, 8) else bytes(self.size)
        if self.size in (1, 2, 4, 8):
            data = bytearray(_as_bytes(numbers.other, self.size))
        else:
            words, rest = divmod(self.size, 4)
            data = bytearray(_as_bytes(numbers.other, 4) * words + bytes(rest))
        if numbers.iterations:
            for at, size, each in self.counts:
                data[at : at + size] = _as_bytes(numbers.iterations * each, size)
        if numbers.stride > 1:
            for at, size in self.strides:
                data[at : at + size] = _as_bytes(numbers.other * numbers.stride, size)
        for at, size, rank in self.planes if numbers.plane else ():
            data[at : at + size] = _as_bytes(numbers.plane * rank, size)
        for (who, at, size), value in numbers.chosen:
            if who == number:
                data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        for at, size, value in self.fixed:
            data[at : at + size] = _as_bytes(value, size)
        # a kernel may read more than the parameter has
        return bytes(data[: self.size])


def _as_bytes(number: int, size: int) -> bytes:
    """A number, or the largest signed one of that size."""
    return min(number, (1 << size * 8 - 1) - 1).to_bytes(size, "little")


@attrs.frozen
class Variable:
    """A variable of the module that the host may have written before the launch: `made_up` is what is put there."""

    name: str
    made_up: MadeUp

    def placed(self, code: Any, contents: Contents, number: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Writes it, and gives where it lies, and where the memory lies to which it points."""
        address = code.address(self.name)
        if self.made_up.made_up == "number":
            words = -(-self.made_up.size // 4) * 4
            code.machine.write(address, contents.data(words, number * 16)[: self.made_up.size].tobytes())
            return ((address, address + self.made_up.size),), ()
        data, own = self.made_up.argument(code.machine, contents, number)
        code.machine.write(address, data)
        return ((address, address + self.made_up.size),), own


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
    variables: tuple[Variable, ...] = ()
    decisions: tuple[tuple[tuple[Part, int], ...], ...] = ()
    """Choices of numbers that were not given with which the kernel decides otherwise."""
    choices: tuple[tuple[Part, tuple[int, ...]], ...] = ()
    """Of parts that were not given some numbers that each may be."""
    states: tuple[Variable, ...] = ()
    """The other variables of the module that the kernel reads: what the host, or a launch before, may have left there."""
    cooperative: bool = False
    """Whether all CTAs are resident together, with memory at which the whole grid synchronizes."""

    @property
    def made_up(self) -> bool:
        """Whether anything was made up."""
        return bool(self.variables) or any(one.made_up for one in self.arguments)

    @property
    def memory(self) -> int:
        """The bytes of memory that is made up, about."""
        made = [*self.arguments, *[one.made_up for one in self.variables]]
        return sum([one.room * (len(one.pointers) + len(one.tables)) for one in made if isinstance(one, MadeUp)])

    @property
    def can_grow(self) -> bool:
        """Whether memory that was made up can be larger."""
        return any(isinstance(one, MadeUp) and one.pointers and one.room < MOST_ROOM for one in self.arguments)

    def larger(self, needed: int = 0) -> Launch:
        """The same with more memory that is made up: more than is needed, if that is known."""
        least = 1 << needed.bit_length() + 1
        grown = [
            attrs.evolve(one, room=min(MOST_ROOM, max(one.room * 8, least))) if isinstance(one, MadeUp) and one.pointers else one
            for one in self.arguments
        ]
        return attrs.evolve(self, arguments=tuple(grown))

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        """What numbers that were not given may be, one after the other, until all that matters was executed.

        First as many as there are threads along the longest side, as sizes are; then fewer, and odd, so that not all threads of a warp
        have the same to do. Where the kernel says which of them loops count to, and which are strides, these two are tried with few
        iterations and long rows before. Then planes of an array apart from each other, where something says where they begin; then numbers
        with which it is known to decide otherwise; then a tile, aligned; then few, and odd,
        so that loops end and have a rest; then one and none, as flags are; then more than there are threads.
        """
        longest = max([g * b for g, b in zip(self.grid, self.block, strict=True)])
        tile = 1 << max(3, (max(self.block) - 1).bit_length())
        sizes = [longest, 3 * longest // 4 | 1, max(tile, LEAST_TILE), 13, 1, 0, 5 * longest]
        own = [one for one in self.arguments if isinstance(one, MadeUp)]
        counts = any(one.counts for one in own)
        # rows and columns of a large grid would take more memory than there is
        stride = STRIDE if longest <= MOST_SIDE and any(one.strides for one in own) else 1
        known = [Numbers(size, rounds if counts else 0, stride) for size, rounds in zip(sizes, (FEW, MANY), strict=False)]
        known = known if counts or stride > 1 else []
        decisions = [attrs.evolve((known or [Numbers(longest)])[0], chosen=chosen) for chosen in self.decisions]
        others = [Numbers(size) for size in sizes]
        first = (known or others)[0]
        is_flat = longest > MOST_SIDE
        plane = longest if is_flat else longest * longest * stride
        apart = [attrs.evolve(first, plane=plane)] if any(one.planes for one in own) else []
        return tuple(dict.fromkeys([*known, *others[:2], *apart, *decisions, *others[2:]]))

    def others(self, numbers: Numbers) -> Iterator[Numbers]:
        """The numbers in which one part is another, then some in which several are."""
        for n in range(max([len(values) for _, values in self.choices], default=0)):
            for part, values in self.choices:
                if n < len(values):
                    yield numbers.having({part: values[n]})
        drawn = random.Random(str(numbers))
        for _ in range(MIXED if len(self.choices) > 1 else 0):
            several = drawn.sample(self.choices, drawn.randint(2, len(self.choices)))
            yield numbers.having({part: drawn.choice(values) for part, values in several})

    @property
    def threads(self) -> int:
        """The threads of the launch."""
        return math.prod(self.grid) * math.prod(self.block)

    @property
    def has_numbers(self) -> bool:
        """Whether numbers were made up."""
        return any(isinstance(one, MadeUp) and (one.made_up == "number" or one.size > WORD) for one in self.arguments)
