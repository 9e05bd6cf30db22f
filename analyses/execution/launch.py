"""Launches: a shape, and arguments that are created anew for each run, since a kernel may overwrite what they point to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import attrs

from ptxkit.analyses.execution.contents import PARTS, ZEROS, Contents, Numbers, Part
from ptxkit.frozen import frozen

Shape = tuple[int, int, int]
WORD = 8
"""Size of a pointer in bytes."""
MOST_SIDE = 512
"""In a grid with a longer side, strides are as large as the other scalars."""
LEAST_TILE = 64
"""Least size of a tile."""
FEW, MANY = 4, 12
"""Trip counts for loops that are bounded by a scalar: first a few, so that the loop ends soon, then more than any ring has stages."""
STRIDE = 16
"""Strides are this many times as large as other scalars, so that a row has room for all its elements."""
TABLE = 1 << 10
"""Maximum number of pointers in a table of pointers."""
MIXED = 24
"""How many combinations of several changed scalars are drawn."""
MOST_ROOM = 1 << 27
"""Maximum size of a synthesized buffer in bytes."""
Made = tuple[Any, tuple[tuple[int, int], ...]]
"""An argument as `Machine.launch` takes it, and the address ranges (start, end) of its synthesized memory."""


@frozen
class Given:
    """An argument that the user supplied. `make` returns it as `Machine.launch` takes it, a fresh one for each run."""

    make: Callable[[], Any]

    @property
    def made_up(self) -> str:
        """What was synthesized: nothing, so the string is empty."""
        return ""

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on `machine`."""
        return self.make(), ()


@frozen
class Image:
    """A synthesized texture or surface, and the offset of its handle in the parameter."""

    at: int
    dimensions: int
    is_texture: bool
    is_float: bool
    is_layered: bool

    def handle(self, machine: Any, contents: Contents, number: int) -> bytes:
        """Creates one on `machine` and returns its handle."""
        array = contents.image(self.dimensions, number, self.is_float)
        made = machine.texture(array, layered=self.is_layered) if self.is_texture else machine.surface(array, layered=self.is_layered)
        return bytes(made.encode(_Of(machine)))


