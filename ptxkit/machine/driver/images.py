"""Loadable images: PTX as text or in a fat binary, and the output of `cuLinkComplete`. Machine code for GPUs is not supported."""

from __future__ import annotations

import ctypes
import functools
import struct

from ptxkit.binaries import Damaged, Missing, contents, text
from ptxkit.isa.targets import runs, split_target
from ptxkit.machine.driver.interface import Failure
from ptxkit.machine.driver.state import STATE
from ptxkit.syntax import Module, Target, parse

LINKED = b"ptxkit\1\0"
"""The prefix of a linked image: followed by the total size, the number of texts, and each text after its length."""

_WRAPPER, _FATBIN = 0x466243B1, 0xBA55ED50
_ELF = b"\x7fELF"


def linked(texts: list[str]) -> bytes:
    """Texts that were linked, as one image."""
    pieces = [struct.pack("<Q", len(one)) + one for one in (text.encode() for text in texts)]
    size = len(LINKED) + 12 + sum(map(len, pieces))
    return LINKED + struct.pack("<QI", size, len(texts)) + b"".join(pieces)


def at(address: int) -> list[str]:
    """The PTX of an image in memory, which contains its own size. Raises `Failure` if there is none."""
    if not address:
        raise Failure("INVALID_VALUE")
    head = ctypes.string_at(address, 4)
    (magic,) = struct.unpack("<I", head)
    if magic == _WRAPPER:
        (address,) = struct.unpack("<Q", ctypes.string_at(address + 8, 8))
        (magic,) = struct.unpack("<I", ctypes.string_at(address, 4))
    if magic == _FATBIN:
        header, size = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return of(ctypes.string_at(address, header + size))
    if head == LINKED[:4] and ctypes.string_at(address, len(LINKED)) == LINKED:
        (size,) = struct.unpack("<Q", ctypes.string_at(address + len(LINKED), 8))
        return of(ctypes.string_at(address, size))
    if head == _ELF:
        return of(head)
    return of(ctypes.string_at(address))


def of(data: bytes) -> list[str]:
    """The PTX of an image. Raises `Failure` if there is none."""
    if data[: len(LINKED)] == LINKED:
        (count,) = struct.unpack_from("<I", data, len(LINKED) + 8)
        found, position = [], len(LINKED) + 12
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", data, position)
            found.append(data[position + 8 : position + 8 + size].decode())
            position += 8 + size
        return found
    if data[:4] == _ELF:
        raise Failure("NO_BINARY_FOR_GPU", "machine code of a GPU, and no PTX: the machine executes PTX")
    if len(data) >= 4 and struct.unpack("<I", data[:4])[0] == _FATBIN:
        return [_of_fatbin(data)]
    try:
        return [data.split(b"\0", 1)[0].decode()]
    except UnicodeDecodeError:
        raise Failure("INVALID_IMAGE", "neither PTX nor a fat binary") from None


def _of_fatbin(data: bytes) -> str:
    """The text for the highest target that the device runs."""
    texts = []
    for member in contents(data).members:
        try:
            texts.append(text(member.entry))
        except (Damaged, Missing) as error:
            raise Failure("INVALID_IMAGE", str(error)) from None
    fits = [one for one in texts if not refused(parsed(one))]
    if not fits:
        raise Failure("NO_BINARY_FOR_GPU", "a fat binary without PTX that the device runs")
    return max(fits, key=lambda one: split_target(target_of(parsed(one)) or "sm_0")[0])


@functools.lru_cache(maxsize=256)
def parsed(source: str) -> Module:
    """The tree of a text."""
    return parse(source)


def target_of(module: Module) -> str:
    """The target that a module names; empty if there is none."""
    for child in module.children:
        if isinstance(child, Target):
            return next((word.text for word in child.children if word.text.startswith("sm_")), "")
    return ""


def refused(module: Module) -> str:
    """Why the device cannot run a module, because of its target; empty if it can."""
    target = target_of(module)
    try:
        if not target or runs(STATE.settings.target, target):
            return ""
    except ValueError:
        pass
    return f"a module for {target} does not run on {STATE.settings.target}"
