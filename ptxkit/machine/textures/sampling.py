"""Sampling: from coordinates to texels, filtered as by hardware (CUDA C++ Programming Guide, *Texture Fetching*).

Coordinates for linear filtering have 8 fractional bits, so weights are multiples of 1/256.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ptxkit.machine.textures.objects import Sampler, Texture
from ptxkit.machine.values.reciprocal import reciprocal

Array = np.ndarray[Any, Any]


def addressed(index: Array, size: int, mode: str, normalized: bool) -> tuple[Array, Array | None]:
    """Maps arbitrary indices into an image by an address mode. Also returns which are outside, if the mode uses the border color for
    them."""
    if mode == "wrap" and normalized:
        return index % size, None
    if mode == "mirror" and normalized:
        folded = index % (2 * size)
        return np.where(folded < size, folded, 2 * size - 1 - folded), None
    inside = np.clip(index, 0, size - 1)
    return inside, (index < 0) | (index >= size) if mode == "border" else None


def clamps(mode: str, normalized: bool) -> bool:
    """Whether a coordinate outside an image becomes that of the nearest texel, so that a linear filter reads that one alone."""
    return mode in ("clamp", "clamp_ogl") or (mode in ("wrap", "mirror") and not normalized)


def texels_at(texture: Texture, level: int, where: Sequence[Array], sampler: Sampler, layer: Array | None, count: int) -> Any:
    """The texels at integer coordinates, x first, as an array (lanes, channels) of the values read."""
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
        # an integer read returns the bits of the border color
        found[outside] = border * ones(texture) if found.dtype.kind == "f" else border.view(np.int32).astype(found.dtype)
    return found


def as_numbers(values: Any, texture: Texture) -> Any:
    """Texels as numbers to be filtered. Integers of 8 or 16 bits that are read as numbers from 0 (or -1) to 1 stay integers, which
    `finished` divides; sRGB texels become intensities."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" or not texture.as_float or size > 2:
        return values.astype(np.int64) if kind in "iu" else values
    if _intensities(texture):
        return linear(values)
    return np.maximum(values.astype(np.float64), -32767.0)


def ones(texture: Texture) -> Array:
    """What stands for 1 in an image's numbers, by channel: 1 unless its integers are read as numbers from 0 (or -1) to 1."""
    texels = texture.texels()
    found = np.ones(texels.shape[-1])
    if _shares_of_one(texture):
        found[3 if _intensities(texture) else 0 :] = np.iinfo(texels.dtype).max
    return found


def _shares_of_one(texture: Texture) -> bool:
    """Whether texels are integers that are read as numbers from 0 (or -1) to 1."""
    dtype = texture.texels().dtype
    return texture.as_float and dtype.kind in "iu" and dtype.itemsize <= 2


def _intensities(texture: Texture) -> bool:
    """Whether texels are bytes in sRGB encoding."""
    return bool(texture.srgb and texture.as_float and texture.texels().dtype == np.uint8)


def finished(values: Any, texture: Texture, filtering: bool) -> Any:
    """The result of a read. Filtered values have the precision of the format: half precision, or 16 bits, with ties rounded up."""
    dtype = texture.texels().dtype
    if _intensities(texture):
        colors = half(values[:, :3]) if filtering else values[:, :3]
        return np.concatenate([colors, _divided_by_one(values[:, 3:], dtype)], 1)
    if _shares_of_one(texture):
        return _divided_by_one(values, dtype)
    return half(values) if dtype == np.float16 and filtering else values


def _divided_by_one(values: Any, dtype: Any) -> Any:
    """Numbers from 0 (or -1) to 1 in 16 bits."""
    widened = _WIDENED.get(dtype.str[1:], lambda numbers: np.floor(numbers + 0.5))
    return widened(values) / (65535.0 if dtype.kind == "u" else 32767.0)


def _signed_bytes(values: Any) -> Any:
    """Filtered signed bytes with 16 bits: 127 becomes 32767. Of the product by 258 + 1/128 the unit leaves the last four of the 16
    fractional bits out (measured on sm_90)."""
    fixed = np.floor(values * 256).astype(np.int64)
    return np.clip(fixed + (257 * (fixed >> 4) + 1024 >> 11), -32767, 32767)


