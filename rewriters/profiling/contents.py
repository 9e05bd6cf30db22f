"""The bytes of a launch's arguments, and back to numbers."""

from __future__ import annotations

import array
import ast
import math
import random
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ptxkit.rewriters.profiling.launch import FLOATS, INTEGERS, SIZES, Array, Scalar

CODES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}
_DTYPES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8"}
_DTYPES |= {"f16": "f2", "f32": "f4", "f64": "f8"}
_MAGIC = b"\x93NUMPY"
_CHUNK = 1 << 16


class BadFile(Exception):
    """A file that does not hold an array of that type."""


def packed(type_: str, values: Iterable[int | float]) -> bytes:
    """Numbers as the bytes that they have on the device. Raises OverflowError for a float that is too large."""
    if type_ == "bf16":
        full = packed("f32", values)
        return b"".join([full[at + 2 : at + 4] for at in range(0, len(full), 4)])
    if type_ == "f16":
        numbers = list(values)
        return struct.pack(f"<{len(numbers)}e", *numbers)
    return array.array(CODES[type_], values).tobytes()


def unpacked(type_: str, data: bytes) -> Sequence[int | float]:
    """The numbers that these bytes are."""
    if type_ == "bf16":
        return unpacked("f32", b"".join([b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2)]))
    if type_ == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    numbers = array.array(CODES[type_])
    numbers.frombytes(data)
    return numbers


def of_scalar(scalar: Scalar) -> bytes:
    """The bytes of a scalar."""
    return packed(scalar.type, [scalar.value])


def of_array(wanted: Array, seed: int) -> bytes:
    """What an array has in it at the start. Raises OSError or BadFile for its file."""
    if wanted.file is not None:
        return _from_file(wanted.file, wanted)
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


def shape_of_file(path: str, type_: str) -> tuple[int, ...]:
    """The shape of the array in a file. Raises OSError, or BadFile if it is not of that type."""
    with Path(path).open("rb") as file:
        head = file.read(1 << 16)
    if not head.startswith(_MAGIC):
        size = Path(path).stat().st_size
        if size % SIZES[type_]:
            raise BadFile(f"{size} bytes are no whole number of {type_}")
        return (size // SIZES[type_],)
    _, shape = _header(head, type_)
    return shape


def _from_file(path: str, wanted: Array) -> bytes:
    data = Path(path).read_bytes()
    if data.startswith(_MAGIC):
        data = data[_header(data, wanted.type)[0] :]
    if len(data) != wanted.bytes:
        raise BadFile(f"{path}: {len(data)} bytes, and {wanted.bytes} were expected")
    return data


def _header(data: bytes, type_: str) -> tuple[int, tuple[int, ...]]:
    """Where the numbers of a `.npy` file begin, and its shape."""
    try:
        size, width = (struct.unpack_from("<H", data, 8)[0], 2) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 4)
        if size > 1 << 14:
            raise BadFile("its header is too long")
        header: Any = ast.literal_eval(data[8 + width : 8 + width + size].decode("latin-1").strip())
        dtype, shape, fortran = header["descr"], header["shape"], header["fortran_order"]
    except (struct.error, ValueError, SyntaxError, TypeError, KeyError, IndexError, RecursionError, MemoryError):
        raise BadFile("its header is no header of a .npy file") from None
    if fortran or not isinstance(shape, tuple) or not all(isinstance(one, int) and one >= 0 for one in shape):
        raise BadFile("it is not in C order")
    if not isinstance(dtype, str) or not _same(dtype, type_):
        raise BadFile(f"it is of {dtype}, not {type_}")
    return 8 + width + size, shape or (1,)


def _same(dtype: str, type_: str) -> bool:
    found = re.fullmatch(r"[<|=]?([iuf][1248])", dtype)
    if found is None:
        return False
    return found[1] == _DTYPES.get(type_) or (type_ == "bf16" and found[1] == "u2")


def fits(type_: str, value: float) -> bool:
    """Whether a float is in reach of a type of floats."""
    try:
        (found,) = unpacked(type_, packed(type_, [value]))
    except OverflowError:
        return False
    return math.isinf(value) == math.isinf(found)
