"""What a repository can hold of a record of `forms.py`: of every test a hash, and the outputs of those where the machine differs.

The file is xz of a line of JSON, and behind it the outputs one after another.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from formtests import Test

MOST, WHOLE = 4096, 3584 * 8
"""Bytes of a test's outputs that are kept; and of an approximation, whose errors are looked at."""


def keep(record: Any, tests: Sequence[Test], path: Path, same: Collection[str] | None = None) -> int:
    """Writes what is kept of a record to a file; gives its size. `same` are the tests that the machine does bit for bit alike, if known."""
    ran, others, places, data = {}, {}, {}, bytearray()
    for test in tests:
        entry = record.tests[test.key]
        if entry["status"] != "ran":
            others[test.key] = [entry["status"], entry.get("detail", "")[:80]]
            continue
        digest = entry["digest"]
        ran[test.key] = [digest, entry["bytes"]]
        is_same = test.key in same if same is not None else _is_same(test, digest)
        if is_same or digest in places or (outputs := record.output(digest)) is None:
            continue
        outputs = outputs[: WHOLE if test.about.get("approximate") else MOST]
        places[digest] = [len(data), len(outputs)]
        data += outputs
    head = json.dumps({"machine": record.machine, "ran": ran, "others": others, "outputs": places}, sort_keys=True)
    path.write_bytes(lzma.compress(head.encode() + b"\n" + bytes(data), preset=9))
    return path.stat().st_size


def _is_same(test: Test, digest: str) -> bool:
    """Whether the machine gives outputs with this hash."""
    from judging import executed

    try:
        return hashlib.blake2b(executed(test), digest_size=12).hexdigest() == digest
    except Exception:
        return False


class Kept:
    """A record as `keep` wrote it."""

    def __init__(self, path: Path) -> None:
        head, _, self._data = lzma.decompress(path.read_bytes()).partition(b"\n")
        found = json.loads(head)
        self.machine: dict[str, Any] = found["machine"]
        self._places: dict[str, tuple[int, int]] = found["outputs"]
        self.tests: dict[str, dict[str, Any]] = {
            key: {"status": "ran", "digest": digest, "bytes": size} for key, (digest, size) in found["ran"].items()
        } | {key: {"status": status, "detail": detail} for key, (status, detail) in found["others"].items()}

    def output(self, digest: str) -> bytes | None:
        """The outputs with this hash, or their start; None if they were not kept."""
        if digest not in self._places:
            return None
        at, size = self._places[digest]
        return self._data[at : at + size]
