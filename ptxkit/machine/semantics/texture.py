"""Textures (ISA 9.7.11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.textures import sampling
from ptxkit.machine.textures.objects import ADDRESS_MODES, FILTERS, Sampler, Surface, Texture, look_up

Array = np.ndarray[Any, Any]
_DIMENSIONS = {".1d": 1, ".2d": 2, ".3d": 3, ".a1d": 1, ".a2d": 2, ".2dms": 2, ".a2dms": 2}
_WORD = np.dtype(np.uint32)
_OF_SAMPLERS = ("filter_mode", "normalized_coords", "force_unnormalized_coords")


def tex(op: Operation) -> Semantics:
    """Samples or fetches a texel (ISA 9.7.11.3)."""
    geometry, whole = op.slot(".geom"), op.slot(".ctype") == ".s32"
    if op.operand("ref") is not None:
        raise Unsupported("depth textures are not executed: their comparison is chosen by a graphics interface")

    def one(lanes: Any, texture: Texture, sampler: Sampler, given: Any) -> Any:
        parts = _coordinates(lanes, given)
        layer, at = _layer(geometry, parts, texture)
        offsets = [] if given.off is None else [lanes.broadcast(o).view(np.int32) for o in _several(given.off)]
        if whole and geometry == ".1d" and texture.in_array:
            # they read linear memory alone (CUDA C++ Programming Guide, `tex1Dfetch`); of an array they give zeros (measured on sm_90)
            return np.zeros((lanes.count, 4), np.float32)
        if whole:
            where = [p.view(np.int32).astype(np.int64) for p in at]
            where = [w + o for w, o in zip(where, offsets, strict=False)] if offsets else where
            level = lanes.broadcast(given.lod).view(np.int32) if given.lod is not None else None
            return sampling.fetched(texture, where, layer, level)
        floats: Any = [p.view(np.float32) for p in at]
        if "cube" in geometry:
            floats, layer = _on_cube(floats, layer, texture)
            sampler = attrs.evolve(sampler, normalized=True)
        lod = lanes.broadcast(given.lod).view(np.float32) if given.lod is not None else None
        if given.dx is not None:
            if "cube" in geometry:
                raise Unsupported("gradients of cubemaps are not executed")
            dx, dy = ([lanes.broadcast(p).view(np.float32) for p in partial] for partial in (given.dx, given.dy))
            lod = sampling.detail(texture, dx, dy, sampler.normalized)
        return sampling.filtered(texture, sampler, floats, layer, lod, offsets)

    return Semantics(by_name(op, _per_object(op, one)), reads=_bits(op), lanes=True)


def _on_cube(direction: Any, layer: Any, texture: Texture) -> tuple[Any, Any]:
    """The coordinates on the face of a cube at which a direction points, and the layer of this face; `layer` is the cube of an array."""
    face, at = sampling.on_cube(direction)
    return at, face if layer is None else np.clip(layer, 0, texture.texels().shape[0] // 6 - 1) * 6 + face


def tld4(op: Operation) -> Semantics:
    """Gathers a component of four texels (ISA 9.7.11.4)."""
    geometry, component = op.slot(".geom"), [".r", ".g", ".b", ".a"].index(op.slot(".comp"))
    if op.operand("ref") is not None:
        raise Unsupported("depth textures are not executed: their comparison is chosen by a graphics interface")

    def one(lanes: Any, texture: Texture, sampler: Sampler, given: Any) -> Any:
        layer, at = _layer(geometry, _coordinates(lanes, given), texture)
        floats: Any = [p.view(np.float32) for p in at]
        if "cube" in geometry:
            floats, layer = _on_cube(floats, layer, texture)
            sampler = attrs.evolve(sampler, normalized=True)
        offsets = [] if given.off is None else [lanes.broadcast(o).view(np.int32) for o in _several(given.off)]
        return sampling.gathered(texture, sampler, floats, layer, component, offsets)

    return Semantics(by_name(op, _per_object(op, one)), reads=_bits(op), lanes=True)


def _bits(op: Operation) -> dict[str, Any]:
    """Coordinates and related operands are read as bits, regardless of the type of their registers."""
    names = ("c", "x", "y", "z", "i", "off", "lod", "dx", "dy")
    return {name: _WORD for name in names if op.operand(name) is not None}


def _several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _coordinates(lanes: Any, given: Any) -> list[Array]:
    """All coordinates as arrays of 32 bits."""
    parts = _several(given.c) if given.c is not None else (given.i, given.x, given.y, given.z)
    return [np.ascontiguousarray(lanes.broadcast(p)).view(_WORD) for p in parts if p is not None]


def _layer(geometry: str, parts: list[Array], texture: Texture) -> tuple[Array | None, list[Array]]:
    """The layer of an array or the sample, and the coordinates in it."""
    if geometry == ".2dms":
        return parts[0].astype(np.int64), parts[1:3]
    if geometry == ".a2dms":
        return parts[1].astype(np.int64) * max(1, texture.samples) + parts[0].astype(np.int64), parts[2:4]
    if geometry.startswith(".a"):
        return parts[0].astype(np.int64), parts[1 : 1 + _DIMENSIONS.get(geometry, 3)]
    return None, parts[: _DIMENSIONS.get(geometry, 3)]


def _per_object(op: Operation, one: Callable[[Any, Texture, Sampler, Any], Array]) -> Callable[[Any, Any], Any]:
    """Reads each texture for the lanes that refer to it. Returns the elements of the result, and whether the texels are resident."""
    result = _results(op)
    resident = op.operand("p") is not None

    def run(lanes: Any, given: Any) -> Any:
        samplers: list[tuple[Any, Any]] = [(None, None)] if given.s is None else look_up(lanes, given.s, Sampler)
        if len(samplers) > 1:
            raise Unsupported("several samplers in one instruction are not executed")
        found: list[Array] = []
        for texture, mine in look_up(lanes, given.t, Texture):
            some = lanes if mine is None else lanes.at(mine)
            part = given if mine is None else _chosen(given, mine)
            values = result(one(some, texture, samplers[0][0] or texture.sampler, part))
            if mine is None:
                found = values
                break
            found = found or [np.empty(lanes.count, v.dtype) for v in values]
            for all_of_it, v in zip(found, values, strict=True):
                all_of_it[mine] = v
        return (tuple(found), np.ones(lanes.count, bool)) if resident else tuple(found)

    return run


def _chosen(given: Any, mine: Array) -> Any:
    """The operands of some lanes."""
    from ptxkit.machine.asynchronous.arguments import Operands

    def of(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(of(e) for e in x)
        return x[mine] if getattr(x, "ndim", 0) else x

    names = tuple(given.__dict__)
    return Operands(names, tuple(of(given.__dict__[name]) for name in names))


def _results(op: Operation) -> Callable[[Array], list[Array]]:
    """Converts texels (lanes, channels) to the values of the destination."""
    dtype = op.slot(".dtype")

    def four(values: Array) -> list[Array]:
        count, channels = values.shape
        columns = [np.ascontiguousarray(values[:, k]) for k in range(min(4, channels))]
        while len(columns) < 4:
            columns.append(np.zeros(count, values.dtype))
        if dtype in (".u32", ".s32"):
            kind = np.dtype(np.uint32 if dtype == ".u32" else np.int32)
            if columns[0].dtype.kind == "f":
                return [c.astype(np.float32).view(kind) for c in columns]
            return [c.astype(np.int64).astype(kind) for c in columns]
        if columns[0].dtype.kind != "f":
            # integer texels that are read as floats keep their bits
            columns = [c.astype(np.int64).astype(np.uint32).view(np.float32) for c in columns]
        if dtype == ".f32":
            return [c.astype(np.float32) for c in columns]
        halves = [c.astype(np.float16) for c in columns]
        if dtype == ".f16":
            return halves
        bits = [h.view(np.uint16).astype(np.uint32) for h in halves]
        return [bits[0] | bits[1] << np.uint32(16), bits[2] | bits[3] << np.uint32(16)]

    return four


def txq(op: Operation) -> Semantics:
    """Queries an attribute of a texture or sampler (ISA 9.7.11.5)."""
    query = op.slot(".query")[1:]

    def of(thing: Any, level: int) -> int:
        sampler = thing if isinstance(thing, Sampler) else thing.sampler
        if query.startswith("addr_mode_"):
            return ADDRESS_MODES.index(sampler.modes[int(query[-1])])
        if query == "filter_mode":
            return FILTERS.index(sampler.filter)
        if query == "normalized_coords":
            return int(sampler.normalized)
        if query == "force_unnormalized_coords":
            return int(not sampler.normalized)
        if query == "num_mipmap_levels":
            return len(thing.levels) + 1 if thing.levels else 0
        if query == "num_samples":
            return int(thing.samples)
        return attribute(thing, query, level)

    # a texture also answers for its sampler; a sampler has no texels
    kinds = (Texture, Sampler) if query in _OF_SAMPLERS or query.startswith("addr_mode_") else (Texture,)

    def run(lanes: Any, given: Any) -> Any:
        if not getattr(given.lod, "ndim", 0):
            level = 0 if given.lod is None else int(given.lod)
            return _answers(lanes, given.a, kinds, lambda thing: of(thing, level))
        found = np.zeros(lanes.count, np.uint32)
        for level in np.unique(given.lod).tolist():
            mine = given.lod == level
            found[mine] = lanes.broadcast(_answers(lanes, given.a, kinds, partial(of, level=level)))[mine]
        return found

    return Semantics(by_name(op, run), lanes=True)


def attribute(thing: Any, query: str, level: int = 0) -> int:
    """A size or format of an image. Raises `Unsupported` for enumerations of a source language."""
    sizes = dict(zip(("width", "height", "depth"), thing.sizes, strict=True))
    if query in sizes:
        return max(1, sizes[query] >> level) if sizes[query] else 0
    if query == "array_size":
        return int(thing.texels().shape[0]) if thing.layered else 0
    if query == "memory_layout":
        return 0
    raise Unsupported(f"the query `.{query}` gives a code of the source language, which the machine does not know")


def _answers(lanes: Any, handle: Any, kinds: tuple[type, ...], of: Callable[[Any], int]) -> Any:
    found: Any = np.uint32(0)
    for thing, mine in look_up(lanes, handle, *kinds):
        if mine is None:
            return np.uint32(of(thing))
        found = np.zeros(lanes.count, np.uint32) if not getattr(found, "ndim", 0) else found
        found[mine] = of(thing)
    return found


def istypep(op: Operation) -> Semantics:
    """Whether an address is that of a texture, a sampler or a surface (ISA 9.7.11.6)."""
    kind = {".texref": Texture, ".samplerref": Sampler, ".surfref": Surface}[op.type or op.slot(".type")]

    def run(lanes: Any, a: Any) -> Any:
        each = np.atleast_1d(np.asarray(a, np.uint64)).tolist()
        found = np.array([isinstance(lanes.memory.objects.get(one), kind) for one in each])
        return found if getattr(a, "ndim", 0) else found[0]

    return Semantics(run, lanes=True)
