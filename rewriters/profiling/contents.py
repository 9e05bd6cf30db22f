"""The initial contents of a launch's arguments."""

from __future__ import annotations

import random
from collections.abc import Iterable

from ptxkit.rewriters.profiling import array_files
from ptxkit.rewriters.profiling.elements import FLOATS, INTEGERS, SIZES, packed
from ptxkit.rewriters.profiling.launch import Array, Scalar

_CHUNK = 1 << 16


def of_scalar(scalar: Scalar) -> bytes:
    """The bytes of a scalar."""
    return packed(scalar.type, [scalar.value])


def of_array(wanted: Array, seed: int) -> bytes:
    """The initial contents of an array. Raises OSError or BadFile for its file."""
    if wanted.file is not None:
        return array_files.contents(wanted.file, wanted.type, wanted.bytes)
    if wanted.value is not None:
        return of_scalar(Scalar(wanted.type, wanted.value)) * wanted.count
    if wanted.fill == "zeros":
        return bytes(wanted.bytes)
    if wanted.fill == "ones":
        return of_scalar(Scalar(wanted.type, 1)) * wanted.count
    return b"".join(_chunks(wanted, seed))


def _chunks(wanted: Array, seed: int) -> Iterable[bytes]:
    lot = random.Random(seed)
    for start in range(0, wanted.count, _CHUNK):
        count = min(_CHUNK, wanted.count - start)
        if wanted.fill == "iota":
            yield packed(wanted.type, _wrapped(range(start, start + count), wanted.type))
        elif wanted.type in FLOATS:
            yield packed(wanted.type, [lot.random() for _ in range(count)])
        else:
            high = wanted.high if wanted.high is not None else wanted.low + (256 if SIZES[wanted.type] == 1 else 1000)
            yield packed(wanted.type, _wrapped([lot.randrange(wanted.low, high) for _ in range(count)], wanted.type))


def _wrapped(numbers: Iterable[int], type_: str) -> Iterable[int | float]:
    if type_ in FLOATS:
        return [_in_reach(number, type_) for number in numbers]
    size, signed = INTEGERS[type_]
    half, whole = 1 << size * 8 - 1, 1 << size * 8
    return [(number + half) % whole - half for number in numbers] if signed else [number % whole for number in numbers]


def _in_reach(number: int, type_: str) -> float:
    return float(number) if type_ != "f16" else float(number % 65504)