@frozen
class MadeUp:
    """An argument of `size` bytes that the user did not supply: a scalar, a pointer, or a structure of both.

    At each offset in `pointers` lies the address of a buffer of `room` bytes, at those in `images` a handle, and in all other 32-bit words
    the scalar of `Contents.numbers`. The buffers of `tables` contain addresses of further buffers: offset of the pointer, offset of the
    first address, and distance between addresses. At the offsets in `functions` lie addresses of functions of the module.
    """

    size: int
    pointers: tuple[int, ...] = ()
    images: tuple[Image, ...] = ()
    functions: tuple[tuple[int, str], ...] = ()
    """Offset and name of each function whose address lies here."""
    tables: tuple[tuple[int, int, int], ...] = ()
    room: int = 1 << 20
    is_float: bool = False
    given: tuple[tuple[int, bytes], ...] = ()
    """Offset and bytes of the parts that the user supplied."""
    counts: tuple[tuple[int, int, int], ...] = ()
    """Scalars that bound loops: offset, size, and increment per iteration."""
    strides: tuple[tuple[int, int], ...] = ()
    """Scalars that an index is multiplied by: offset and size."""
    fixed: tuple[tuple[int, int, int], ...] = ()
    """Scalars with a required value: offset, size, and value."""
    planes: tuple[tuple[int, int, int], ...] = ()
    """Scalars that are added to an index to locate a plane of an array: offset, size, and number of the plane."""
    is_distinct: bool = False
    """Whether the user says that the words in memory differ from each other."""
    is_cleared: bool = False
    """Whether memory holds zeros for all contents but those of this argument only, since threads synchronize through it."""

    @property
    def made_up(self) -> str:
        """What was synthesized: `contents` or `number`."""
        return "contents" if self.pointers or self.images or self.functions else "number"

    def value(self, contents: Contents, number: int) -> int | None:
        """The scalar that argument `number` is with these contents; None if it is none, or a float."""
        if self.made_up != "number" or self.is_float or self.size > WORD:
            return None
        return int.from_bytes(self._numbers(contents, number), "little")

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on `machine`."""
        data = bytearray(self._numbers(contents, number))
        made = []
        for n, at in enumerate(self.pointers):
            buffer = machine.alloc(self.room)
            chosen = contents.of_different_words if self.is_distinct else contents
            chosen = ZEROS if self.is_cleared and contents.only != number else chosen
            held = chosen.data(self.room, number * PARTS + n)
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
        """Fills a buffer with the addresses of parts of a new one, and returns the address range of the new buffer."""
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
        # the fields may extend beyond the parameter, if the kernel reads more than it has
        return bytes(data[: self.size])


def _as_bytes(number: int, size: int) -> bytes:
    """Encodes a number, clamped to the largest signed integer of that size."""
    return min(number, (1 << size * 8 - 1) - 1).to_bytes(size, "little")


@frozen
class Variable:
    """A variable of the module that the host may have written before the launch, and its synthesized value."""

    name: str
    made_up: MadeUp

    def placed(self, code: Any, contents: Contents, number: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Writes the variable. Returns its own address range, and those of the memory that it points to."""
        address = code.address(self.name)
        if self.made_up.made_up == "number":
            words = -(-self.made_up.size // 4) * 4
            code.machine.write(address, contents.data(words, number * PARTS)[: self.made_up.size].tobytes())
            return ((address, address + self.made_up.size),), ()
        data, own = self.made_up.argument(code.machine, contents, number)
        code.machine.write(address, data)
        return ((address, address + self.made_up.size),), own


@frozen
class Held:
    """Contents of a variable of the module that the user supplied, from byte `offset` on. `make` returns the bytes."""

    name: str
    make: Callable[[], bytes]
    offset: int = 0

    def write(self, code: Any) -> tuple[int, int]:
        """Writes it. Returns its address range."""
        data, address = self.make(), int(code.address(self.name)) + self.offset
        code.machine.write(address, data)
        return address, address + len(data)


@frozen
class _Of:
    machine: Any


class Argument(Protocol):
    """An argument that is created anew for each run."""

    @property
    def made_up(self) -> str:
        """What was synthesized: `number`, `contents`, or nothing (an empty string)."""

    def argument(self, machine: Any, contents: Contents, number: int) -> Made:
        """The argument for a run on `machine`."""


@frozen
class Launch:
    """A launch of a kernel. `arguments` are in the order of the parameters; `shared` is the size of dynamic shared memory in bytes."""

    kernel: str
    grid: Shape
    block: Shape
    arguments: tuple[Argument, ...] = ()
    cluster: Shape | None = None
    shared: int = 0
    variables: tuple[Variable, ...] = ()
    decisions: tuple[tuple[tuple[Part, int], ...], ...] = ()
    """Choices of synthesized scalars for which the kernel takes other branches."""
    choices: tuple[tuple[Part, tuple[int, ...]], ...] = ()
    """Values to try for individual synthesized scalars."""
    states: tuple[Variable, ...] = ()
    """The other variables of the module that the kernel reads. The host, or an earlier launch, may have changed them."""
    is_shared_made_up: bool = False
    """Whether `shared` is synthesized: then it grows as needed."""
    cooperative: bool = False
    """Whether the launch is cooperative: all CTAs are resident together, and memory for grid-wide synchronization is provided."""
    held: tuple[Held, ...] = ()
    """Variables of the module whose contents the user supplied; they are neither in `variables` nor in `states`."""

    @property
    def made_up(self) -> bool:
        """Whether anything was synthesized."""
        return bool(self.variables) or any(one.made_up for one in self.arguments)

    @property
    def memory(self) -> int:
        """Approximate size of all synthesized memory in bytes."""
        made = [*self.arguments, *[one.made_up for one in self.variables]]
        return sum([one.room * (len(one.pointers) + len(one.tables)) for one in made if isinstance(one, MadeUp)])

    @property
    def can_grow(self) -> bool:
        """Whether synthesized memory can be enlarged."""
        return any(isinstance(one, MadeUp) and one.pointers and one.room < MOST_ROOM for one in self.arguments)

    def larger(self, needed: int = 0) -> Launch:
        """Returns the launch with larger synthesized buffers, which have at least `needed` bytes if that is known."""
        least = 1 << needed.bit_length() + 1
        grown = [
            attrs.evolve(one, room=min(MOST_ROOM, max(one.room * 8, least))) if isinstance(one, MadeUp) and one.pointers else one
            for one in self.arguments
        ]
        return attrs.evolve(self, arguments=tuple(grown))

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        """Choices for the scalars that were not supplied, to be tried in order until everything relevant has been executed.

        The first choice is the number of threads along the longest side, the usual meaning of a size. The second is smaller and odd, so
        that the threads of a warp have unequal amounts of work. If the kernel distinguishes loop bounds and strides, both are preceded by
        choices with few iterations and long rows. Then follow: planes of an array at a distance from each other, if there are any; scalars
        for which the kernel is known to branch differently; an aligned tile; a small odd number, so that loops end early with a remainder;
        1 and 0, as for flags; and more than there are threads.
        """
        longest = max([g * b for g, b in zip(self.grid, self.block, strict=True)])
        tile = 1 << max(3, (max(self.block) - 1).bit_length())
        sizes = [longest, 3 * longest // 4 | 1, max(tile, LEAST_TILE), 13, 1, 0, 5 * longest]
        own = [one for one in self.arguments if isinstance(one, MadeUp)]
        counts = any(one.counts for one in own)
        # a large grid with long rows would exceed memory
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
        """Variants of `numbers`: first those that change one scalar, then random ones that change several."""
        for n in range(max([len(values) for _, values in self.choices], default=0)):
            for part, values in self.choices:
                if n < len(values):
                    yield numbers.having({part: values[n]})
        drawn = random.Random(repr(numbers))
        for _ in range(MIXED if len(self.choices) > 1 else 0):
            several = drawn.sample(self.choices, drawn.randint(2, len(self.choices)))
            yield numbers.having({part: drawn.choice(values) for part, values in several})

    @property
    def threads(self) -> int:
        """Number of threads in the launch."""
        return math.prod(self.grid) * math.prod(self.block)

    @property
    def has_numbers(self) -> bool:
        """Whether scalars were synthesized."""
        return any(isinstance(one, MadeUp) and (one.made_up == "number" or one.size > WORD) for one in self.arguments)
