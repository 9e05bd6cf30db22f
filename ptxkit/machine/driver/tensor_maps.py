"""Tensor maps, in the machine's encoding."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxkit.machine.asynchronous import tensor_maps
from ptxkit.machine.driver.interface import Failure, call

_TYPES = (
    ".u8", ".u16", ".u32", ".s32", ".u64", ".s64", ".f16", ".f32", ".f64", ".bf16", ".f32.ftz", ".tf32", ".tf32.ftz",
    ".b4x16", ".b4x16_p64", ".b6x16_p32",
)  # fmt: skip
_INTERLEAVES = ("none", "16B", "32B")
_SWIZZLES = (
    ("none", "16B"), ("32B", "16B"), ("64B", "16B"), ("128B", "16B"), ("128B", "32B"), ("128B", "32B_flip_8B"), ("128B", "64B"),
)  # fmt: skip
_FILLS = ("zero", "nan")


def _numbers(kind: Any, address: int, count: int) -> list[int]:
    return list((kind * count).from_address(address)) if count and address else []


def _write(place: int, type_: int, rank: int, tensor: int, codes: Sequence[int], sizes: Sequence[Any], **more: Any) -> None:
    """Encodes a map. `sizes` are dimensions, strides, box and element strides."""
    interleave, swizzle, fill = codes
    if not place or place % 64:
        raise Failure("INVALID_VALUE", f"a tensor map lies at a multiple of 64, not at {place:#x}")
    try:
        found = tensor_maps.encode(
            tensor, _TYPES[type_], *sizes,
            interleave=_INTERLEAVES[interleave], swizzle=_SWIZZLES[swizzle][0], atomicity=_SWIZZLES[swizzle][1], fill=_FILLS[fill], **more,
        )  # fmt: skip
    except (ValueError, IndexError) as error:
        raise Failure("INVALID_VALUE", str(error)) from None
    ctypes.memmove(place, found, len(found))


@call("q i u q q q q q i i i i")
def cuTensorMapEncodeTiled(
    place: int, type_: int, rank: int, tensor: int, dims: int, strides: int, box: int, steps: int,
    interleave: int, swizzle: int, promotion: int, fill: int,
) -> None:  # fmt: skip
    if not 1 <= rank <= 5:
        raise Failure("INVALID_VALUE", f"a tensor has 1 to 5 dimensions, not {rank}")
    wide, narrow = ctypes.c_uint64, ctypes.c_uint32
    sizes = (_numbers(wide, dims, rank), _numbers(wide, strides, rank - 1), _numbers(narrow, box, rank), _numbers(narrow, steps, rank))
    _write(place, type_, rank, tensor, (interleave, swizzle, fill), sizes)


@call("q i u q q q q q u u q i i i i")
def cuTensorMapEncodeIm2col(
    place: int, type_: int, rank: int, tensor: int, dims: int, strides: int, lower: int, upper: int, channels: int, pixels: int, steps: int,
    interleave: int, swizzle: int, promotion: int, fill: int,
) -> None:  # fmt: skip
    if not 3 <= rank <= 5:
        raise Failure("INVALID_VALUE", f"an im2col tensor has 3 to 5 dimensions, not {rank}")
    wide, narrow = ctypes.c_uint64, ctypes.c_uint32
    sizes = (_numbers(wide, dims, rank), _numbers(wide, strides, rank - 1), (channels, pixels), _numbers(narrow, steps, rank))
    corners = [_numbers(ctypes.c_int, corner, rank - 2) for corner in (lower, upper)]
    _write(place, type_, rank, tensor, (interleave, swizzle, fill), sizes, mode="im2col", lower=corners[0], upper=corners[1])


@call("q q")
def cuTensorMapReplaceAddress(place: int, tensor: int) -> None:
    raw = np.frombuffer(ctypes.string_at(place, tensor_maps.SIZE), tensor_maps.LAYOUT).copy()
    if tensor % 16:
        raise Failure("INVALID_VALUE", f"the tensor must be aligned to 16 bytes, and is at {tensor:#x}")
    raw["global_address"] = tensor
    ctypes.memmove(place, raw.tobytes(), tensor_maps.SIZE)
