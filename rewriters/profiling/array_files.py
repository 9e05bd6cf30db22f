"""Array files: `.npy` as written by NumPy, or raw bytes."""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path
from typing import Any

from ptxkit.rewriters.profiling.elements import SIZES

_DTYPES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8"}
_DTYPES |= {"f16": "f2", "f32": "f4", "f64": "f8"}
_MAGIC = b"\x93NUMPY"


class BadFile(Exception):
    """A file that does not hold an array of the expected type."""


def shape_of_file(path: str, type_: str) -> tuple[int, ...]:
    """The shape of the array in a file. Raises OSError, or BadFile if it is not of that type."""
    with Path(path).open("rb") as file:
        head = file.read(1 << 16)
    if not head.startswith(_MAGIC):
        size = Path(path).stat().st_size
        if size % SIZES[type_]:
            raise BadFile(f"{size} bytes are not a whole number of {type_}")
        return (size // SIZES[type_],)
    _, shape = _header(head, type_)
    return shape


def contents(path: str, type_: str, size: int) -> bytes:
    """The first `size` bytes of the array in a file. Raises OSError, or BadFile."""
    data = Path(path).read_bytes()
    if data.startswith(_MAGIC):
        data = data[_header(data, type_)[0] :]
    if len(data) != size:
        raise BadFile(f"{path}: {len(data)} bytes, and {size} were expected")
    return data


def _header(data: bytes, type_: str) -> tuple[int, tuple[int, ...]]:
    """The offset of the data in a `.npy` file, and its shape."""
    try:
        size, width = (struct.unpack_from("<H", data, 8)[0], 2) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 4)
        if size > 1 << 14:
            raise BadFile("its header is too long")
        header: Any = ast.literal_eval(data[8 + width : 8 + width + size].decode("latin-1").strip())
        dtype, shape, fortran = header["descr"], header["shape"], header["fortran_order"]
    except (struct.error, ValueError, SyntaxError, TypeError, KeyError, IndexError, RecursionError, MemoryError):
        raise BadFile("it does not have the header of a .npy file") from None
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
