"""Sampling: from coordinates to texels, filtered as the hardware does (CUDA C++ Programming Guide, *Texture Fetching*).

Coordinates of a linear filter have 8 bits of fraction, so that weights are multiples of 1/256.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ptxkit.machine.textures.objects import Sampler, Texture

Array = np.ndarray[Any, Any]


def addressed(index: Array, size: int, mode: str, normalized: bool) -> tuple[Array, Array | None]:
    """Indices within an image for any, by an address mode; and which lie outside, where the mode gives the border's color for them."""
    if mode == "wrap" and normalized:
        return index % size, None
    if mode == "mirror" and normalized:
        folded = index % (2 * size)
        return np.where(folded < size, folded, 2 * size - 1 - folded), None
    inside = np.clip(index, 0, size - 1)
    return inside, (index < 0) | (index >= size) if mode == "border" else None


def texels_at(image: Array, where: Sequence[Array], modes: Sequence[str], sampler: Sampler, layer: Array | None, count: int) -> Array:
    """The texels at whole coordinates, x first: an array (lanes, channels)."""
    axes = []
    outside = np.zeros(count, bool)
    for index, size, mode in zip(where, image.shape[-2::-1], modes, strict=False):
        inside, out = addressed(index, size, mode, sampler.normalized)
        axes.append(inside)
        if out is not None:
            outside |= out
    if layer is not None:
        axes.append(np.clip(layer, 0, image.shape[0] - 1))
    found = image[tuple(axes[::-1])]
    if outside.any():
        found = found.copy()
        found[outside] = np.asarray(sampler.border, found.dtype)[: found.shape[-1]]
    return found


