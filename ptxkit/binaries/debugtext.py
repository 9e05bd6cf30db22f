"""The PTX that a cubin contains for debuggers if compiled with `-lineinfo` or `-G`."""

from __future__ import annotations

import re

from ptxkit.binaries.fatbin import Entry

SECTION = ".nv_debug_ptx_txt"


def entry(data: memoryview, offset: int) -> Entry:
    """The text, with line ends for zero bytes; comments and the contents of debugging sections are blank in it."""
    payload = bytes(data).replace(b"\0", b"\n")
    version = re.search(rb"\.version\s+(\d{1,3})\.(\d{1,3})", payload)
    target = re.search(rb"\.target\s+(sm_\w{1,9})", payload)
    return Entry(
        target[1].decode() if target else "sm_0",
        (int(version[1]), int(version[2])) if version else (0, 0),
        offset,
        memoryview(payload),
        len(payload),
        flags=0,
        source="",
        options="",
    )
