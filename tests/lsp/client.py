"""A client of the language server: a child process, and messages over its standard input and output. Written for the tests, on nothing
but the standard library, so that no code is on both sides of the wire."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from queue import Queue
from typing import Any


class Client:
    """A running server; `request` waits for the answer, `notified` for a notification."""

    def __init__(self, cwd: str) -> None:
        command = [sys.executable, "-m", "ptxkit", "lsp"]
        self.process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.answers: dict[int, Queue[dict[str, Any]]] = {}
        self.notifications: Queue[dict[str, Any]] = Queue()
        self.exchange: list[tuple[float, str, dict[str, Any]]] = []
        """When what was said by whom."""
        self.count = 0
        self.began = time.monotonic()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                return
            message = json.loads(stream.read(length))
            self.exchange.append((time.monotonic() - self.began, "server", message))
            if "method" in message:
                self.notifications.put(message)
            else:
                self.answers[message["id"]].put(message)

    def _send(self, message: dict[str, Any]) -> None:
        self.exchange.append((time.monotonic() - self.began, "client", message))
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, timeout: float = 60, **params: Any) -> dict[str, Any]:
        """The whole answer, whether it is a result or an error."""
        self.count += 1
        waiting = self.answers[self.count] = Queue()
        self._send({"id": self.count, "method": method, "params": params})
        return waiting.get(timeout=timeout)

    def request(self, method: str, timeout: float = 60, **params: Any) -> Any:
        """The result. Raises AssertionError if the answer is an error."""
        answer = self.ask(method, timeout, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def timed(self, method: str, **params: Any) -> tuple[float, Any]:
        """Seconds that the answer took, and the result."""
        start = time.perf_counter()
        result = self.request(method, **params)
        return time.perf_counter() - start, result

    def notified(self, method: str, timeout: float = 60) -> dict[str, Any]:
        """The parameters of the next notification of this kind."""
        end = time.monotonic() + timeout
        while True:
            message = self.notifications.get(timeout=max(end - time.monotonic(), 0.01))
            if message["method"] == method:
                params: dict[str, Any] = message["params"]
                return params

    def start(self, encodings: tuple[str, ...] = ("utf-16",), resolves: bool = False) -> dict[str, Any]:
        """Shakes hands; with `resolves`, as a client that asks for the edits of an action when it was chosen. The server's capabilities."""
        own: dict[str, Any] = {"general": {"positionEncodings": list(encodings)}}
        if resolves:
            own["textDocument"] = {"codeAction": {"resolveSupport": {"properties": ["edit"]}}}
        found: dict[str, Any] = self.request("initialize", processId=None, rootUri=None, capabilities=own)
        self.notify("initialized")
        capabilities: dict[str, Any] = found["capabilities"]
        return capabilities

    def open(self, uri: str, text: str) -> None:
        self.notify("textDocument/didOpen", textDocument={"uri": uri, "languageId": "ptx", "version": 1, "text": text})

    def close(self) -> None:
        """Ends the server as the protocol says; its exit status is 0."""
        self.request("shutdown")
        self.notify("exit")
        assert self.process.wait(timeout=20) == 0


def position(text: str, words: str, nth: int = 0, inside: int = 0) -> dict[str, int]:
    """Where words stand in an ASCII text, as line and character."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(words, at + 1)
    return {"line": text.count("\n", 0, at), "character": at - (text.rfind("\n", 0, at) + 1) + inside}
