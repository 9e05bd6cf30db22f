"""What a kernel of the tests takes besides memory: tensor maps, textures and surfaces, as both sides describe and make them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
import operands


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
            return (max(self.channels * 2, 32), 9, 8, 7, 6)[: self.rank - 1] + (3,)
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

    def data(self) -> bytes:
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
            launcher().call("cuTensorMapEncodeIm2col", *common, lower, upper, self.channels, self.pixels, steps, self.interleave, self.swizzle, 0, self.fill)
        else:
            box = (ctypes.c_uint * rank)(*self.box)
            launcher().call("cuTensorMapEncodeTiled", *common, box, steps, self.interleave, self.swizzle, 0, self.fill)
        return found

    def reader(self, held: Any) -> Callable[[], bytes]:
        """What reads the tensor back."""
        address, size = _tensors.pop(id(held))
        return lambda: launcher().read(address, size)


_tensors: dict[int, Any] = {}
_rooms: list[Any] = []


assert np
