"""Texture, sampler and surface objects, and the handles by which kernels refer to them (ISA 5.3).

A handle is a key of `Memory.objects`. A `.texref`, `.samplerref` or `.surfref` variable of a module is bound by storing an object under the
address of the variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen

Array = np.ndarray[Any, Any]
HANDLES = 5 << 48
"""The first handle. Handles are not addresses in any window."""

ADDRESS_MODES = ("wrap", "mirror", "clamp_ogl", "clamp", "border")
"""In the order of the codes returned by `txq.addr_mode_0` (ISA 9.7.11.5)."""
FILTERS = ("point", "linear")


def handle_of(memory: Any, thing: Any) -> int:
    """The handle of an object, which is registered if necessary."""
    for handle, known in memory.objects.items():
        if known is thing:
            return int(handle)
    handle = max([known + 64 for known in memory.objects if known >= HANDLES], default=HANDLES)
    memory.objects[handle] = thing
    return handle


class _Argument:
    """An object that is passed to a kernel as a handle."""

    def encode(self, launch: Any) -> bytes:
        """The handle as 8 bytes of parameters."""
        return handle_of(launch.machine.memory, self).to_bytes(8, "little")


@frozen(eq=False, kw_only=True)
class Sampler(_Argument):
    """How a texture is read: `filter` is point or linear; `address` is the handling of coordinates outside the image (wrap, mirror,
    clamp, border), x first; with `normalized`, coordinates range from 0 to 1. Wrap and mirror require normalized coordinates, and are
    clamp otherwise. `mip_filter`, `bias`, `least` and `most` select levels of detail."""

    filter: str = attrs.field(default="point", validator=attrs.validators.in_(FILTERS))
    address: str | Sequence[str] = "clamp"
    normalized: bool = False
    border: Sequence[float] = (0, 0, 0, 0)
    mip_filter: str = attrs.field(default="point", validator=attrs.validators.in_(FILTERS))
    bias: float = 0.0
    least: float = 0.0
    most: float = 1000.0

    def __attrs_post_init__(self) -> None:
        unknown = [mode for mode in self.modes if mode not in ADDRESS_MODES]
        if unknown:
            raise ValueError(f"an address mode is one of {', '.join(ADDRESS_MODES)}, not {unknown[0]!r}")

    @property
    def modes(self) -> tuple[str, ...]:
        """The address modes of x, y and z."""
        if isinstance(self.address, str):
            return (self.address,) * 3
        return (*self.address, *("clamp",) * 3)[:3]


class _Image(_Argument):
    """Texels: an array with x as its last axis, followed by channels if any; y, z and layers precede it as the geometry requires."""

    array: Any
    channels: bool
    layered: bool

    def texels(self, level: int = 0) -> Array:
        """The texels as an array with channels as the last axis."""
        levels = [self.array, *getattr(self, "levels", ())]
        found = np.asarray(levels[level])
        return found if self.channels else found[..., None]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Width, height and depth of the base level; 0 for missing dimensions."""
        extents = self.texels().shape[-2::-1]
        if self.layered:
            extents = extents[:-1]
        width, height, depth = (*extents, 0, 0, 0)[:3]
        return width, height, depth


@frozen(eq=False, kw_only=True)
class Texture(_Image):
    """An image that a kernel samples, with the sampler that is used unless the kernel specifies another one.

    `array` has 8-, 16- or 32-bit integers, or 16- or 32-bit floats. With `as_float`, 8-bit and 16-bit integers are read as numbers from 0
    (or -1) to 1. `srgb`: bytes are in sRGB encoding, except the fourth channel. `levels` are the further levels of detail, each half as
    large. `samples`: the axis before y has the samples of a texel. `in_array`: the texels are in a CUDA array and not in linear memory, so
    that integer coordinates of one dimension read zeros.
    """

    array: Any
    channels: bool = False
    layered: bool = False
    as_float: bool = False
    srgb: bool = False
    sampler: Sampler = attrs.field(factory=Sampler)
    levels: Sequence[Any] = ()
    samples: int = 0
    in_array: bool = False


@frozen(eq=False, kw_only=True)
class Surface(_Image):
    """An image that a kernel reads and writes: stores go to `array`, which must be contiguous and writable."""

    array: Any
    channels: bool = False
    layered: bool = False

    def __attrs_post_init__(self) -> None:
        array = np.asarray(self.array)
        if array is not self.array or not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError("a surface needs a contiguous array that can be written to")

    def bytes(self) -> Array:
        """All bytes of the image, in order."""
        found: Array = self.array.reshape(-1).view(np.uint8)
        return found


def look_up(lanes: Any, handle: Any, *kinds: type) -> list[tuple[Any, Any]]:
    """The objects that handles refer to, and the lanes concerned (positions; None: all). Faults if an object is not of these kinds."""
    each = np.atleast_1d(np.asarray(handle, np.uint64))
    found: list[tuple[Any, Any]] = []
    distinct = np.unique(each)
    for one in distinct.tolist():
        mine = None if len(distinct) == 1 else np.flatnonzero(each == one)
        thing = lanes.memory.objects.get(one)
        if thing is None and one < 1 << 16:
            # an opaque kernel parameter: its handle is in parameter memory
            thing = lanes.memory.objects.get(int(lanes.load(".param", np.uint64(one), np.uint64)))
        if not isinstance(thing, kinds):
            what = "nothing" if thing is None else f"a {type(thing).__name__.lower()}"
            mask = np.broadcast_to(each == one, lanes.count)
            needed = " or a ".join([kind.__name__.lower() for kind in kinds])
            lanes.fault(mask, f"a handle of a {needed} is needed, and {one:#x} stands for {what}", "handle")
        found.append((thing, mine))
    return found
