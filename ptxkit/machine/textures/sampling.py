"""Sampling: from coordinates to texels, filtered as the hardware does (CUDA C++ Programming Guide, *Texture Fetching*).

Coordinates of a linear filter have 8 bits of fraction, so that weights are multiples of 1/256.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def texels_at(texture: Texture, level: int, where: Sequence[Array], sampler: Sampler, layer: Array | None, count: int) -> Any:
    """The texels at whole coordinates, x first: an array (lanes, channels) of what a read gives."""
    image = texture.texels(level)
    axes = []
    outside = np.zeros(count, bool)
    for index, size, mode in zip(where, image.shape[-2::-1], sampler.modes, strict=False):
        inside, out = addressed(index, size, mode, sampler.normalized)
        axes.append(inside)
        if out is not None:
            outside |= out
    if layer is not None:
        axes.append(np.clip(layer, 0, image.shape[0] - 1))
    found = as_numbers(image[tuple(axes[::-1])], texture)
    if outside.any():
        border = np.asarray(sampler.border, np.float32)[: found.shape[-1]]
        # An integer read gives the bits of the border's color.
        found[outside] = border * most(texture) if found.dtype.kind == "f" else border.view(np.int32).astype(found.dtype)
    return found


def as_numbers(values: Any, texture: Texture) -> Any:
    """Texels as the numbers that are filtered: those of 8 and 16 bits that are read as numbers from 0 (or -1) to 1 have 16 bits, as whole
    numbers; `finished` divides them."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" or not texture.as_float or size > 2:
        return values.astype(np.int64) if kind in "iu" else values
    if kind == "u":
        wide = values.astype(np.float64) * (257 if size == 1 else 1)
        return linear(wide / 65535) * 65535 if texture.srgb and size == 1 else wide
    magnitude = np.minimum(np.abs(values.astype(np.int64)), (1 << 8 * size - 1) - 1)
    if size == 1:
        magnitude = magnitude << 8 | magnitude << 1 | magnitude >> 6
    return np.sign(values) * magnitude.astype(np.float64)


def most(texture: Texture) -> float:
    """What a number of an image is divided by: 1 unless its integers are read as numbers from 0 (or -1) to 1."""
    dtype = texture.texels().dtype
    if dtype.kind == "f" or not texture.as_float or dtype.itemsize > 2:
        return 1.0
    return 65535.0 if dtype.kind == "u" else 32767.0


def finished(values: Any, texture: Texture, filtering: bool) -> Any:
    """What a read gives. Filtered values are as precise as the image's format: halves, or 16 bits, upwards where they are halfway."""
    dtype, scale = texture.texels().dtype, most(texture)
    if dtype == np.float16 and filtering:
        return half(values)
    if scale == 1.0:
        return values
    if filtering:
        values = np.floor(values + 0.5)
    return values / scale


def half(values: Any) -> Any:
    """Numbers rounded to half precision, away from zero where they are halfway."""
    exponent = np.maximum(np.frexp(values)[1], -13)
    step = np.ldexp(1.0, exponent - 11)
    return np.copysign(np.floor(np.abs(values) / step + 0.5) * step, values)


def linear(numbers: Array) -> Array:
    """Numbers on the sRGB scale as intensities, but for a fourth channel."""
    found = np.where(numbers <= 0.04045, numbers / 12.92, ((numbers + 0.055) / 1.055) ** 2.4)
    found[..., 3:] = numbers[..., 3:]
    return found