_WIDENED: dict[str, Callable[[Any], Any]] = {"u1": lambda values: np.floor(values * 257 + 0.5), "i1": _signed_bytes}
"""By type of texels, how numbers of 8 bits, filtered, become numbers of 16."""


def half(values: Any) -> Any:
    """Rounds to half precision, ties away from zero."""
    exponent = np.maximum(np.frexp(values)[1], -13)
    step = np.ldexp(1.0, exponent - 11)
    return np.copysign(np.floor(np.abs(values) / step + 0.5) * step, values)


_STEPS = (32, 48, 64, 96, 136, 184, 248)
"""The sRGB bytes from which on an intensity is twice as coarse."""


@cache
def _srgb() -> tuple[Array, Array]:
    """For each sRGB byte, its intensity, and the unit of which that is a multiple: a number of eight bits times a power of two from
    2**-14 to 2**-7 (measured on sm_90)."""
    byte = np.arange(256)
    encoded = byte / 255
    intensity = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    units = np.ldexp(1.0, np.searchsorted(_STEPS, byte, side="right") - 14)
    return np.floor(intensity / units + 0.5) * units, units


def linear(values: Array) -> Array:
    """Converts sRGB bytes to intensities; the fourth channel has no curve, and stays a byte."""
    found = np.asarray(_srgb()[0][values])
    found[..., 3:] = values[..., 3:]
    return found


def _units_of_intensities(values: Array) -> Any:
    """The units of intensities; in the fourth channel, which has no curve, a unit that drops nothing."""
    intensities, units = _srgb()
    found = units[np.clip(np.searchsorted(intensities, values, side="right") - 1, 0, 255)]
    found[:, 3:] = units[0]
    return found


def _units_of_halves(values: Array) -> Any:
    """Units of numbers of half precision in which they have four bits more than they need."""
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1], -13) - 15)


def aligned(plane: Sequence[Array], shares: Sequence[Array], units: Callable[[Array], Any]) -> list[Array]:
    """The texels around a point in a plane, in the coarsest unit of those that have a share in the result: the filter adds fixed-point
    numbers, and drops the lower bits of the smaller ones (measured on sm_90)."""
    unit = np.zeros_like(plane[0])
    for values, share in zip(plane, shares, strict=True):
        unit = np.maximum(unit, np.where(share[:, None] == 0, 0.0, units(values)))
    unit[unit == 0] = 1.0
    return [np.trunc(values / unit) * unit for values in plane]


def weights(fractions: Sequence[Array], whole: Any = 256) -> list[Any]:
    """The weights of the corners around a point, in 1/256: near and far in x, then in y, then in z.

    The total weight is divided along z, then x, then y, each time into two integers with the same sum (measured on sm_90). In z it is the
    near one that is rounded, which tells only where the total is that of a level.
    """
    x, y, z = (*fractions, None, None)[:3]
    found = []
    for plane in _divided(whole, 256 - z)[::-1] if z is not None else [whole]:
        left, right = _divided(plane, x)
        if y is None:
            found += [left, right]
            continue
        (upper_left, lower_left), (lower_right, upper_right) = _divided(left, 256 - y), _divided(right, y)
        found += [lower_left, lower_right, upper_left, upper_right]
    return found


def _divided(weight: Any, fraction: Any) -> tuple[Any, Any]:
    """Divides a weight in two, the second with the given fraction (in 1/256), ties rounded up."""
    second = (weight * fraction + 128) >> 8
    return weight - second, second


