"""CUDA arrays, including mipmapped ones; texture and surface objects."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.memory import check
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.textures import Sampler, Surface, Texture
from ptxkit.machine.textures.objects import handle_of

_FORMATS: dict[int, Any] = {
    1: np.uint8, 2: np.uint16, 3: np.uint32, 8: np.int8, 9: np.int16, 10: np.int32, 0x10: np.float16, 0x20: np.float32,
}  # fmt: skip
LAYERED, LOADS_AND_STORES, CUBE = 1, 2, 4
"""Flags of arrays."""
_AS_INTEGER, _NORMALIZED, _SRGB = 1, 2, 0x10
"""Flags of textures."""
_ARRAY, _MIPMAPPED, _LINEAR, _PITCH = range(4)
_MODES = ("wrap", "clamp", "mirror", "border")
_FILTERS = ("point", "linear")


class Plain(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (("width", ctypes.c_uint64), ("height", ctypes.c_uint64), ("format", ctypes.c_int), ("channels", ctypes.c_uint32))


class Description(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        ("width", ctypes.c_uint64), ("height", ctypes.c_uint64), ("depth", ctypes.c_uint64), ("format", ctypes.c_int),
        ("channels", ctypes.c_uint32), ("flags", ctypes.c_uint32),
    )  # fmt: skip


class Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC; `parts` is its union: a handle, or an address, the format and channels, sizes."""

    _fields_ = (("kind", ctypes.c_int), ("parts", ctypes.c_uint64 * 16), ("flags", ctypes.c_uint32))


class Sampling(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("modes", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint32), ("anisotropy", ctypes.c_uint32),
        ("mip_filter", ctypes.c_int), ("bias", ctypes.c_float), ("least", ctypes.c_float), ("most", ctypes.c_float),
        ("border", ctypes.c_float * 4), ("reserved", ctypes.c_int * 12),
    )  # fmt: skip


class _View(ctypes.Structure):
    """CUDA_RESOURCE_VIEW_DESC."""

    _fields_ = (
        ("format", ctypes.c_int), ("sizes", ctypes.c_uint64 * 3), ("first_level", ctypes.c_uint32), ("last_level", ctypes.c_uint32),
        ("first_layer", ctypes.c_uint32), ("last_layer", ctypes.c_uint32), ("reserved", ctypes.c_uint32 * 16),
    )  # fmt: skip


@define(eq=False)
class CudaArray:
    """A CUDA array; the last axes of `texels` are x and the channels. `of` is the mipmapped array of which it is a level."""

    description: Any
    texels: Any
    of: Any = None

    @property
    def address(self) -> int:
        return int(self.texels.ctypes.data)

    @property
    def pitch(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.texels.shape[-2:])) * int(self.texels.itemsize)

    @property
    def height(self) -> int:
        """Rows of a layer or plane."""
        return max(1, int(self.description.height))


@define(eq=False)
class Mipmapped:
    """A mipmapped array: its levels, and their handles."""

    levels: list[CudaArray]
    handles: list[int]


@define(eq=False)
class Object:
    """A texture or surface object, with its descriptions."""

    thing: Any
    resource: Any
    sampling: Any = None
    view: Any = None


def _made(wanted: Description) -> CudaArray:
    kind = _FORMATS.get(wanted.format)
    if kind is None:
        raise Failure("NOT_SUPPORTED" if wanted.format >= 0xB0 else "INVALID_VALUE", f"an array of the format {wanted.format:#x}")
    if not wanted.width or wanted.channels not in (1, 2, 4):
        raise Failure("INVALID_VALUE", "an array has a width, and 1, 2 or 4 channels")
    cube = wanted.flags & CUBE
    if cube and (wanted.width != wanted.height or wanted.depth % 6 or (wanted.depth != 6 and not wanted.flags & LAYERED)):
        raise Failure("INVALID_VALUE", "a cube has six faces, as wide as high")
    extents = [size for size in (wanted.depth, wanted.height) if size]
    if wanted.depth and not wanted.height and not wanted.flags & LAYERED:
        raise Failure("INVALID_VALUE", "an array of three dimensions has a height")
    return CudaArray(wanted, np.zeros((*extents, wanted.width, wanted.channels), kind))


def _described(place: int) -> Description:
    return Description.from_buffer_copy(ctypes.string_at(place, ctypes.sizeof(Description)))


@call("*q q", "cuArrayCreate_v2")
def cuArrayCreate(place: int) -> int:
    STATE.current()
    one = Plain.from_address(place)
    return STATE.handle(_made(Description(one.width, one.height, 0, one.format, one.channels, 0)))


