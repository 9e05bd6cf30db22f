"""Sampling: from coordinates to texels, filtered as by hardware (CUDA C++ Programming Guide, *Texture Fetching*).

Coordinates for linear filtering have 8 fractional bits, so weights are multiples of 1/256.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxkit.machine.textures.objects import Sampler, Texture

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
        found[outside] = border * most(texture) if found.dtype.kind == "f" else border.view(np.int32).astype(found.dtype)
    return found


def as_numbers(values: Any, texture: Texture) -> Any:
    """Texels as numbers to be filtered. 8-bit and 16-bit integers that are read as numbers from 0 (or -1) to 1 become 16-bit integers,
    which `finished` divides. sRGB texels become intensities."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" or not texture.as_float or size > 2:
        return values.astype(np.int64) if kind in "iu" else values
    if kind == "u":
        return linear(values) if _intensities(texture) else values.astype(np.float64) * (257 if size == 1 else 1)
    magnitude = np.minimum(np.abs(values.astype(np.int64)), (1 << 8 * size - 1) - 1)
    if size == 1:
        # the lowest bit repeats bit 6 of a positive number, and of a negative one that of its complement (measured on sm_90)
        magnitude = magnitude << 8 | magnitude << 1 | magnitude - (values < 0) >> 6
    return np.sign(values) * magnitude.astype(np.float64)


def most(texture: Texture) -> float:
    """The divisor of an image's numbers: 1 unless its integers are read as numbers from 0 (or -1) to 1."""
    dtype = texture.texels().dtype
    if dtype.kind == "f" or not texture.as_float or dtype.itemsize > 2 or _intensities(texture):
        return 1.0
    return 65535.0 if dtype.kind == "u" else 32767.0


def _intensities(texture: Texture) -> bool:
    """Whether texels are bytes in sRGB encoding."""
    return bool(texture.srgb and texture.as_float and texture.texels().dtype == np.uint8)


def finished(values: Any, texture: Texture, filtering: bool) -> Any:
    """The result of a read. Filtered values have the precision of the format: half precision, or 16 bits, with ties rounded up."""
    dtype, scale = texture.texels().dtype, most(texture)
    if (dtype == np.float16 or _intensities(texture)) and filtering:
        return half(values)
    if scale == 1.0:
        return values
    if filtering:
        values = np.floor(values + 0.5)
    return values / scale


def half(values: Any) -> Any:
    """Rounds to half precision, ties away from zero."""
    exponent = np.maximum(np.frexp(values)[1], -13)
    step = np.ldexp(1.0, exponent - 11)
    return np.copysign(np.floor(np.abs(values) / step + 0.5) * step, values)


_INTENSITIES = (
    0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 66, 72, 78, 85, 92, 99, 107, 115, 123, 131, 140, 150, 159, 169, 180, 190, 201,
    213, 224, 236, 250, 262, 276, 290, 304, 318, 332, 348, 364, 380, 396, 412, 430, 448, 466, 484, 504, 524, 544, 564, 584, 604, 624,
    648, 672, 692, 716, 740, 764, 788, 816, 840, 864, 896, 920, 944, 976, 1000, 1032, 1064, 1088, 1120, 1152, 1184, 1216, 1248, 1280,
    1312, 1352, 1384, 1416, 1456, 1488, 1528, 1560, 1600, 1640, 1672, 1712, 1752, 1792, 1832, 1872, 1920, 1952, 2000, 2048, 2080, 2128,
    2176, 2224, 2272, 2320, 2368, 2416, 2464, 2512, 2560, 2608, 2656, 2704, 2752, 2816, 2864, 2912, 2976, 3024, 3072, 3136, 3184, 3248,
    3296, 3360, 3424, 3472, 3536, 3600, 3664, 3712, 3776, 3840, 3904, 3968, 4032, 4096, 4160, 4224, 4288, 4352, 4416, 4512, 4576, 4640,
    4704, 4768, 4864, 4928, 4992, 5056, 5152, 5216, 5280, 5376, 5440, 5536, 5600, 5696, 5760, 5824, 5920, 6016, 6080, 6176, 6240, 6336,
    6400, 6496, 6592, 6688, 6752, 6848, 6944, 7008, 7104, 7200, 7296, 7392, 7488, 7584, 7680, 7744, 7872, 7936, 8064, 8128, 8256, 8320,
    8448, 8512, 8640, 8768, 8832, 8960, 9024, 9152, 9280, 9344, 9472, 9600, 9664, 9792, 9920, 9984, 10112, 10240, 10304, 10432, 10560,
    10688, 10816, 10880, 11008, 11136, 11264, 11392, 11456, 11584, 11712, 11840, 11968, 12096, 12224, 12352, 12480, 12608, 12736, 12864,
    12992, 13120, 13248, 13376, 13504, 13632, 13760, 13888, 14016, 14144, 14272, 14400, 14528, 14656, 14848, 14976, 15104, 15232, 15360,
    15488, 15616, 15744, 16000, 16128, 16256, 16384,
)  # fmt: skip
"""For each sRGB byte, its intensity in 1/16384, of which the hardware keeps eight bits (measured on sm_90)."""


def linear(values: Array) -> Array:
    """Converts sRGB bytes to intensities; the fourth channel is linear."""
    found = np.asarray(_INTENSITIES, np.float64)[values] / 16384
    found[..., 3:] = values[..., 3:] / 255
    return found


def weights(fractions: Sequence[Array], whole: Any = 256) -> list[Any]:
    """The weights of the corners around a point, in 1/256: near and far in x, then in y, then in z.

    The total weight is divided along z, then x, then y, each time into two integers with the same sum (measured on sm_90).
    """
    x, y, z = (*fractions, None, None)[:3]
    found = []
    for plane in _divided(whole, z) if z is not None else [whole]:
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
    fixed = [np.floor((s - 0.5) * 256 + 0.5).astype(np.int64) for s in scaled]
    fractions = [f & 255 for f in fixed]
    # a line is an image of height one, sampled at its edge: half of the result is the border
    edge = len(fixed) == 1 and layer is None and sampler.modes[1] == "border"
    total: Any = 0.0
    for number, weight in enumerate(weights([*fractions, np.full(count, 128)] if edge else fractions, whole)):
        if edge and not number >> 1:
            values = np.asarray(sampler.border, np.float64)[: image.shape[-1]] * most(texture)
        else:
            where = [(f >> 8) + (number >> axis & 1) + o for axis, (f, o) in enumerate(zip(fixed, shift, strict=False))]
            values = texels_at(texture, level, where, sampler, layer, count)
        total = total + np.where(weight[:, None] == 0, 0.0, values.astype(np.float64) * (weight[:, None] / 256.0))
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

    Before it reads, ptxas multiplies the direction by the reciprocal of its largest component, in single precision; the face is chosen
    of the products. Between two faces it is that of z, or else of y (measured on sm_90).
    """
    given = np.stack([d.astype(np.float32) for d in direction[:3]])
    largest = np.abs(given).max(0)
    axes = given * (np.float32(1) / largest)
    size = np.abs(axes)
    major = np.where((size[2] >= size[0]) & (size[2] >= size[1]), 2, np.where(size[1] >= size[0], 1, 0))
    face = 2 * major + (np.choose(major, axes) < 0)
    coordinates = []
    for which in (1, 2):
        value = np.choose(face, [axes[entry[which][0]] * entry[which][1] for entry in _FACES])  # type: ignore[index]
        coordinates.append((value.astype(np.float64) + 1) / 2)
    return face, coordinates
