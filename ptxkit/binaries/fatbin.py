"""Fat binaries, as nvcc embeds them in programs: code for several targets, possibly compressed.

A fat binary is a header and entries. The meaning of the fields was found by examining files made by the compilers of CUDA 8 to 13:

    header  u32 magic, u16 version, u16 bytes of the header, u64 bytes of all entries
    entry    0  u16 kind (1 PTX, 2 machine code, 8 code for link-time optimization)
             2  u16 version
             4  u32 bytes of this header
             8  u64 bytes of the contents, padded
            16  u32 bytes of the compressed contents
            20  u32 where in this header the rest stands (the options of ptxas)
            24  u16, u16 minor and major version of PTX
            28  u32 target
            32  u32, u32 where in this header the file's name stands, and its bytes
            40  u64 flags
            56  u64 bytes of the contents when not compressed
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import attrs

from ptxkit.binaries import compression
from ptxkit.binaries.reading import Damaged, numbers, stretch, word
from ptxkit.frozen import frozen

MAGIC = b"\x50\xed\x55\xba"
VERSION = 1
HEADER, ENTRY = 16, 64
"""The minimum bytes of the headers."""
PTX = 1
OTHERS = (2, 4, 8, 16, 32, 64)
"""The kinds that are not PTX."""
LZ4, ZSTD, OTHER = 1 << 13, 1 << 15, 1 << 12
OBFUSCATED = 1 << 16
ARCHITECTURE, FAMILY = 1 << 20, 1 << 21
"""The flags that are understood."""


@frozen
class Entry:
    """A PTX text in a fat binary."""

    target: str
    version: tuple[int, int]
    offset: int
    """Its offset in the file."""
    payload: memoryview = attrs.field(repr=False, eq=False)
    size: int
    """Uncompressed bytes; for uncompressed contents, bytes including padding."""
    flags: int
    source: str
    """The source file, if known; otherwise empty."""
    options: str
    """The options for ptxas."""

    @property
    def compression(self) -> str:
        """`lz4`, `zstd`, or `none`."""
        return "lz4" if self.flags & LZ4 else "zstd" if self.flags & ZSTD else "none"


def text(entry: Entry) -> str:
    """The PTX text. Raises Damaged, or compression.Missing."""
    payload = bytes(entry.payload)
    if entry.flags & OBFUSCATED:
        raise Damaged("PTX that can only be read with a key", entry.offset)
    if entry.flags & OTHER and not entry.flags & (LZ4 | ZSTD):
        raise Damaged("PTX in a compression of old compilers that is not known", entry.offset)
    try:
        if entry.flags & LZ4:
            payload = compression.lz4(payload, entry.size)
        elif entry.flags & ZSTD:
            payload = compression.zstd(payload, entry.size)
    except ValueError as error:
        raise Damaged(f"PTX that cannot be decompressed: {error}", entry.offset) from None
    if entry.flags & (LZ4 | ZSTD) and len(payload) != entry.size:
        raise Damaged("PTX that is shorter than its header says", entry.offset)
    return payload.rstrip(b"\0").decode("utf-8", "surrogateescape")


def entries(data: memoryview, base: int) -> Iterator[Entry | Damaged]:
    """The PTX texts of consecutive fat binaries in these bytes, which start at `base` in the file.

    A damaged entry is yielded as such; reading continues with the next fat binary.
    """
    raw = bytes(data)
    at = 0
    while at < len(raw):
        start = raw.find(MAGIC, at)
        between = raw[at : start if start >= 0 else len(raw)]
        if between.strip(b"\0"):
            yield Damaged("neither a fat binary nor the padding behind one", base + at)
        if start < 0:
            return
        try:
            at = yield from _one(data, start, base)
        except Damaged as error:
            yield error.moved(base)
            at = raw.find(MAGIC, start + len(MAGIC))
            if at < 0:
                return


def _one(data: memoryview, at: int, base: int) -> Generator[Entry | Damaged, None, int]:
    """The PTX texts of the fat binary at an offset; returns its end. Raises Damaged."""
    _, version, header, size = numbers("<IHHQ", data, at, "the header of a fat binary")
    if version != VERSION or header < HEADER:
        raise Damaged(f"a fat binary of an unknown version {version}", at)
    end = at + header + size
    at += header
    while at < end:
        kind, _, header, size = numbers("<HHIQ", data, at, "an entry of a fat binary")
        if header < ENTRY:
            raise Damaged("an entry of a fat binary with too short a header", at)
        stretch(data, at, header + size, "an entry of a fat binary")
        if kind == PTX:
            yield _entry(data, at, base, header, size)
        elif kind not in OTHERS:
            yield Damaged(f"an entry of an unknown kind {kind}", base + at)
        at += header + size
    return int(end)


def _entry(data: memoryview, at: int, base: int, header: int, size: int) -> Entry:
    compressed, rest, minor, major, target, name, length, flags, _, plain = numbers(
        "<IIHHIIIQQQ", data, at + 16, "an entry of a fat binary"
    )
    own = data[at : at + header]
    is_compressed = flags & (LZ4 | ZSTD)
    payload = stretch(data, at + header, compressed if is_compressed else size, "a text in a fat binary")
    suffix = "a" if flags & ARCHITECTURE else "f" if flags & FAMILY else ""
    source = word(own, name, length) if name else ""
    options = ""
    if 64 <= rest <= header - 8:
        where, length = numbers("<II", own, rest, "the options of an entry")
        options = word(own, where, length).strip()
    return Entry(f"sm_{target}{suffix}", (major, minor), base + at, payload, plain if is_compressed else size, flags, source, options)
