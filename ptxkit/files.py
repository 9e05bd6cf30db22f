"""Reading PTX files as they are, and writing files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


class CannotRead(Exception):
    """A path that cannot be read, with why."""


def decode(data: bytes) -> str:
    """The text of a file. Bytes that are not UTF-8 survive as lone surrogates, line ends as they are."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes that `decode` made the text of."""
    return text.encode("utf-8", "surrogateescape")


def read(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises CannotRead."""
    try:
        return decode(sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes())
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror or error}") from None


def write(path: str, text: str) -> None:
    """Writes a file whole: beside it first, then renamed, so that a failure leaves what was there. Raises OSError that names the path."""
    write_all({path: text})


def write_all(texts: Mapping[str, str]) -> None:
    """Writes several files, all or none: nothing is renamed before each is written. Raises OSError that names the path.

    A link stays one, what it leads to is written. What is there and no file, such as `/dev/null`, is written to, not replaced.
    """
    ready: list[tuple[str, str, Path]] = []
    at = ""
    try:
        for at, text in texts.items():
            target = Path(at).resolve()
            if target.exists() and not target.is_file():
                target.write_bytes(encode(text))
                continue
            handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            ready.append((at, beside, target))
            with os.fdopen(handle, "wb") as file:
                file.write(encode(text))
        for at, beside, target in ready:  # noqa: B007 - `at` says below which one failed
            replace(beside, target)
    except BaseException as failed:
        for _, beside, _ in ready:
            Path(beside).unlink(missing_ok=True)
        if isinstance(failed, OSError):
            failed.filename = at
        raise


def replace(beside: str, target: Path) -> None:
    """Puts a new file in the place of another, with its permissions. Raises OSError."""
    Path(beside).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
    Path(beside).replace(target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def find(paths: Iterable[str]) -> Iterator[str]:
    """The PTX files that the paths name: files as they are, all `*.ptx` under folders, `-` for standard input. Raises CannotRead."""
    for path in paths:
        if path == "-" or Path(path).is_file():
            yield path
        elif Path(path).is_dir():
            yield from sorted(str(found) for found in Path(path).rglob("*.ptx") if found.is_file())
        elif not Path(path).exists():
            raise CannotRead(f"{path}: no such file or folder")
        else:
            yield path
