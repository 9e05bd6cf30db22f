"""A shared library, generated without a compiler: its functions jump to addresses that are set after loading.

So a program that loads `libcuda.so.1` gets functions written in Python, which C code calls like any other. Linux on x86-64 and ARM64 only.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

_PAGE = 0x10000
_JUMP = 16
"""Bytes between two functions."""


def supported() -> bool:
    """Whether such a library can be generated for this system."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


def load(soname: str, names: Iterable[str], address: Callable[[str], int]) -> ctypes.CDLL:
    """Loads a library of that name with these functions; from then on, loading that name returns it.

    `address` gives the address of each function, and is called after loading. Raises OSError if another library of that name has been
    loaded, or if the system is not supported.
    """
    if not supported():
        raise OSError(f"no library can be made for {sys.platform} on {platform.machine()}")
    try:
        ctypes.CDLL(soname, mode=os.RTLD_NOLOAD)
    except OSError:
        pass
    else:
        raise OSError(f"{soname} has been loaded already")
    names = sorted(names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / soname
        path.write_bytes(image(soname, names, platform.machine()))
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    slots = (ctypes.c_uint64 * len(names)).in_dll(library, "slots")
    slots[:] = [address(name) for name in names]
    atexit.register(_end, slots)
    return library


def _end(slots: ctypes.Array[ctypes.c_uint64]) -> None:
    """At interpreter exit: later calls from C must not enter Python, and do nothing."""
    nothing = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    slots[:] = [nothing] * len(slots)


def image(soname: str, names: Sequence[str], machine: str) -> bytes:
    """The bytes of an ELF file with these functions, and the variable `slots`, which holds the address of each."""
    count = len(names)
    texts = [b"", soname.encode(), *[name.encode() for name in names], b"slots"]
    strings, starts = bytearray(), []
    for text in texts:
        starts.append(len(strings))
        strings += text + b"\0"
    symbols_at = 64 + 56 * 4
    strings_at = symbols_at + 24 * (count + 2)
    hash_at = -(-(strings_at + len(strings)) // 8) * 8
    jumps_at = -(-(hash_at + 4 * (3 + count + 2)) // 16) * 16
    end = jumps_at + _JUMP * count
    data_at = -(-end // _PAGE) * _PAGE
    dynamic = [(14, starts[1]), (4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24), (0, 0)]
    slots_at = data_at + 16 * len(dynamic)
    size = slots_at + 8 * count - data_at
    symbols = bytes(24)
    jumps = b""
    for i in range(count):
        at, slot = jumps_at + _JUMP * i, slots_at + 8 * i
        symbols += struct.pack("<IBBHQQ", starts[2 + i], 0x12, 0, 1, at, _JUMP)
        jumps += _jump(slot - at, machine)
    symbols += struct.pack("<IBBHQQ", starts[2 + count], 0x11, 0, 2, slots_at, 8 * count)
    # one bucket: all symbols in one chain
    chains = struct.pack(f"<{3 + count + 2}I", 1, count + 2, 1, 0, *range(2, count + 2), 0)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62 if machine == "x86_64" else 183, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    segments = (
        (1, 5, 0, end, _PAGE),
        (1, 6, data_at, size, _PAGE),
        (2, 6, data_at, 16 * len(dynamic), 8),
        (0x6474E551, 6, 0, 0, 16),  # the stack need not be executable
    )
    found = bytearray(data_at + size)
    found[:64] = header
    for i, (kind, flags, at, length, align) in enumerate(segments):
        found[64 + 56 * i : 120 + 56 * i] = struct.pack("<IIQQQQQQ", kind, flags, at, at, at, length, length, align)
    for at, piece in ((symbols_at, symbols), (strings_at, strings), (hash_at, chains), (jumps_at, jumps)):
        found[at : at + len(piece)] = piece
    for i, entry in enumerate(dynamic):
        found[data_at + 16 * i : data_at + 16 * i + 16] = struct.pack("<QQ", *entry)
    return bytes(found)


def _jump(distance: int, machine: str) -> bytes:
    """A jump through the slot at this distance."""
    if machine == "x86_64":
        return (b"\xff\x25" + struct.pack("<i", distance - 6)).ljust(_JUMP, b"\xcc")
    load = 0x58000010 | (distance // 4 & 0x7FFFF) << 5  # ldr x16, [there]; br x16
    return struct.pack("<II", load, 0xD61F0200).ljust(_JUMP, b"\0")