def sampled(
    texture: Texture,
    sampler: Sampler,
    coordinates: Sequence[Array],
    layer: Array | None,
    level: int,
    offsets: Sequence[Any] = (),
    whole: Any = 256,
) -> Any:
    """The result of sampling one level at float coordinates, x first, multiplied by its weight in 1/256: an array (lanes, channels)."""
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
        found = texels_at(texture, level, where, sampler, layer, count)
        return found if isinstance(whole, int) else found * (whole[:, None] / 256)
    fixed = [np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) + (o << 8) for s, o in zip(scaled, shift, strict=False)]
    fixed = [
        np.clip(f, 0, (size - 1) << 8) if clamps(mode, sampler.normalized) else f
        for f, size, mode in zip(fixed, sizes, sampler.modes, strict=False)
    ]
    fractions = [f & 255 for f in fixed]
    # a line is an image of height one, sampled at its edge: half of the result is the border
    edge = len(fixed) == 1 and layer is None and sampler.modes[1] == "border"
    shares = weights([*fractions, np.full(count, 128)] if edge else fractions, whole)
    corners = []
    for number in range(len(shares)):
        if edge and not number >> 1:
            border = np.asarray(sampler.border, np.float64)[: image.shape[-1]] * ones(texture)
            corners.append(np.broadcast_to(border, (count, image.shape[-1])))
        else:
            where = [(f >> 8) + (number >> axis & 1) for axis, f in enumerate(fixed)]
            corners.append(texels_at(texture, level, where, sampler, layer, count).astype(np.float64))
    units = _units_of_intensities if _intensities(texture) else _units_of_halves if image.dtype == np.float16 else None
    if units is not None:
        corners = [values for at in range(0, len(corners), 4) for values in aligned(corners[at : at + 4], shares[at : at + 4], units)]
    terms = [np.where(share[:, None] == 0, 0.0, values * (share[:, None] / 256.0)) for values, share in zip(corners, shares, strict=True)]
    return np.asarray(sum(terms))


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
        texel = finished(texels_at(texture, 0, [x + dx, y + dy], sampler, layer, count), texture, False)
        columns.append(texel[:, component] if component < texel.shape[1] else np.zeros(count, texel.dtype))
    return np.stack(columns, 1)


def fetched(texture: Texture, where: Sequence[Array], layer: Array | None, level: Array | None) -> Array:
    """Texels at integer coordinates, unfiltered. Outside the image they are zero or, if a level is given, the nearest texel inside, for
    every address mode (measured on sm_90)."""
    count = len(where[0])
    found: Array | None = None
    clamped = level is not None
    level = np.zeros(count, np.int64) if level is None else level
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
        values = values if clamped else np.where(outside[:, None], np.zeros((), values.dtype), values)
        found = values if found is None else np.where((level == one)[:, None], values, found)
    assert found is not None
    return found


def filtered(
    texture: Texture, sampler: Sampler, coordinates: Sequence[Array], layer: Array | None, lod: Array | None, offsets: Sequence[Any] = ()
) -> Any:
    """The result of sampling at float coordinates and a level of detail, interpolated between two levels if the sampler requires it."""
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
    low, far = fixed >> 8, fixed & 255
    result: Array | None = None
    for level in np.unique(np.concatenate([low, np.minimum(low + 1, last)])).tolist():
        whole = np.where(low == level, 256 - far, 0) + np.where(np.minimum(low + 1, last) == level, far, 0)
        values = sampled(texture, sampler, coordinates, layer, level, offsets, whole)
        term = np.where(whole[:, None] == 0, 0.0, values)
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
"""For each face of a cube (+x -x +y -y +z -z): the major axis, and the axis and sign of both coordinates on the face."""


def on_cube(direction: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The face that a direction points to, and the normalized coordinates on it (ISA 9.7.11.3).

    Before it reads, ptxas multiplies the direction by the approximate reciprocal of its largest component; the face is chosen of the
    products. Between two faces it is that of z, or else of y (measured on sm_90).
    """
    given = np.stack([d.astype(np.float32) for d in direction[:3]])
    largest = np.abs(given).max(0)
    axes = given * reciprocal(largest)
    size = np.abs(axes)
    major = np.where((size[2] >= size[0]) & (size[2] >= size[1]), 2, np.where(size[1] >= size[0], 1, 0))
    face = 2 * major + (np.choose(major, axes) < 0)
    coordinates = []
    for which in (1, 2):
        value = np.choose(face, [axes[entry[which][0]] * entry[which][1] for entry in _FACES])  # type: ignore[index]
        coordinates.append((value.astype(np.float64) + 1) / 2)
    return face, coordinates
