"""The members of static archives, as created by `ar` and `lib`."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.binaries.reading import Damaged, stretch
from ptxkit.frozen import frozen

MAGIC = b"!<arch>\n"
THIN = b"!<thin>\n"
HEADER = 60
TABLES = ("/", "/SYM64/", "//", "__.SYMDEF", "__.SYMDEF SORTED", "/<ECSYMBOLS>/")
"""Members that are tables of the archive itself."""


@frozen
class Part:
    """A member of an archive and its location, in bytes."""

    name: str
    offset: int
    data: memoryview


def members(data: memoryview) -> Iterator[Part]:
    """The members in order, without the archive's own tables. Raises Damaged, also for a thin archive."""
    if data[: len(THIN)] == THIN:
        raise Damaged("a thin archive, which only names its members: give those", 0)
    at = len(MAGIC)
    long_names = b""
    while at + 1 < len(data):
        header = bytes(stretch(data, at, HEADER, "the header of an archive's member"))
        digits = header[48:58].strip()
        if header[58:] != b"`\n" or not digits.isdigit():
            raise Damaged("no header of an archive's member", at)
        size, offset = int(digits), at + HEADER
        body = stretch(data, offset, size, "an archive's member")
        name = header[:16].rstrip().decode("utf-8", "replace")
        if name == "//":
            long_names = bytes(body)
        elif name.startswith("#1/") and name[3:].isdecimal():
            # as in BSD: the name precedes the contents
            length = min(int(name[3:]), size)
            name = bytes(body[:length]).rstrip(b"\0").decode("utf-8", "replace")
            offset, body = offset + length, body[length:]
        elif name[:1] == "/" and name[1:].isdecimal():
            name = long_names[int(name[1:]) :].partition(b"\n")[0].rstrip(b"/\0").decode("utf-8", "replace")
        elif name not in TABLES:
            name = name.removesuffix("/")
        if name not in TABLES:
            yield Part(name, offset, body)
        at += HEADER + size + size % 2