def weights(fractions: Sequence[Array]) -> list[Any]:
    """The weights of the corners around a point, in 1/256: the near and the far one of x, then those of y, then of z.

    They are rounded so that they sum up to 256 for each dimension that is added.
    """
    if len(fractions) == 1:
        return [256 - fractions[0], fractions[0]]
    if len(fractions) == 2:
        x, y = fractions
        both = (x * y + 128) >> 8
        return [256 - x - y + both, x - both, y - both, both]
    x, y, z = fractions
    both = (x * z + 127) >> 8
    plane = [256 - x - z + both, x - both, z - both, both]
    upper = [p - ((p * (256 - y) + 128) >> 8) if k % 2 == 0 else (p * y + 128) >> 8 for k, p in enumerate(plane)]
    lower = [p - u for p, u in zip(plane, upper, strict=True)]
    return [lower[0], lower[1], upper[0], upper[1], lower[2], lower[3], upper[2], upper[3]]


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
        return texels_at(texture, level, where, sampler, layer, count)
    fixed = [np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) for s in scaled]
    total: Any = 0.0
    for number, weight in enumerate(weights([f & 255 for f in fixed])):
        where = [(f >> 8) + (number >> axis & 1) + o for axis, (f, o) in enumerate(zip(fixed, shift, strict=False))]
        values = texels_at(texture, level, where, sampler, layer, count)
        total = total + np.where(weight[:, None] == 0, 0.0, values.astype(np.float64) * (weight[:, None] / 256.0))
    if len(fixed) == 1 and layer is None and sampler.modes[1] == "border":
        # A line is an image one texel high, and the sampler stands at its edge: half of what it gives is the border.
        border = np.asarray(sampler.border, np.float64)[: total.shape[-1]] * most(texture)
        total = (total + border) / 2
    return np.asarray(total)


def gathered(
    texture: Texture, sampler: Sampler, coordinates: Sequence[Array], layer: Array | None, component: int, offsets: Sequence[Any]
) -> Any:
    """One component of the four texels that a linear filter reads, counter-clockwise from the lower left: (lanes, 4) (ISA 9.7.11.4)."""
    count = len(coordinates[0])
    sizes = texture.texels().shape[-2::-1]
    scaled = [
        c.astype(np.float64) * size if sampler.normalized else c.astype(np.float64) for c, size in zip(coordinates, sizes, strict=False)
    ]
    shift: list[Any] = [np.asarray(o).astype(np.int64) for o in offsets] or [0] * 2
    x, y = ((np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) >> 8) + o for s, o in zip(scaled, shift, strict=True))
    columns = []
    for dx, dy in ((0, 1), (1, 1), (1, 0), (0, 0)):
        texel = texels_at(texture, 0, [x + dx, y + dy], sampler, layer, count)
        columns.append(texel[:, component] if component < texel.shape[1] else np.zeros(count, texel.dtype))
    return finished(np.stack(columns, 1), texture, False)


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
        values = finished(as_numbers(image[tuple(axes[::-1])], texture), texture, False)
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
        return finished(sampled(texture, sampler, coordinates, layer, 0, offsets), texture, sampler.filter == "linear")
    lod = np.clip(np.clip(lod.astype(np.float64) + sampler.bias, sampler.least, sampler.most), 0, last)
    if sampler.mip_filter == "point":
        nearest = np.floor(lod + 0.5).astype(np.int64)
        chosen: Any = None
        for level in np.unique(nearest).tolist():
            values = sampled(texture, sampler, coordinates, layer, level, offsets)
            chosen = values if chosen is None else np.where((nearest == level)[:, None], values, chosen)
        return finished(chosen, texture, sampler.filter == "linear")
    fixed = np.floor(lod * 256).astype(np.int64)
    low, fraction = fixed >> 8, (fixed & 255) / 256.0
    result: Array | None = None
    for level in np.unique(np.concatenate([low, np.minimum(low + 1, last)])).tolist():
        values = sampled(texture, sampler, coordinates, layer, level, offsets).astype(np.float64)
        weight = np.where(low == level, 1 - fraction, 0) + np.where(np.minimum(low + 1, last) == level, fraction, 0)
        term = np.where(weight[:, None] == 0, 0.0, values * weight[:, None])
        result = term if result is None else result + term
    assert result is not None
    return finished(result, texture, True)


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
