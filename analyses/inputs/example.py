"""An example launch: its shape and its arguments."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import attrs

from ptxkit.analyses.execution.contents import Contents
from ptxkit.analyses.execution.launch import Launch
from ptxkit.frozen import frozen
from ptxkit.isa.types import types

MapName = tuple[str, int, int]
"""A tensor map: parameter, offset in it of the map or of a pointer, and offset from the pointer."""
Size = tuple[int, int, int]
Range = tuple[int, int]
"""First address of a buffer, and the address after its last byte."""


@frozen
class Number:
    """A scalar of a PTX type."""

    type: str
    value: int | float
    made_up = "number"

    @property
    def size(self) -> int:
        return types()[self.type].bytes

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """The bytes of the parameter."""
        return self.bytes()

    def bytes(self) -> bytes:
        """The bytes in memory."""
        import numpy as np

        if isinstance(self.value, float):
            if self.type in (".bf16", ".bf16x2"):
                high = np.float32(self.value).view(np.uint32) >> 16
                return bytes(high.astype(np.uint16).tobytes() * (self.size // 2))
            return bytes(np.dtype(f"f{self.size}").type(self.value).tobytes())
        return min(int(self.value), (1 << 8 * self.size - 1) - 1).to_bytes(self.size, "little")


@frozen
class Array:
    """A pointer to `count` elements of a PTX type.

    With `leads_to`, each element is the address of that array; otherwise the elements have the contents of the run.
    """

    type: str
    count: int
    leads_to: Array | None = None
    size = 8
    made_up = "contents"

    @property
    def length(self) -> int:
        return self.count * types()[self.type].bytes

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """Allocates a buffer and returns its address as the bytes of the parameter."""
        import numpy as np

        _within_reason(self.length)
        buffer = machine.alloc(self.length)
        if self.leads_to is not None:
            inner = self.leads_to.make(machine, contents, seed + 1, made)
            buffer.write(np.frombuffer(bytes(inner) * self.count, np.uint8))
        else:
            buffer.write(_elements(self.type, min(self.count, FILLED), contents, seed))
        made.append((buffer.address, buffer.address + self.length))
        return int(buffer.address).to_bytes(8, "little")


@frozen
class Map:
    """A tensor map for a tensor of this shape, whose copies transfer `box`. Both have the fastest-varying dimension last."""

    type: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    name: MapName = attrs.field(default=("", 0, 0), eq=False)
    size = 128
    made_up = "contents"

    @property
    def made_maps(self) -> tuple[Map | None, ...]:
        return (self,)

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """Allocates the tensor and returns the bytes of the map."""
        from ptxkit.machine import TensorMap

        count = math.prod(self.shape)
        _within_reason(count * types()[self.type].bytes)
        buffer = machine.alloc(count * types()[self.type].bytes)
        buffer.write(_elements(self.type, min(count, FILLED_OF_TENSOR), contents, seed))
        made.append((buffer.address, buffer.address + buffer.size))
        made_map = TensorMap(tensor=buffer, box=self.box, shape=self.shape, type=self.type)
        return bytes(made_map.encoded(buffer.address))


@frozen
class Maps:
    """A pointer to tensor maps, by offset. Maps at other offsets repeat the one before."""

    maps: tuple[tuple[int, Map], ...]
    size = 8
    made_up = "contents"

    @property
    def made_maps(self) -> tuple[Map | None, ...]:
        """For each allocation that `make` performs, in order, the map that describes it; None for the array of maps."""
        return (*[one for _, one in self.maps], None)

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """Allocates the maps and returns their address as the bytes of the parameter."""
        import numpy as np

        data = b""
        raw = {at: one.make(machine, contents, seed + n, made) for n, (at, one) in enumerate(self.maps)}
        last = next(iter(raw.values()))
        for at in range(0, MAPS * Map.size, Map.size):
            last = raw.get(at, last)
            data += last
        buffer = machine.alloc(len(data))
        buffer.write(np.frombuffer(data, np.uint8))
        made.append((buffer.address, buffer.address + len(data)))
        return int(buffer.address).to_bytes(8, "little")


@frozen
class Image:
    """A texture or surface of floats with this many dimensions."""

    dimensions: int
    is_surface: bool = False
    size = 8
    made_up = "contents"

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """Creates it and returns its handle."""
        texels = contents.image(self.dimensions, seed)
        image = machine.surface(texels) if self.is_surface else machine.texture(texels)
        return bytes(image.encode(_Machine(machine)))


@frozen
class _Machine:
    """What `encode` of an image needs."""

    machine: Any


@frozen
class Structure:
    """A parameter with several parts at their offsets; its other bytes are zero."""

    size: int
    parts: tuple[tuple[int, Number | Array | Map | Maps | Image], ...]

    @property
    def made_up(self) -> str:
        return "contents" if any(part.made_up == "contents" for _, part in self.parts) else "number"

    def make(self, machine: Any, contents: Contents, seed: int, made: list[Range]) -> bytes:
        """Allocates what the parts point to and returns the bytes of the parameter."""
        data = bytearray(self.size)
        for n, (at, part) in enumerate(self.parts):
            data[at : at + part.size] = part.make(machine, contents, 64 * seed + n, made)[: self.size - at]
        return bytes(data)


Argument = Number | Array | Map | Maps | Image | Structure


MAPS = 64
"""Number of tensor maps behind a pointer."""
FILLED = 1 << 14
"""Number of elements of an array that are initialized; the rest are zero."""
FILLED_OF_TENSOR = 1 << 18
"""The same for a tensor that a tensor map describes."""
HIGH = 8
"""Exclusive upper bound of random integers, so that they are valid as indices into every array."""


KEPT = 32
"""Number of arrays whose contents are cached, since all runs of a kernel use the same ones and drawing is slower than copying."""
APART = 1 << 13
"""Upper bound on the padding between allocations in bytes."""
MOST_BYTES = 1 << 28
"""Maximum size of a synthesized array in bytes."""


def _within_reason(size: int) -> None:
    """Raises Fault if an allocation is implausibly large."""
    from ptxkit.machine import Fault

    if size > MOST_BYTES:
        raise Fault("memory", f"an array of {size} bytes was synthesized: that is more than a run may use")


def _elements(type: str, count: int, contents: Contents, seed: int) -> Any:
    """Contents of an array: zeros, consecutive or random integers, random floats in [0, 1), or random bytes. Cached: do not modify it."""
    found = _drawn(type, count, contents, seed)
    found.setflags(write=False)
    return found


@functools.lru_cache(maxsize=KEPT)
def _drawn(type: str, count: int, contents: Contents, seed: int) -> Any:
    import numpy as np

    size = types()[type].bytes
    if contents.name == "zeros":
        return np.zeros(count * size, np.uint8)
    if contents.name == "noise":
        return np.random.default_rng((contents.seed, seed)).integers(0, 256, count * size, np.uint8)
    dtype = np.dtype(f"u{min(size, 8)}")
    if contents.name == "count" and not type.startswith((".f", ".bf")):
        return np.arange(count * max(1, size // 8), dtype=np.int64).astype(dtype)
    # imported only if needed, since the import is slow
    draw = np.random.default_rng((contents.seed, seed))
    if type in (".bf16", ".bf16x2"):
        return (draw.random(count * size // 2, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if type.startswith(".f16"):
        return draw.random(count * size // 2, np.float32).astype(np.float16)
    if type.startswith(".f") and size in (4, 8):
        return draw.random(count, np.float64 if size == 8 else np.float32)
    return draw.integers(0, HIGH, count * max(1, size // 8), dtype)


@frozen
class Example:
    """An example launch of a kernel; only the directives of the kernel constrain it."""

    kernel: str
    grid: Size
    block: Size
    arguments: tuple[tuple[str, Argument], ...]
    """Name and argument of each parameter, in order."""
    cluster: Size | None = None
    shared: int = 0
    cooperative: bool = False
    """Whether all CTAs are resident together, and memory for grid-wide synchronization is provided."""
    options: tuple[str, ...] = attrs.field(default=(), eq=False)
    """Options with which `ptxkit inputs` creates this launch."""

    def changed(self, change: Callable[[Argument], Argument]) -> Example:
        """Returns the launch with `change` applied to every argument."""
        return attrs.evolve(self, arguments=tuple([(name, _changed(argument, change)) for name, argument in self.arguments]))

    def with_larger_arrays(self, factor: int) -> Example:
        """Returns the launch with `factor` times as many elements in every array."""
        return self.changed(lambda one: attrs.evolve(one, count=one.count * factor) if isinstance(one, Array) else one)

    @property
    def memory(self) -> int:
        """Approximate global memory of all arguments in bytes."""
        return sum([memory_of(argument) for _, argument in self.arguments])

    @property
    def launch(self) -> Launch:
        """The launch in the form that `execution` takes."""
        made = tuple([_Passed(argument) for _, argument in self.arguments])
        return Launch(self.kernel, self.grid, self.block, made, self.cluster, self.shared, cooperative=self.cooperative)


@frozen
class _Passed:
    """An argument in the form that `execution.launch.Launch` takes."""

    argument_: Argument

    @property
    def made_up(self) -> str:
        return self.argument_.made_up

    def argument(self, machine: Any, contents: Contents, number: int) -> tuple[Any, tuple[Range, ...]]:
        made: list[Range] = []
        return self.argument_.make(machine, contents, number + 1, made), tuple(made)


def memory_of(argument: Argument) -> int:
    """Approximate global memory in bytes that creating an argument allocates."""
    if isinstance(argument, Array):
        return argument.length + (memory_of(argument.leads_to) if argument.leads_to is not None else 0) + APART
    if isinstance(argument, Map):
        return math.prod(argument.shape) * types()[argument.type].bytes + APART
    if isinstance(argument, Maps):
        return MAPS * Map.size + APART + sum([memory_of(one) for _, one in argument.maps])
    return sum([memory_of(part) for _, part in argument.parts]) if isinstance(argument, Structure) else 0


def made_maps(argument: Argument) -> tuple[Map | None, ...]:
    """For each allocation that creating an argument performs, in order, the map that describes it; None if there is none."""
    if isinstance(argument, Map | Maps):
        return argument.made_maps
    if isinstance(argument, Array):
        return (*(made_maps(argument.leads_to) if argument.leads_to is not None else ()), None)
    return tuple([one for _, part in argument.parts for one in made_maps(part)]) if isinstance(argument, Structure) else ()


def _changed(argument: Argument, change: Callable[[Argument], Argument]) -> Argument:
    if isinstance(argument, Structure):
        return attrs.evolve(argument, parts=tuple([(at, _changed(part, change)) for at, part in argument.parts]))  # type: ignore[misc]
    if isinstance(argument, Array) and argument.leads_to is not None:
        argument = attrs.evolve(argument, leads_to=_changed(argument.leads_to, change))  # type: ignore[arg-type]
    return change(argument)