def as_numbers(values: Any, texture: Texture) -> Any:
    """Texels as the numbers that a float read gives."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" or not texture.as_float or size > 2:
        return values
    if kind == "u":
        return values.astype(np.float64) / ((1 << 8 * size) - 1)
    return np.maximum(values.astype(np.float64) / ((1 << 8 * size - 1) - 1), -1.0)


def sampled(
    texture: Texture, sampler: Sampler, coordinates: Sequence[Array], layer: Array | None, level: int, offsets: Sequence[Any] = ()
) -> Any:
    """What a sampler gives at float coordinates, x first, of one level: an array (lanes, channels)."""
    image = texture.texels(level)
    count = len(coordinates[0])
    sizes = image.shape[-2::-1]
    scaled = [
        c.astype(np.float64) * size if sampler.normalized else c.astype(np.float64) for c, size in zip(coordinates, sizes, strict=False)
    ]
    scaled = [np.nan_to_num(s, nan=0.0, posinf=2.0**40, neginf=-(2.0**40)) for s in scaled]
    scaled = [np.clip(s, -(2.0**40), 2.0**40) for s in scaled]
    shift: list[Any] = [np.asarray(o).astype(np.int64) for o in offsets] or [0] * len(scaled)
    if sampler.filter == "point":
        where = [np.floor(s).astype(np.int64) + o for s, o in zip(scaled, shift, strict=False)]
        return as_numbers(texels_at(image, where, sampler.modes, sampler, layer, count), texture)
    fixed = [np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) for s in scaled]
    total: Any = 0.0
    for corner in product((0, 1), repeat=len(fixed)):
        weight = np.ones(count)
        for f, far in zip(fixed, corner, strict=True):
            fraction = (f & 255) / 256.0
            weight = weight * (fraction if far else 1.0 - fraction)
        where = [(f >> 8) + far + o for f, far, o in zip(fixed, corner, shift, strict=False)]
        values = as_numbers(texels_at(image, where, sampler.modes, sampler, layer, count), texture)
        term = np.where(weight[:, None] == 0, 0.0, values.astype(np.float64) * weight[:, None])
        total = total + term
    return np.asarray(total)


def gathered(
    texture: Texture, sampler: Sampler, coordinates: Sequence[Array], layer: Array | None, component: int, offsets: Sequence[Any]
) -> Array:
    """One component of the four texels that a linear filter reads, counter-clockwise from the lower left: (lanes, 4) (ISA 9.7.11.4)."""
    image = texture.texels()
    count = len(coordinates[0])
    sizes = image.shape[-2::-1]
    scaled = [
        c.astype(np.float64) * size if sampler.normalized else c.astype(np.float64) for c, size in zip(coordinates, sizes, strict=False)
    ]
    shift: list[Any] = [np.asarray(o).astype(np.int64) for o in offsets] or [0] * 2
    x, y = ((np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) >> 8) + o for s, o in zip(scaled, shift, strict=True))
    columns = []
    for dx, dy in ((0, 1), (1, 1), (1, 0), (0, 0)):
        texel = as_numbers(texels_at(image, [x + dx, y + dy], sampler.modes, sampler, layer, count), texture)
        columns.append(texel[:, component] if component < texel.shape[1] else np.full(count, int(component == 3)))
    return np.stack(columns, 1)


def fetched(texture: Texture, where: Sequence[Array], layer: Array | None, level: Array) -> Array:
    """Texels at integer coordinates, unfiltered; zero outside of the image."""
    count = len(where[0])
    found: Array | None = None
    for one in np.unique(level).tolist():
        image = texture.texels(min(max(int(one), 0), len(texture.levels)))
        outside = np.zeros(count, bool)
        axes = []
        for index, size in zip(where, image.shape[-2::-1], strict=False):
            outside |= (index < 0) | (index >= size)
            axes.append(np.clip(index, 0, size - 1))
        if layer is not None:
            outside |= (layer < 0) | (layer >= image.shape[0])
            axes.append(np.clip(layer, 0, image.shape[0] - 1))
        values = as_numbers(image[tuple(axes[::-1])], texture)
        values = np.where(outside[:, None], np.zeros((), values.dtype), values)
        found = values if found is None else np.where((level == one)[:, None], values, found)
    assert found is not None
    return found


def filtered(
    texture: Texture, sampler: Sampler, coordinates: Sequence[Array], layer: Array | None, lod: Array | None, offsets: Sequence[Any] = ()
) -> Any:
    """What a sampler gives at float coordinates and a level of detail, between two levels if it says so."""
    last = len(texture.levels)
    if lod is None or not last:
        return sampled(texture, sampler, coordinates, layer, 0, offsets)
    lod = np.clip(np.clip(lod.astype(np.float64) + sampler.bias, sampler.least, sampler.most), 0, last)
    if sampler.mip_filter == "point":
        lod = np.floor(lod + 0.5)
    fixed = np.floor(lod * 256 + 0.5).astype(np.int64)
    low, fraction = fixed >> 8, (fixed & 255) / 256.0
    result: Array | None = None
    for level in np.unique(np.concatenate([low, np.minimum(low + 1, last)])).tolist():
        values = sampled(texture, sampler, coordinates, layer, level, offsets).astype(np.float64)
        weight = np.where(low == level, 1 - fraction, 0) + np.where(np.minimum(low + 1, last) == level, fraction, 0)
        term = np.where(weight[:, None] == 0, 0.0, values * weight[:, None])
        result = term if result is None else result + term
    assert result is not None
    return result


def detail(texture: Texture, dx: Sequence[Array], dy: Sequence[Array], normalized: bool) -> Any:
    """The level of detail for partial derivatives: the logarithm of the longer one, in texels (ISA 9.7.11.2)."""
    lengths = []
    for partial in (dx, dy):
        square: Any = 0.0
        for p, size in zip(partial, texture.sizes, strict=False):
            square = square + (p.astype(np.float64) * (size if normalized else 1)) ** 2
        lengths.append(np.sqrt(square))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(np.maximum(*lengths)))


_FACES = (
    (0, (2, -1), (1, -1)),
    (0, (2, 1), (1, -1)),
    (1, (0, 1), (2, 1)),
    (1, (0, 1), (2, -1)),
    (2, (0, 1), (1, -1)),
    (2, (0, -1), (1, -1)),
)
"""Of each face of a cube (+x -x +y -y +z -z): the major axis, and the axis and sign of both coordinates on the face."""


def on_cube(direction: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The face that a direction points to, and the normalized coordinates there (ISA 9.7.11.3)."""
    axes = [d.astype(np.float64) for d in direction[:3]]
    size = np.abs(np.stack(axes))
    major = np.where((size[0] >= size[1]) & (size[0] >= size[2]), 0, np.where(size[1] >= size[2], 1, 2))
    largest = np.choose(major, axes)
    face = 2 * major + (largest < 0)
    divisor = np.where(largest == 0, 1.0, np.abs(largest))
    coordinates = []
    for which in (1, 2):
        value = np.choose(face, [axes[entry[which][0]] * entry[which][1] for entry in _FACES])  # type: ignore[index]
        coordinates.append((value / divisor + 1) / 2)
    return face, coordinates
