"""Conversions (ISA 9.7.10.20, 9.7.10.21).

Compiled code handles registers wider than the type: operands are truncated to the type, and results have its size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.isa.types import is_type
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.types import dtype_of
from ptxkit.machine.values.double import quiet_nans
from ptxkit.machine.values.elements import Elements, elements_of
from ptxkit.machine.values.floats import canonical, flush_below, saturate
from ptxkit.machine.values.formats import FORMATS
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.rounding import integer_to_odd, nearest_of_integer

Function = Callable[..., Any]

_WHOLE: dict[str, Function] = {".rni": np.rint, ".rzi": np.trunc, ".rmi": np.floor, ".rpi": np.ceil}
_MODES = (".rn", ".rz", ".rm", ".rp", ".rna", ".rs")


def cvt(op: Operation) -> Semantics:
    """§ 9.7.10.20, 9.7.10.21"""
    if op.has(".pack"):
        return _pack(op)
    if op.has(".pzo"):
        raise Unsupported("no manual at hand says what .pzo does")
    dtype, atype = (m for m in op.bound.modifiers if is_type(m))
    to_integer, from_integer = (dtype_of(t).kind in "ui" and t[1] in "us" and t[2:].isdecimal() for t in (dtype, atype))
    if to_integer and from_integer:
        return _between_integers(op, dtype_of(dtype), dtype_of(atype))
    if to_integer:
        return _to_integer(op, dtype_of(dtype), elements_of(atype))
    if from_integer:
        return _from_integer(op, elements_of(dtype))
    return _between_floats(op, elements_of(dtype), elements_of(atype))


def _mode(op: Operation) -> str:
    return next((m[1:] for m in op.bound.modifiers if m in _MODES), "rn")


def _between_integers(op: Operation, dtype: np.dtype[Any], atype: np.dtype[Any]) -> Semantics:
    if not op.has(".sat"):
        return Semantics(lambda a: a.astype(dtype))
    limits, has = np.iinfo(dtype), np.iinfo(atype)
    least, most = atype.type(max(limits.min, has.min)), atype.type(min(limits.max, has.max))
    return Semantics(lambda a: np.clip(a, least, most).astype(dtype))


def _to_integer(op: Operation, dtype: np.dtype[Any], source: Elements) -> Semantics:
    """Values out of range become the nearest integer in range. NaN becomes zero or, with 64-bit types, only the highest bit set."""
    whole = next(_WHOLE[m] for m in op.bound.modifiers if m in _WHOLE)
    limits = np.iinfo(dtype)
    wide = source.base == ".f64" or dtype.itemsize == 8
    of_nan = dtype.type(limits.min if dtype.kind == "i" else 1 << (limits.bits - 1)) if wide else dtype.type(0)
    least, past = float(limits.min), float(limits.max + 1)
    ftz = op.has(".ftz")

    def run(a: Any) -> Any:
        x = source.numbers(source.codes(a))
        if ftz:
            x = flush_below(x, source.least)
        x = whole(x)
        inside = (x >= least) & (x < past)
        if inside.all():
            return x.astype(dtype)
        limited = select(x >= past, dtype.type(limits.max), select(np.isnan(x), of_nan, dtype.type(limits.min)))
        return select(inside, select(inside, x, 0).astype(dtype), limited)

    return Semantics(run, {"a": source.register})


def _from_integer(op: Operation, result: Elements) -> Semantics:
    mode, sat = _mode(op), op.has(".sat")
    if result.base in (".f32", ".f64") and mode == "rn":
        rounded: Function = lambda a: a.astype(result.code)  # noqa: E731
    elif result.base == ".f64":
        rounded = lambda a: nearest_of_integer(a, mode)  # noqa: E731
    else:
        rounded = lambda a: result.rounded(integer_to_odd(a), mode)  # noqa: E731
    if not sat:
        return Semantics(rounded)
    if result.base in (".f32", ".f64"):
        return Semantics(lambda a: saturate(rounded(a)))
    return Semantics(lambda a: result.rounded(saturate(integer_to_odd(a)), mode))


def _between_floats(op: Operation, result: Elements, source: Elements) -> Semantics:
    mode = _mode(op)
    plain = not any(op.has(m) for m in (".ftz", ".sat", ".relu"))
    if plain and source.count == result.count == 1:
        if result.base == ".f32" and source.base == ".bf16":
            return Semantics(lambda a: a.astype(np.uint32) << 16, {"a": np.uint16})
        if result.base == source.base and result.base in (".f32", ".f64") and not any(m in _WHOLE for m in op.bound.modifiers):
            return Semantics(lambda a: a)
        if result.base == ".tf32" and mode == "rna":
            return _to_tf32_away(op)
    whole = next((_WHOLE[m] for m in op.bound.modifiers if m in _WHOLE), None)
    ftz, sat, relu, finite = (op.has(m) for m in (".ftz", ".sat", ".relu", ".satfinite"))
    scaled = op.operand("scale")
    scales = elements_of(".ue8m0" if scaled is None else scaled.types[0])
    upwards = source.base not in (".f32", ".f16", ".bf16")
    of_singles = source.base in (".f32", ".f16", ".bf16") and result.base in (".f32", ".f16", ".bf16", ".tf32") and mode != "rs"
    dtype = np.float32 if of_singles and not scaled else np.float64
    random_bits = 13 if result.base == ".f16" else 16

    def run(*values: Any) -> Any:
        *given, last = values if mode == "rs" or scaled else (*values, None)
        x = _gathered(source, result, given, dtype)
        if ftz and source.base == ".f32" and result.base != ".f16":
            # (on sm_90, .ftz has no effect on conversions to half precision)
            x = canonical(flush_below(x, source.least).astype(np.float32, copy=False)).astype(dtype, copy=False)
        if whole is not None:
            x = whole(x)
        if scaled:
            factor = scales.numbers(scales.codes(last))
            if scales.count == 1:
                factor = np.asarray(factor)[..., None]
            x = x * factor if upwards else x / factor
        # the limits are representable in all types, so clamping before rounding is the same as after
        if sat:
            x = saturate(x)
        if relu:
            x = select(x <= 0, x.dtype.type(0), x)
        random = _random(last, result) if mode == "rs" else 0
        rounded = result.rounded(x, mode, finite=finite, random=random, random_bits=random_bits)
        if source.base == ".f64" and result.base != ".f64" and not sat:
            rounded = _nans_of_doubles(rounded, x, result)
        if result.base == ".f64":
            rounded = quiet_nans(rounded)
        if ftz and result.base == ".f32":
            rounded = flush_below(rounded, result.least)
        return result.joined(rounded)

    reads = {o.name: source.register for o in op.reads if o.name in ("a", "b") and not o.width}
    return Semantics(run, reads)


def _to_tf32_away(op: Operation) -> Semantics:
    """Half of the dropped range is added to the bits, even for a NaN; with .satfinite, one step is subtracted from a result that is not
    finite."""
    step, half, infinite = np.uint32(0x2000), np.uint32(0x1000), np.uint32(0x7F800000)

    def run(a: Any) -> Any:
        bits = (a + half) & ~(step - np.uint32(1))
        return select(bits & infinite == infinite, bits - step, bits) if op.has(".satfinite") else bits

    return Semantics(run, {"a": np.uint32})


def _nans_of_doubles(rounded: Any, x: Any, result: Elements) -> Any:
    """Doubles converted to narrower floats: a NaN keeps its sign and the upper bits of its payload, and is made quiet (measured on
    sm_90)."""
    is_nan = np.isnan(x)
    if not some(is_nan):
        return rounded
    if result.base == ".f32":
        return select(is_nan, x.astype(np.float32), rounded)
    format = FORMATS[result.base]
    bits = x.view(np.uint64)
    payload = (bits >> (52 - format.mantissa)) & ((1 << format.mantissa) - 1)
    nan = (bits >> 48 & np.uint64(0x8000)) | np.uint64(format.infinity | 1 << (format.mantissa - 1)) | payload
    return select(is_nan, nan.astype(result.code), rounded)


def _gathered(source: Elements, result: Elements, given: list[Any], dtype: Any) -> Any:
    """The numbers to convert. Of several operands, or elements of a vector, the last goes to the lowest bits."""
    parts = given[0] if isinstance(given[0], tuple) else tuple(given)
    if result.count == 1 or source.count > 1:
        return source.numbers(source.codes(parts[0]), dtype)
    return np.stack(np.broadcast_arrays(*[p.view(np.float32) for p in reversed(parts)]), axis=-1).astype(dtype, copy=False)


def _random(bits: Any, result: Elements) -> Any:
    """The random bits of each element: sixteen for the upper and sixteen for the lower elements; elements of a pair share them."""
    lower, upper = bits & 0xFFFF, bits >> 16
    if result.base == ".e2m1":
        lower, upper = (upper & 0xFF) << 8 | (lower & 0xFF), (upper & 0xFF00) | (lower >> 8)
    if result.base == ".f16":
        lower, upper = lower & 0x1FFF, upper & 0x1FFF
    return np.repeat(np.stack([lower, upper], axis=-1), result.count // 2, axis=-1).astype(np.float64)


def _pack(op: Operation) -> Semantics:
    """§ 9.7.10.21: b below a, and c above both if it fits."""
    kind = op.slot(".dtype")
    size = int(kind[2:])
    least, most = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if kind[1] == "s" else (0, (1 << size) - 1)
    mask = np.uint32((1 << size) - 1)

    def narrowed(x: Any) -> Any:
        return np.clip(x, np.int32(least), np.int32(most)).view(np.uint32) & mask

    if size == 16:
        return Semantics(lambda a, b: narrowed(a) << 16 | narrowed(b))
    return Semantics(lambda a, b, c: c << (2 * size) | narrowed(a) << size | narrowed(b), {"c": np.uint32})
