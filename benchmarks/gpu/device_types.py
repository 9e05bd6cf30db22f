"""What a kernel of the tests takes besides memory: tensor maps, textures and surfaces, as both sides describe and make them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
import operands

Raw = bytes
"""The type by another name: classes here have a property that is called `bytes`."""


def launcher() -> Any:
    """The module that calls the driver (imported where there is one)."""
    import launcher as module

    return module


@attrs.frozen
class TensorMap:
    """A tensor map over a tensor of its own, which is filled with fragments."""

    TYPES: ClassVar[dict[str, tuple[int, int, str]]] = {
        "u8": (0, 1, "b8"),
        "u16": (1, 2, "b16"),
        "u32": (2, 4, "b32"),
        "s32": (3, 4, "b32"),
        "u64": (4, 8, "b64"),
        "s64": (5, 8, "b64"),
        "f16": (6, 2, "f16"),
        "f32": (7, 4, "f32"),
        "f64": (8, 8, "f64"),
        "bf16": (9, 2, "bf16"),
        "f32_ftz": (10, 4, "f32"),
        "tf32": (11, 4, "f32"),
        "tf32_ftz": (12, 4, "f32"),
    }
    """By name the driver's number, bytes, and what the tensor is filled with."""
    rank: int = 2
    dtype: str = "f32"
    interleave: int = 0
    swizzle: int = 0
    fill: int = 0
    steps: tuple[int, ...] = ()
    im2col: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    output: bool = False

    @property
    def item(self) -> int:
        return self.TYPES[self.dtype][1]

    @property
    def kind(self) -> str:
        return self.TYPES[self.dtype][2]

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of the tensor, the innermost first."""
        if self.im2col:
            return (*(max(self.channels * 2, 32), 9, 8, 7, 6)[: self.rank - 1], 3)
        inner = (16 if self.interleave == 1 else 32) // self.item if self.interleave else 208 // self.item
        return (inner, 7, 5, 3, 2)[: self.rank]

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next, of all dimensions but the innermost: rows a bit longer than they need be."""
        unit = 32
        found, at = [], -(-self.dims[0] * self.item // unit) * unit
        for size in self.dims[1:]:
            found.append(at)
            at = at * size + (unit if len(found) == 1 else 0)
        return tuple(found)

    @property
    def bytes(self) -> int:
        """Of the tensor."""
        at = -(-self.dims[0] * self.item // 32) * 32
        return -(-((self.strides[-1] * self.dims[-1]) if self.strides else at) // 16) * 16

    @property
    def box(self) -> tuple[int, ...]:
        """Sizes of a tile."""
        if self.im2col:
            return (self.channels, *([1] * (self.rank - 1)))
        width = self.dims[0] * self.item if self.interleave else {0: 48, 1: 32, 2: 64, 3: 128}[self.swizzle]
        return (width // self.item, 4, 3, 2, 2)[: self.rank]

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile in shared memory."""
        if self.im2col:
            return self.channels * self.pixels * self.item
        total = self.item
        for size, step in zip(self.box, self.steps or (1,) * self.rank, strict=True):
            total *= -(-size // step)
        return total

    def label(self) -> str:
        """In words, for a test's name."""
        words = [self.dtype, f"interleave={self.interleave}", f"swizzle={self.swizzle}", f"fill={self.fill}"]
        words += [f"steps={self.steps}"] if self.steps else []
        words += [f"lower={self.lower} upper={self.upper} {self.channels}x{self.pixels}"] if self.im2col else []
        return " ".join(words)

    def data(self) -> Raw:
        """The tensor before the launch."""
        return operands.packed(operands.fragments((self.kind,), self.bytes // self.item, 9))

    def device(self, held: Any) -> Any:
        """As a parameter of a launch."""
        address = held.buffer(self.data())
        _tensors[id(held)] = (address, self.bytes)
        room = (ctypes.c_char * 192)()
        found = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        _rooms.append(room)
        rank = self.rank
        dims, strides = (ctypes.c_uint64 * rank)(*self.dims), (ctypes.c_uint64 * max(rank - 1, 1))(*self.strides)
        steps = (ctypes.c_uint * rank)(*(self.steps or (1,) * rank))
        common = (found, self.TYPES[self.dtype][0], rank, ctypes.c_void_p(address.value), dims, strides)
        if self.im2col:
            lower, upper = (ctypes.c_int * (rank - 2))(*self.lower), (ctypes.c_int * (rank - 2))(*self.upper)
            launcher().call(
                "cuTensorMapEncodeIm2col",
                *common,
                lower,
                upper,
                self.channels,
                self.pixels,
                steps,
                self.interleave,
                self.swizzle,
                0,
                self.fill,
            )
        else:
            box = (ctypes.c_uint * rank)(*self.box)
            launcher().call("cuTensorMapEncodeTiled", *common, box, steps, self.interleave, self.swizzle, 0, self.fill)
        return found

    def machine(self, machine: Any, outputs: list[Any]) -> Any:
        """As an argument of a launch on the machine."""
        from ptxkit.machine import TensorMap as Map

        data = np.frombuffer(self.data(), np.uint8)
        # the points of an interleaved tensor are larger than its rows and strides allow for: it reaches past what is compared
        buffer = machine.alloc(len(data) + (1 << 16 if self.interleave else 0))
        buffer.write(data)
        if self.output:
            outputs.append(lambda: buffer.read(np.uint8, (len(data),)).tobytes())
        made = Map(
            tensor=buffer,
            box=(self.pixels, self.channels) if self.im2col else self.box[::-1],
            shape=self.dims[::-1],
            strides=(self.item, *self.strides)[::-1],
            type="." + self.dtype.replace("_", "."),
            element_strides=(self.steps or (1,) * self.rank)[::-1],
            swizzle=("none", "32B", "64B", "128B")[self.swizzle],
            interleave=("none", "16B", "32B")[self.interleave],
            fill=("zero", "nan")[self.fill],
            mode="im2col" if self.im2col else "tile",
            lower=self.lower[::-1],
            upper=self.upper[::-1],
        )
        return made.encoded(buffer.address)

    def reader(self, held: Any) -> Callable[[], Raw]:
        """What reads the tensor back."""
        address, size = _tensors.pop(id(held))
        return lambda: launcher().read(address, size)


_tensors: dict[int, Any] = {}
_rooms: list[Any] = []


# --- textures and surfaces --------------------------------------------------------------------------------------------------------

FORMATS = {
    "u8": (0x01, 1),
    "u16": (0x02, 2),
    "u32": (0x03, 4),
    "s8": (0x08, 1),
    "s16": (0x09, 2),
    "s32": (0x0A, 4),
    "f16": (0x10, 2),
    "f32": (0x20, 4),
}
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8
HOST, IN_ARRAY = 1, 3


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _side = (
        *(("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("lod", ctypes.c_size_t), ("type", ctypes.c_int)),
        *(("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p)),
        *(("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t)),
    )
    _fields_ = [
        *[("source_" + name, kind) for name, kind in _side],
        *[("target_" + name, kind) for name, kind in _side],
        *(("width", ctypes.c_size_t), ("rows", ctypes.c_size_t), ("depth", ctypes.c_size_t)),
    ]  # fmt: skip


@attrs.frozen
class Image:
    """An array of elements of one, two or four channels, with its levels: what textures and surfaces stand on."""

    geometry: str = "2d"
    format: str = "f32"
    channels: int = 4
    levels: int = 1
    gather: bool = False
    surface: bool = False
    salt: int = 21

    SIZES: ClassVar[dict[str, tuple[int, int, int]]] = {
        "1d": (64, 0, 0), "2d": (32, 16, 0), "3d": (16, 8, 8), "a1d": (32, 0, 5), "a2d": (16, 8, 5), "cube": (16, 16, 6),
        "acube": (8, 8, 18),
    }  # fmt: skip
    """Width, height and depth or layers, as the driver takes them."""

    @property
    def element(self) -> int:
        return FORMATS[self.format][1] * self.channels

    def size(self, level: int = 0) -> tuple[int, int, int]:
        """Width, height and depth of a level, in elements; 1 for what is not there."""
        width, height, depth = self.SIZES[self.geometry]
        depth = depth if self.geometry != "3d" else max(depth >> level, 1)
        return max(width >> level, 1), max(height >> level, 1), max(depth, 1)

    def data(self, level: int = 0) -> Raw:
        """The elements of a level: small floats, or any integers."""
        count = self.channels * int(np.prod(self.size(level)))
        raw = operands.words(self.salt + level, count)
        if self.format[0] != "f":
            return raw.astype(f"<u{FORMATS[self.format][1]}").tobytes()
        values = (raw >> np.uint64(48)).astype(np.float32) / 65536 * 4 - 2
        return values.astype(np.float16 if self.format == "f16" else np.float32).tobytes()

    def array(self, level: int = 0) -> Any:
        """The elements of a level as an array: layers or z, y, x, channels, as far as the geometry has them."""
        width, height, depth = self.size(level)
        kind = {"f": "f", "s": "i", "u": "u"}[self.format[0]] + str(FORMATS[self.format][1])
        shape = {"1d": (width,), "2d": (height, width), "3d": (depth, height, width), "a1d": (depth, width)}.get(
            self.geometry, (depth, height, width)
        )
        return np.frombuffer(self.data(level), f"<{kind}").reshape(*shape, self.channels).copy()

    def make(self, held: Any) -> Any:
        """On the device."""
        use = launcher()
        flags = (
            (LAYERED if self.geometry.startswith("a") else 0)
            | (CUBE if "cube" in self.geometry else 0)
            | (GATHER if self.gather else 0)
            | (SURFACE if self.surface else 0)
        )
        shape = use.ArrayShape(*self.SIZES[self.geometry], FORMATS[self.format][0], self.channels, flags)
        array = ctypes.c_void_p()
        if self.levels == 1:
            use.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(shape))
            held.arrays.append(array)
            self.copy(array, self.data(), True)
            return array
        use.call("cuMipmappedArrayCreate", ctypes.byref(array), ctypes.byref(shape), self.levels)
        for level in range(self.levels):
            one = ctypes.c_void_p()
            use.call("cuMipmappedArrayGetLevel", ctypes.byref(one), array, level)
            self.copy(one, self.data(level), True, level)
        return array

    def copy(self, array: Any, data: Any, there: bool, level: int = 0) -> Raw:
        """Copies a level's elements into an array, or (not `there`) out of it."""
        width, height, depth = self.size(level)
        host = ctypes.create_string_buffer(data, len(data))
        sides = ("source", "target") if there else ("target", "source")
        copy = Copy3D(width=width * self.element, rows=height, depth=depth)
        for name, value in (("type", HOST), ("host", ctypes.addressof(host)), ("pitch", width * self.element), ("height", height)):
            setattr(copy, f"{sides[0]}_{name}", value)
        setattr(copy, f"{sides[1]}_type", IN_ARRAY)
        setattr(copy, f"{sides[1]}_array", array.value)
        launcher().call("cuMemcpy3D_v2", ctypes.byref(copy))
        return host.raw


@attrs.frozen
class Texture:
    """A texture object: how an image is sampled. `address` and `filter` are the driver's numbers."""

    image: Image
    address: int = 1
    filter: int = 0
    normalized: bool = False
    integers: bool = False
    mip_filter: int = 0
    srgb: bool = False
    border: tuple[float, ...] = (0.25, -0.5, 3.0, 1.0)
    output: bool = False

    def label(self) -> str:
        """In words, for a test's name."""
        image = self.image
        words = [
            image.geometry,
            f"{image.format}x{image.channels}",
            ("wrap", "clamp", "mirror", "border")[self.address],
            ("point", "linear")[self.filter],
        ]
        words += (
            ["normalized"] * self.normalized
            + ["integers"] * self.integers
            + [f"levels={image.levels} {('point', 'linear')[self.mip_filter]}"] * (image.levels > 1)
        )
        return " ".join(words)

    def device(self, held: Any) -> Any:
        """As a parameter of a launch."""
        import struct

        use = launcher()
        array = self.image.make(held)
        resource, view, found = bytearray(144), bytearray(104), ctypes.c_uint64()
        struct.pack_into("<i4xQ", resource, 0, 0 if self.image.levels == 1 else 1, array.value)
        flags = (1 if self.integers else 0) | (2 if self.normalized else 0) | (0x10 if self.srgb else 0)
        struct.pack_into(
            "<4i2Ii3f4f",
            view,
            0,
            *[self.address] * 3,
            self.filter,
            flags,
            0,
            self.mip_filter,
            0.0,
            0.0,
            float(self.image.levels - 1),
            *self.border,
        )
        use.call("cuTexObjectCreate", ctypes.byref(found), bytes(resource), bytes(view), None)
        held.textures.append(found)
        return found

    def machine(self, machine: Any, outputs: list[Any]) -> Any:
        """As an argument of a launch on the machine."""
        from ptxkit.machine import Sampler

        image = self.image
        sampler = Sampler(
            filter=("point", "linear")[self.filter],
            address=("wrap", "clamp", "mirror", "border")[self.address],
            normalized=self.normalized,
            border=self.border,
            mip_filter=("point", "linear")[self.mip_filter],
            most=float(image.levels - 1),
        )
        levels = [image.array(level) for level in range(image.levels)]
        as_float = image.format[0] != "f" and FORMATS[image.format][1] < 4 and not self.integers
        return machine.texture(
            levels[0],
            channels=True,
            layered=image.geometry.startswith("a"),
            as_float=as_float,
            srgb=self.srgb,
            sampler=sampler,
            levels=levels[1:],
            in_array=True,
        )


@attrs.frozen
class Surface:
    """A surface object on an image."""

    image: Image
    output: bool = False

    def device(self, held: Any) -> Any:
        """As a parameter of a launch."""
        import struct

        array = self.image.make(held)
        _tensors[id(held)] = array
        resource, found = bytearray(144), ctypes.c_uint64()
        struct.pack_into("<i4xQ", resource, 0, 0, array.value)
        launcher().call("cuSurfObjectCreate", ctypes.byref(found), bytes(resource))
        held.surfaces.append(found)
        return found

    def machine(self, machine: Any, outputs: list[Any]) -> Any:
        """As an argument of a launch on the machine."""
        array = self.image.array()
        if self.output:
            outputs.append(array.tobytes)
        return machine.surface(array, channels=True, layered=self.image.geometry.startswith("a"))

    @property
    def bytes(self) -> int:
        return len(self.image.data())

    def reader(self, held: Any) -> Callable[[], Raw]:
        """What reads the image back."""
        array = _tensors.pop(id(held))
        return lambda: self.image.copy(array, self.image.data(), False)
