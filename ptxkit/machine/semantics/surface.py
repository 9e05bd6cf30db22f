"""Surfaces (ISA 9.7.12)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.memory.combining import combining
from ptxkit.machine.memory.updates import serially
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.semantics.texture import _answers, _several
from ptxkit.machine.semantics.texture import attribute as _attribute
from ptxkit.machine.textures.objects import Surface, look_up
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]
_DIMENSIONS = {".1d": 1, ".2d": 2, ".3d": 3, ".a1d": 2, ".a2d": 3}
_COORDINATES = {"c": np.dtype(np.int32)}


def suld(op: Operation) -> Semantics:
    """Loads bytes from a surface (ISA 9.7.12.1)."""
    dtype = dtype_of(op.slot(".dtype"))
    width = op.width("d") if op.slot(".vec") else 1
    vector = op.operand("d").shape.kind == "vector"  # type: ignore[union-attr]

    def run(lanes: Any, a: Any, c: Any) -> Any:
        found = [np.zeros(lanes.count, dtype) for _ in range(width)]
        for surface, mine in look_up(lanes, a, Surface):
            some, at, inside, positions = _places(op, lanes, surface, mine, c, dtype.itemsize * width)
            del some
            view = surface.bytes().view(dtype)
            for j in range(width):
                found[j][positions[inside]] = view[at[inside] // dtype.itemsize + j]
        return tuple(found) if vector else found[0]

    return Semantics(run, reads=_COORDINATES, lanes=True)


def sust(op: Operation) -> Semantics:
    """Stores bytes, or a sample in its format, to a surface (ISA 9.7.12.2)."""
    formatted = op.has(".p")
    dtype = dtype_of(".b32" if formatted else op.slot(".ctype"))

    def run(lanes: Any, a: Any, c: Any, v: Any) -> None:
        values = tuple(lanes.broadcast(x) for x in _several(v))
        for surface, mine in look_up(lanes, a, Surface):
            if formatted:
                texel = surface.texels()
                parts: tuple[Array, ...] = tuple(_formatted(x, texel.dtype) for x in values[: texel.shape[-1]])
                size, scale = texel.dtype.itemsize * texel.shape[-1], texel.dtype.itemsize * texel.shape[-1]
            else:
                parts, size, scale = values, dtype.itemsize * len(values), 1
            _, at, inside, positions = _places(op, lanes, surface, mine, c, size, scale)
            view = surface.bytes().view(parts[0].dtype)
            for j, part in enumerate(parts):
                view[at[inside] // part.dtype.itemsize + j] = part[positions[inside]]

    return Semantics(run, reads={**_COORDINATES, "v": dtype}, lanes=True)


def sured(op: Operation) -> Semantics:
    """Combines a value with the contents of a surface (ISA 9.7.12.3)."""
    samples, type = op.has(".p"), op.slot(".ctype")

    def run(lanes: Any, a: Any, c: Any, v: Any) -> None:
        values = lanes.broadcast(v)
        for surface, mine in look_up(lanes, a, Surface):
            signed = surface.texels().dtype.kind == "i"
            kind = type.replace("b", "s" if signed else "u") if samples else type
            change = combining(op.slot(".op"), type if op.slot(".op") in (".and", ".or") else kind)
            size = change.dtype.itemsize
            _, at, inside, positions = _places(op, lanes, surface, mine, c, size, size if samples else 1)
            operand = values[positions[inside]].view(change.dtype)
            serially(surface.bytes().view(change.dtype), at[inside] // size, change.update.silent(), (operand,), len(operand), False)

    return Semantics(run, reads=_COORDINATES, lanes=True)


def suq(op: Operation) -> Semantics:
    """Queries an attribute of a surface (ISA 9.7.12.4)."""
    query = op.slot(".query")[1:]
    return Semantics(lambda lanes, a: _answers(lanes, a, (Surface,), lambda thing: _attribute(thing, query)), lanes=True)


def _formatted(value: Array, dtype: np.dtype[Any]) -> Array:
    """Converts a 32-bit register to a sample in a surface's format."""
    if dtype.kind == "f":
        return value.view(np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    number = value.view(np.int32 if dtype.kind == "i" else np.uint32).astype(np.int64)
    return np.clip(number, limits.min, limits.max).astype(dtype)


def _places(op: Operation, lanes: Any, surface: Surface, mine: Any, c: Any, size: int, scale: int = 1) -> tuple[Any, Array, Array, Array]:
    """Positions in the bytes of a surface for coordinates (x in units of `scale` bytes), which of these are accessed, and the lanes
    concerned."""
    positions = np.arange(lanes.count) if mine is None else mine
    some = lanes if mine is None else lanes.at(mine)
    coordinates = [np.asarray(lanes.broadcast(x), np.int64)[positions] for x in _several(c)[: _DIMENSIONS[op.slot(".geom")]]]
    if op.slot(".geom").startswith(".a"):
        coordinates = [*coordinates[1:], coordinates[0]]
    texels = surface.texels()
    row = texels.shape[-2] * texels.shape[-1] * texels.dtype.itemsize
    limits = [row - size, *(n - 1 for n in texels.shape[-3::-1])]
    coordinates[0] = coordinates[0] * scale
    inside = np.ones(len(positions), bool)
    for x, limit in zip(coordinates, limits, strict=False):
        inside &= (x >= 0) & (x <= limit)
    if not inside.all():
        if op.slot(".clamp") == ".trap":
            bad = np.zeros(lanes.count, bool)
            bad[positions[~inside]] = True
            shape = " x ".join(str(n) for n in texels.shape[-2::-1])
            lanes.fault(bad, f"coordinates outside of a surface of {shape} texels ({row} bytes a row)", "trap")
        if op.slot(".clamp") == ".clamp":
            coordinates = [np.clip(x, 0, limit) for x, limit in zip(coordinates, limits, strict=False)]
            inside = np.ones(len(positions), bool)
    odd = coordinates[0] % size if size & (size - 1) == 0 else coordinates[0] % 1
    if odd[inside].any():
        bad = np.zeros(lanes.count, bool)
        bad[positions[odd != 0]] = True
        lanes.fault(bad, f"a surface access of {size} bytes at an offset that is not a multiple of {size}", "address")
    at = coordinates[0]
    stride = row
    for x, n in zip(coordinates[1:], texels.shape[-3::-1], strict=False):
        at = at + x * stride
        stride *= n
    return some, at, inside, positions