@call("*q q", "cuArray3DCreate_v2")
def cuArray3DCreate(place: int) -> int:
    STATE.current()
    return STATE.handle(_made(_described(place)))


@call("q q", "cuArrayGetDescriptor_v2")
def cuArrayGetDescriptor(place: int, array: int) -> None:
    one = STATE.of(array, CudaArray).description
    given = Plain(one.width, one.height, one.format, one.channels)
    ctypes.memmove(place, ctypes.addressof(given), ctypes.sizeof(given))


@call("q q", "cuArray3DGetDescriptor_v2")
def cuArray3DGetDescriptor(place: int, array: int) -> None:
    given = STATE.of(array, CudaArray).description
    ctypes.memmove(place, ctypes.addressof(given), ctypes.sizeof(given))


@call("q", settles=True)
def cuArrayDestroy(array: int) -> None:
    if STATE.of(array, CudaArray).of is not None:
        raise Failure("INVALID_HANDLE", "a level goes with its mipmapped array")
    STATE.drop(array, CudaArray)


@call("q q u")
def cuArrayGetPlane(place: int, array: int, plane: int) -> None:
    STATE.of(array, CudaArray)
    raise Failure("INVALID_VALUE", "the format has one plane")


def _no_sparse(*given: int) -> None:
    raise Failure("INVALID_VALUE", "an array that is not sparse")


@call("q q")
def cuArrayGetSparseProperties(place: int, array: int) -> None:
    _no_sparse(place, array)


@call("q q")
def cuMipmappedArrayGetSparseProperties(place: int, array: int) -> None:
    _no_sparse(place, array)


@call("*q q u")
def cuMipmappedArrayCreate(place: int, levels: int) -> int:
    STATE.current()
    first = _described(place)
    most = max(first.width, first.height, first.depth if not first.flags & LAYERED else 0).bit_length()
    if not levels:
        raise Failure("INVALID_VALUE")
    made = []
    for level in range(min(levels, most)):
        depth = first.depth if first.flags & (LAYERED | CUBE) else first.depth and max(1, first.depth >> level)
        sizes = max(1, first.width >> level), first.height and max(1, first.height >> level), depth
        made.append(_made(Description(*sizes, first.format, first.channels, first.flags)))
    whole = Mipmapped(made, [STATE.handle(one) for one in made])
    for one in made:
        one.of = whole
    return STATE.handle(whole)


@call("*q q u")
def cuMipmappedArrayGetLevel(array: int, level: int) -> int:
    handles = STATE.of(array, Mipmapped).handles
    if level >= len(handles):
        raise Failure("INVALID_VALUE", f"there are {len(handles)} levels")
    return handles[level]


@call("q", settles=True)
def cuMipmappedArrayDestroy(array: int) -> None:
    for handle in STATE.drop(array, Mipmapped).handles:
        STATE.drop(handle, CudaArray)


# --- objects


def _plain(address: int, bits: int, shape: tuple[int, ...], pitch: int = 0) -> Any:
    """Device memory as texels: `bits` holds the format and the number of channels."""
    kind, channels = _FORMATS.get(bits & 0xFFFFFFFF), bits >> 32
    if kind is None or channels not in (1, 2, 4) or not all(shape):
        raise Failure("INVALID_VALUE")
    texel = np.dtype(kind).itemsize * channels
    row = pitch or shape[-1] * texel
    size = row * (shape[0] - 1) + shape[-1] * texel if len(shape) > 1 else row
    check(address, size)
    room = memoryview((ctypes.c_uint8 * size).from_address(address))
    strides = (*((row,) if len(shape) > 1 else ()), texel, np.dtype(kind).itemsize)
    return np.ndarray((*shape, channels), kind, room, strides=strides)


