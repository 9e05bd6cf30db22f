"""`mov` and `shfl`: copies between registers, and between lanes (ISA 9.7.10.3 to 9.7.10.6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.semantics._shuffling import sources
from ptxkit.machine.types import B128, dtype_of


def mov(op: Operation) -> Semantics:
    """Copies a value; packs a vector into a register of its size, or unpacks a register into a vector (ISA 9.7.10.3, 9.7.10.4)."""
    d, a = op.operand("d"), op.operand("a")
    assert d is not None and a is not None
    whole = dtype_of(op.type)
    d_vector, a_vector = d.shape.kind == "vector" or d.shape.count > 1, a.shape.kind == "vector" or a.shape.count > 1
    if op.slot(".vec"):
        wanted = max(op.width("d"), 2)
        is_many = a_vector or (a.shape.kind == "special")

        def copy(a: Any) -> Any:
            return tuple(a)[:wanted] if is_many else (a,) * wanted

        return Semantics(copy, reads={"a": whole}, writes={"d": whole})
    if a_vector and not d_vector:
        return Semantics(_packing(whole), reads={"a": _part(whole, a)}, writes={"d": whole})
    if d_vector and not a_vector:
        part = _part(whole, d)
        return Semantics(_unpacking(whole, part, d.width or 1), reads={"a": whole}, writes={"d": part})
    return Semantics(same, reads={"a": whole}, writes={"d": whole})


def same(a: Any) -> Any:
    """The identity. Compiled code omits the call."""
    return a


def _part(whole: np.dtype[Any], vector: Any) -> np.dtype[Any]:
    """The dtype of an element of a vector that fills a register."""
    count = len(vector.shape.parts) or vector.shape.count
    return np.dtype(f"u{max(1, whole.itemsize // count)}") if whole.itemsize // count <= 8 else whole


def _packing(whole: np.dtype[Any]) -> Any:
    def pack(parts: Any) -> Any:
        if len(parts) == 1:
            return parts[0]
        if whole == B128:
            if len(parts) == 4:
                parts = (_two(parts[0], parts[1]), _two(parts[2], parts[3]))
            lo, hi = np.broadcast_arrays(*parts)
            out = np.empty(lo.shape, B128)
            out["lo"], out["hi"] = lo, hi
            return out if out.ndim else out[()]
        bits = parts[0].dtype.itemsize * 8
        total = parts[0].astype(whole)
        for i, part in enumerate(parts[1:], 1):
            total = total | (part.astype(whole) << whole.type(bits * i))
        return total

    return pack


def _two(low: Any, high: Any) -> Any:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _unpacking(whole: np.dtype[Any], part: np.dtype[Any], count: int) -> Any:
    bits = part.itemsize * 8

    def unpack(a: Any) -> Any:
        if count == 1:
            return (a,)
        if whole == B128:
            lo, hi = a["lo"], a["hi"]
            if count == 2:
                return lo, hi
            return lo.astype(part), (lo >> np.uint64(32)).astype(part), hi.astype(part), (hi >> np.uint64(32)).astype(part)
        return tuple([(a >> whole.type(bits * i) if i else a).astype(part) for i in range(count)])

    return unpack


def shfl(op: Operation) -> Semantics:
    """Exchanges values between the lanes of a warp (ISA 9.7.10.5, 9.7.10.6). If the source lane is absent, a lane gets its own value."""
    mode = op.slot(".mode")
    with_predicate = op.operand("p") is not None
    word = np.dtype(np.uint32)

    def run(lanes: Any, a: Any, b: Any, c: Any, *_: Any) -> Any:
        values = lanes.by_warp(a)
        source, inside = sources(mode, lanes, b, c)
        rows = len(values)
        if source.ndim == 1:
            found = values[:, source]
        else:
            found = np.take_along_axis(values, np.broadcast_to(source, (rows, 32)), axis=1)
        active = lanes.active
        if not active.all():
            there = active[:, source] if source.ndim == 1 else np.take_along_axis(active, np.broadcast_to(source, (rows, 32)), axis=1)
            found = np.where(there, found, values)
        result = lanes.from_warp(found)
        if not with_predicate:
            return result
        return result, lanes.from_warp(np.broadcast_to(inside, (rows, 32)))

    return Semantics(run, reads={"a": word, "b": word, "c": word}, writes={"d": word}, lanes=True)
