"""How outputs of launches stand in a record: short ones whole, of long ones a hash and elements from all over."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import launcher

WHOLE = 8 << 10
"""Bytes up to which an output is kept as it is."""
SAMPLED = 256
"""Elements that are kept of a longer one, all over it."""


def sampled(count: int, most: int = SAMPLED) -> list[int]:
    """The elements that are kept of a long output, `most` of them."""
    return [at * count // most for at in range(most)]


def digest_of(output: launcher.Output) -> str:
    """A hash of an output: of its elements in order where their order does not matter."""
    data = b"".join(sorted(launcher.elements(output))) if output.compare == "sorted" else output.data
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def kept(output: launcher.Output) -> dict[str, Any]:
    """An output as it stands in the record."""
    found: dict[str, Any] = {
        "argument": output.argument,
        "item": output.item,
        "compare": output.compare,
        "bytes": len(output.data),
        "digest": digest_of(output),
    }
    if len(output.data) <= WHOLE:
        return {**found, "data": base64.b85encode(output.data).decode()}
    return {**found, "sample": base64.b85encode(b"".join(part(output, SAMPLED))).decode()}


def part(output: launcher.Output, most: int) -> list[bytes]:
    """The elements of a long output that are kept."""
    elements = launcher.elements(output)
    chosen = sorted(elements) if output.compare == "sorted" else elements
    return [chosen[at] for at in sampled(len(chosen), most)]