def _texels(one: Resource) -> tuple[Any, list[Any], int]:
    """The texels of a resource, those of its further levels, and the flags of the array."""
    parts = one.parts
    if one.kind == _ARRAY:
        found = STATE.of(parts[0], CudaArray)
        return found.texels, [], found.description.flags
    if one.kind == _MIPMAPPED:
        first, *more = STATE.of(parts[0], Mipmapped).levels
        return first.texels, [level.texels for level in more], first.description.flags
    if one.kind == _LINEAR:
        address, bits, size = parts[:3]
        texel = np.dtype(_FORMATS.get(bits & 0xFFFFFFFF, np.uint8)).itemsize * (bits >> 32 or 1)
        return _plain(address, bits, (size // texel,)), [], 0
    if one.kind == _PITCH:
        address, bits, width, height, pitch = parts[:5]
        return _plain(address, bits, (height, width), pitch), [], 0
    raise Failure("INVALID_VALUE")


def _sampler(one: Sampling, whole: bool) -> Sampler:
    """The sampling state of a texture; `whole`: texels are integers and are read as such."""
    if any(mode >= len(_MODES) for mode in one.modes) or one.filter > 1 or one.mip_filter > 1:
        raise Failure("INVALID_VALUE")
    if one.filter and whole:
        raise Failure("INVALID_VALUE", "integers that are read as such are not filtered")
    return Sampler(
        filter=_FILTERS[one.filter], address=[_MODES[mode] for mode in one.modes], normalized=bool(one.flags & _NORMALIZED),
        border=list(one.border), mip_filter=_FILTERS[one.mip_filter], bias=one.bias, least=one.least, most=one.most,
    )  # fmt: skip


def _copy(kind: Any, place: int) -> Any:
    return kind.from_buffer_copy(ctypes.string_at(place, ctypes.sizeof(kind))) if place else None


def _handle(one: Object) -> int:
    number = handle_of(STATE.machine.memory, one.thing)
    STATE.objects[number] = one
    return number


@call("*q q q q")
def cuTexObjectCreate(resource: int, sampling: int, view: int) -> int:
    STATE.current()
    wanted, how, seen = _copy(Resource, resource), _copy(Sampling, sampling), _copy(_View, view)
    if wanted is None or how is None:
        raise Failure("INVALID_VALUE")
    if seen is not None and seen.format:
        raise Failure("NOT_SUPPORTED", "a view of a resource in another format")
    texels, levels, flags = _texels(wanted)
    # 32-bit integers are never read as normalized floats
    whole = texels.dtype.kind in "iu" and (bool(how.flags & _AS_INTEGER) or texels.itemsize == 4)
    texture = Texture(
        array=texels, channels=True, layered=bool(flags & (LAYERED | CUBE)), as_float=texels.dtype.kind in "iu" and not whole,
        srgb=bool(how.flags & _SRGB), sampler=_sampler(how, whole), levels=levels, in_array=wanted.kind in (_ARRAY, _MIPMAPPED),
    )  # fmt: skip
    return _handle(Object(texture, wanted, how, seen))


@call("*q q")
def cuSurfObjectCreate(resource: int) -> int:
    STATE.current()
    wanted = _copy(Resource, resource)
    if wanted is None or wanted.kind != _ARRAY:
        raise Failure("INVALID_VALUE", "a surface is that of an array")
    one = STATE.of(wanted.parts[0], CudaArray)
    if not one.description.flags & LOADS_AND_STORES:
        raise Failure("INVALID_VALUE", "the array was not made for surfaces")
    surface = Surface(array=one.texels, channels=True, layered=bool(one.description.flags & (LAYERED | CUBE)))
    return _handle(Object(surface, wanted))


def _object(number: int, kind: type) -> Object:
    found = STATE.objects.get(number)
    if found is None or not isinstance(found.thing, kind):
        raise Failure("INVALID_VALUE", f"{number:#x} is not a {kind.__name__.lower()} object")
    return found  # type: ignore[no-any-return]


def _destroy(number: int, kind: type) -> None:
    _object(number, kind)
    del STATE.objects[number], STATE.machine.memory.objects[number]


@call("q", settles=True)
def cuTexObjectDestroy(number: int) -> None:
    _destroy(number, Texture)


@call("q", settles=True)
def cuSurfObjectDestroy(number: int) -> None:
    _destroy(number, Surface)


def _give(place: int, given: Any) -> None:
    if given is None:
        raise Failure("INVALID_VALUE", "the object was made without it")
    ctypes.memmove(place, ctypes.addressof(given), ctypes.sizeof(given))


@call("q q")
def cuTexObjectGetResourceDesc(place: int, number: int) -> None:
    _give(place, _object(number, Texture).resource)


@call("q q")
def cuTexObjectGetTextureDesc(place: int, number: int) -> None:
    _give(place, _object(number, Texture).sampling)


@call("q q")
def cuTexObjectGetResourceViewDesc(place: int, number: int) -> None:
    _give(place, _object(number, Texture).view)


@call("q q")
def cuSurfObjectGetResourceDesc(place: int, number: int) -> None:
    _give(place, _object(number, Surface).resource)
