"""The binary files in a zip file, such as a wheel."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator

from ptxkit.binaries.archive import Part
from ptxkit.binaries.reading import Damaged

MAGIC = b"PK\3\4"
SUFFIXES = (".so", ".dll", ".pyd", ".exe", ".a", ".lib", ".o", ".obj", ".fatbin", ".cubin")
LARGEST = 1 << 31
"""Maximum bytes of a member; a larger one is not unpacked."""


def is_zip(data: memoryview) -> bool:
    """Whether the data begins as a zip file does."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def members(data: memoryview) -> Iterator[Part]:
    """The members that may contain code, by their extension. Offsets count in the unpacked member. Raises Damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            for info in file.infolist():
                name = info.filename
                if not name.lower().endswith(SUFFIXES) and ".so." not in name:
                    continue
                if info.file_size > LARGEST:
                    raise Damaged(f"{name} is too large to be unpacked", info.header_offset)
                yield Part(name, 0, memoryview(file.read(info)))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, OverflowError) as error:
        raise Damaged(f"a zip file that cannot be read: {error}", 0) from None
