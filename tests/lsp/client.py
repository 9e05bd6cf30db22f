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

HANG = 600
"""Seconds after which a server that says nothing is taken to hang. No measure of anything: a server that ends is noticed at once."""


class Client:
    """A running server; `request` waits for the answer, `notified` for a notification. `prepare` is Python that the server's process
    executes before it serves."""

    def __init__(self, cwd: str, prepare: str = "") -> None:
        command = [sys.executable, "-c", f"{prepare}\nimport sys\nsys.argv = ['ptxkit', 'lsp']\nfrom ptxkit.cli import run\nrun()"]
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
                self._ended()
                return
            message = json.loads(stream.read(length))
            self.exchange.append((time.monotonic() - self.began, "server", message))
            if "method" in message:
                self.notifications.put(message)
            else:
                self.answers[message["id"]].put(message)

    def _ended(self) -> None:
        """Tells all who wait that the server has ended."""
        self.notifications.put({})
        for waiting in list(self.answers.values()):
            waiting.put({})

    def _send(self, message: dict[str, Any]) -> None:
        self.exchange.append((time.monotonic() - self.began, "client", message))
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer, whether it is a result or an error."""
        return _next(self.asked(method, **params))

    def asked(self, method: str, **params: Any) -> Queue[dict[str, Any]]:
        """Where the answer will be."""
        self.count += 1
        waiting = self.answers[self.count] = Queue()
        self._send({"id": self.count, "method": method, "params": params})
        return waiting

    def request(self, method: str, **params: Any) -> Any:
        """The result. Raises AssertionError if the answer is an error."""
        answer = self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def notified(self, method: str) -> dict[str, Any]:
        """The parameters of the next notification, or question, of this kind."""
        while True:
            message = _next(self.notifications)
            if message["method"] == method:
                params: dict[str, Any] = message.get("params") or {}
                return params

    def start(self, encodings: tuple[str, ...] = ("utf-16",), resolves: bool = False) -> dict[str, Any]:
        """Shakes hands; with `resolves`, as a client that asks for the edits of an action when it was chosen. The server's capabilities."""
        own: dict[str, Any] = {
            "general": {"positionEncodings": list(encodings)},
            "workspace": {"codeLens": {"refreshSupport": True}},
        }
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
        assert self.process.wait(timeout=HANG) == 0


def _next(queue: Queue[dict[str, Any]]) -> dict[str, Any]:
    message = queue.get(timeout=HANG)
    assert message, "the server has ended"
    return message


def position(text: str, words: str, nth: int = 0, inside: int = 0) -> dict[str, int]:
    """Where words stand in an ASCII text, as line and character."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(words, at + 1)
    return {"line": text.count("\n", 0, at), "character": at - (text.rfind("\n", 0, at) + 1) + inside}
