"""PTX texts within binary files, addressed like files: `libfoo.so!3.sm_90a.ptx` is the third text of libfoo.so."""

from __future__ import annotations

import functools
from pathlib import Path

from ptxkit import binaries
from ptxkit.binaries import Contents

HEAD = 4096
"""Number of bytes read to decide whether a file is binary."""


class Unreadable(Exception):
    """A text that cannot be read, with the reason."""


def is_binary(path: str) -> bool:
    """Whether a file is a binary rather than a text. Raises OSError."""
    with Path(path).open("rb") as file:
        return binaries.is_binary(file.read(HEAD))


def split(name: str) -> tuple[str, str] | None:
    """The binary file and the member that a name denotes, or None for the name of a file, existing or not."""
    at = -1
    while (at := name.find("!", at + 1)) >= 0:
        if Path(name[:at]).is_file():
            return None if Path(name).exists() else (name[:at], name[at + 1 :])
    return None


def names(path: str) -> list[str]:
    """The names of the texts in a binary file. If it is partly damaged, or has none, its own name follows them: reading that reports the
    reason. Raises OSError."""
    contents = _contents(path)
    found = [f"{path}!{member.name}" for member in contents.members]
    return found if found and not contents.damages else [*found, path]


def size(name: str) -> int:
    """The bytes of a text in a binary file; 0 if there is none of that name."""
    parts = split(name)
    return 0 if parts is None else next((one.entry.size for one in _contents(parts[0]).members if one.name == parts[1]), 0)


def read(path: str, name: str) -> str:
    """The text of that name in a binary file. Raises Unreadable, or OSError."""
    contents = _contents(path)
    for member in contents.members:
        if member.name == name:
            try:
                return binaries.text(member.entry)
            except (binaries.Damaged, binaries.Missing) as error:
                raise Unreadable(f"{path}!{name}: {error}") from None
    raise Unreadable(f"{path}: there is no {name} in it" + _details(path, contents))


def only(path: str, contents: Contents | None = None) -> str:
    """The only text of a binary file, if it is complete. Raises Unreadable otherwise, or OSError."""
    contents = _contents(path) if contents is None else contents
    if contents.damages:
        more = f" (and {len(contents.damages) - 1} more)" if len(contents.damages) > 1 else ""
        raise Unreadable(f"{path}: {contents.damages[0]}{more}")
    if len(contents.members) != 1:
        found = f"with several PTX texts{_details(path, contents)}" if contents.members else "without PTX"
        raise Unreadable(f"{path}: a binary file {found}")
    try:
        return binaries.text(contents.members[0].entry)
    except (binaries.Damaged, binaries.Missing) as error:
        raise Unreadable(f"{path}: {error}") from None


def _details(path: str, contents: Contents) -> str:
    """The available texts, for a message."""
    known = [f"{path}!{member.name}" for member in contents.members]
    if not known:
        return ""
    return f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known[:4])}{', …' if len(known) > 4 else ''}"


def _contents(path: str) -> Contents:
    status = Path(path).stat()
    return _remembered(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=2)
def _remembered(path: str, time: int, size: int) -> Contents:
    return binaries.contents(Path(path).read_bytes())
