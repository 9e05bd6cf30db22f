"""Reads PTX files byte for byte, also within binary files, and writes files atomically."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ptxkit.memo import expression

BINARY = (b"\x7f", b"\x50", b"!", b"M", b"d")
"""The first bytes of possible binary files; `ptxkit.binaries` examines them further."""


class CannotRead(Exception):
    """A path that cannot be read, with the reason."""


def decode(data: bytes) -> str:
    """The text of a file. Bytes that are not UTF-8 become lone surrogates; line ends are kept."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a text from `decode`."""
    return text.encode("utf-8", "surrogateescape")


def read(path: str) -> str:
    """The PTX in a file, or in standard input for `-`. A text in a binary file with several is read by its name, such as
    `libfoo.so!3.sm_90a.ptx`. Raises CannotRead, with advice, for input that is not PTX."""
    text = read_any(path)
    why = why_not_ptx(text, path)
    if why is not None:
        raise CannotRead(f"{'standard input' if path == '-' else path}: {why}")
    return text


def why_not_ptx(text: str, path: str) -> str | None:
    """What a text is if it is not PTX, with advice; None for PTX, also for a fragment or PTX with errors."""
    if _DIRECTIVE.search(text):
        return None
    if not text.strip():
        return "empty, where PTX is expected"
    if text.startswith(_UTF_16):
        return "this is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`, or write it as UTF-8 (PowerShell: `| Out-File -Encoding ascii`)"
    suffix = Path(path).suffix.lower()
    name = path if suffix else "x.cu"
    if suffix in _CPP or _CPP_TEXT.search(text):
        return f"this is CUDA C++: compile it with `nvcc -ptx -lineinfo {name}`"
    if suffix == ".py":
        return "this is Python: for Triton, write `kernel.asm['ptx']` to a file; for Numba, `kernel.inspect_asm()`"
    if suffix == ".ll" or _LLVM_TEXT.search(text):
        return f"this is LLVM IR: compile it with `llc -march=nvptx64 -mcpu=sm_90 {name if suffix else 'x.ll'}`"
    if "\0" in text or sum(1 for character in text[:4096] if "\udc80" <= character <= "\udcff") > 8:
        return "binary data without PTX: give a PTX file, or a program, library or fat binary that contains PTX"
    return None if _STATEMENT.search(text) else "this is not PTX: it contains neither a directive, such as .version, nor an instruction"


_UTF_16 = tuple(decode(mark) for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
_DIRECTIVE = expression(
    r"^[ \t]*\.(?:version|target|address_size|visible|entry|func|weak|extern|global|const|reg|file|section)\b", re.MULTILINE
)
_STATEMENT = expression(r"\.(?:entry|func|reg|version|target|param)\b|^[ \t]*(?:@!?[%\w]+[ \t]+)?[a-z]\w*[.\w:]*[^;{}\n]*;", re.MULTILINE)
_CPP = frozenset((".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp"))
_CPP_TEXT = expression(r"^[ \t]*#[ \t]*include\b|__global__|__device__", re.MULTILINE)
_LLVM_TEXT = expression(r"^(?:target triple|define .*@.*\{)", re.MULTILINE)


def read_any(path: str) -> str:
    """The text of a file, or of standard input for `-`: like `read`, but of any kind. Raises CannotRead."""
    _refuse_empty(path)
    try:
        if path != "-" and not Path(path).exists():
            inside = _inside(path)
            if inside is not None:
                return inside
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise CannotRead(f"{path}: no such file or folder") from None
    except IsADirectoryError:
        raise CannotRead(f"{path}: a folder, where a file is expected") from None
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror or error}") from None
    return _only(path, data) if data[:1] in BINARY else decode(data)


def _refuse_empty(path: str) -> None:
    """Raises CannotRead for an empty name, as of an unset variable of the shell: to `Path` it is the current folder."""
    if not path:
        raise CannotRead("the name of a file is empty")


def _inside(path: str) -> str | None:
    """The text of that name in a binary file, or None if the name has no such form. Raises CannotRead, or OSError."""
    if "!" not in path:
        return None
    from ptxkit import members

    parts = members.split(path)
    try:
        return None if parts is None else members.read(*parts)
    except members.Unreadable as error:
        raise CannotRead(str(error)) from None


def _only(path: str, data: bytes) -> str:
    """The text in a file that may be binary."""
    from ptxkit import binaries, members

    if not binaries.is_binary(data):
        return decode(data)
    try:
        return members.only(path, binaries.contents(data))
    except members.Unreadable as error:
        raise CannotRead(str(error)) from None


def size(path: str) -> int:
    """The bytes of a file, or of a text in a binary file; 0 if it does not exist."""
    try:
        return Path(path).stat().st_size
    except OSError:
        if "!" not in path:
            return 0
        from ptxkit import members

        return members.size(path)


def _refuse_inside(path: str) -> None:
    """Raises OSError for the name of a text in a binary file."""
    if "!" in path:
        from ptxkit import members

        if members.split(path) is not None:
            raise OSError(errno.EROFS, "inside a binary file, which cannot be written to; `ptxkit extract` extracts it", path)


def write(path: str, text: str) -> None:
    """Writes a file atomically: to a temporary file beside it, then renamed, so that a failure leaves the old contents. Raises OSError
    with the path."""
    write_all({path: text})


def write_bytes(path: str, data: bytes) -> None:
    """Like `write`, for binary contents."""
    write_all({path: decode(data)})


def write_all(texts: Mapping[str, str]) -> None:
    """Writes several files, all or none: no file is renamed before all are written. Raises OSError with the path.

    A link is kept, and its target is written. An existing path that is not a regular file, such as `/dev/null`, is written in place.
    """
    for at in texts:
        _refuse_inside(at)
    import tempfile

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
    """Replaces a file by a new one, keeping its permissions. Raises OSError."""
    Path(beside).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
    Path(beside).replace(target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def find(paths: Iterable[str]) -> Iterator[str]:
    """The PTX files that the paths denote: files themselves, all `*.ptx` in folders, `-` for standard input, and for a binary file the
    texts in it, by names such as `libfoo.so!3.sm_90a.ptx`, which `read` accepts. Raises CannotRead."""
    for path in paths:
        _refuse_empty(path)
        if path == "-":
            yield path
        elif Path(path).is_file():
            yield from _texts(path)
        elif Path(path).is_dir():
            inside = sorted(str(found) for found in Path(path).rglob("*.ptx") if found.is_file())
            if not inside:
                raise CannotRead(f"{path}: no .ptx files in this folder: `nvcc -ptx -lineinfo` makes them, `ptxkit extract` takes them out")
            yield from inside
        elif not Path(path).exists() and not _is_inside(path):
            raise CannotRead(f"{path}: no such file or folder")
        else:
            yield path


def _is_inside(path: str) -> bool:
    from ptxkit import members

    return "!" in path and members.split(path) is not None


def _texts(path: str) -> Iterator[str]:
    try:
        with Path(path).open("rb") as file:
            if file.read(1) not in BINARY:
                yield path
                return
        from ptxkit import members

        yield from members.names(path) if members.is_binary(path) else [path]
    except OSError:
        yield path  # reading it reports the reason
