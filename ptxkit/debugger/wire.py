"""Messages of the Debug Adapter Protocol on a stream: a header with the length, then JSON."""

from __future__ import annotations

import json
import threading
from typing import IO, Any

LONGEST = 64 << 20
"""Maximum bytes of a message."""


class BadMessage(Exception):
    """Input that is not a valid message."""


def read(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None at the end of the stream. Raises BadMessage."""
    length = -1
    while True:
        line = stream.readline(1024)
        if not line:
            return None
        if not line.strip():
            if length < 0:
                continue
            break
        name, colon, value = line.partition(b":")
        if not colon:
            raise BadMessage(f"{line[:40]!r} is not a header")
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > LONGEST:
                raise BadMessage(f"{value.strip()[:20]!r} is not a length")
            length = int(value)
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"a message is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadMessage("a message is not an object")
    return found


class Writer:
    """Writes numbered messages, from any thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._count = 0

    def send(self, message: dict[str, Any]) -> None:
        """Writes a message; does nothing if the client is gone."""
        with self._lock:
            self._count += 1
            body = json.dumps({"seq": self._count, **message}).encode()
            try:
                self._stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self._stream.flush()
            except (BrokenPipeError, ValueError, ConnectionError):
                pass
