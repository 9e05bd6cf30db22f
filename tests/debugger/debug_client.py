"""A client of the debug adapter: a child process and messages over its standard input and output, and what the protocol promises checked
on each. Written for the tests, on nothing but the standard library."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from queue import Queue
from typing import Any

HANG = 600
"""Seconds after which an adapter counts as hung."""


class Client:
    """A running adapter. `request` waits for the answer, `event` for an event; what comes out of order is an error."""

    def __init__(self, cwd: str) -> None:
        command = [sys.executable, "-m", "ptxkit", "debug", "--dap"]
        self.process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.answers: dict[int, Queue[dict[str, Any]]] = {}
        self.events: Queue[dict[str, Any]] = Queue()
        self.count = 0
        self.seconds: list[tuple[str, float]] = []
        """Of each request how long the answer took."""
        self.wrong: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        seq = 0
        while header := stream.readline():
            name, _, length = header.partition(b": ")
            if name != b"Content-Length" or not header.endswith(b"\r\n") or stream.readline() != b"\r\n":
                self.wrong.append(f"no header: {header!r}")
                return
            message = json.loads(stream.read(int(length)))
            seq += 1
            if message["seq"] != seq:
                self.wrong.append(f"message {seq} says it is {message['seq']}")
            if message["type"] == "event":
                self.events.put(message)
            elif message["type"] == "response" and message["request_seq"] in self.answers:
                self.answers[message["request_seq"]].put(message)
            else:
                self.wrong.append(f"nobody asked: {message}")

    def ask(self, command: str, arguments: dict[str, Any] | None = None, timeout: float = HANG) -> dict[str, Any]:
        """The whole answer."""
        self.count += 1
        waiting = self.answers[self.count] = Queue()
        message = {"seq": self.count, "type": "request", "command": command, **({"arguments": arguments} if arguments is not None else {})}
        body = json.dumps(message).encode()
        start = time.perf_counter()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()
        answer = waiting.get(timeout=timeout)
        self.seconds.append((command, time.perf_counter() - start))
        assert answer["command"] == command
        return answer

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of an answer that is a success."""
        answer = self.ask(command, arguments)
        assert answer["success"], answer
        return answer.get("body") or {}

    def refused(self, command: str, **arguments: Any) -> str:
        """Why a request is refused."""
        answer = self.ask(command, arguments)
        assert not answer["success"], answer
        assert answer["body"]["error"]["format"]
        return str(answer["message"])

    def event(self, name: str, timeout: float = HANG) -> dict[str, Any]:
        """The body of the next event, which must be this one; output aside."""
        while True:
            message = self.events.get(timeout=timeout)
            if message["event"] == name or message["event"] != "output":
                assert message["event"] == name, message
                return message.get("body") or {}

    def stopped(self) -> dict[str, Any]:
        """The body of the next event, which must be that it has stopped."""
        body = self.event("stopped")
        assert body["allThreadsStopped"] is True
        return body

    def timed(self, command: str, **arguments: Any) -> tuple[float, dict[str, Any]]:
        """Seconds from a request to the stop that follows, and that."""
        start = time.perf_counter()
        self.request(command, **arguments)
        body = self.stopped()
        return time.perf_counter() - start, body

    def begin(self, breakpoints: dict[str, list[int]] | None = None, filters: tuple[str, ...] = ("faults",), **launch: Any) -> list[Any]:
        """What an editor says before the first stop; gives what was said of the breakpoints."""
        assert self.request("initialize", adapterID="ptxkit", linesStartAt1=True, columnsStartAt1=True)["supportsStepBack"]
        self.request("launch", **launch)
        self.event("initialized")
        said = []
        for path, lines in (breakpoints or {}).items():
            wanted = [{"line": line} for line in lines]
            said += self.request("setBreakpoints", source={"path": path}, breakpoints=wanted)["breakpoints"]
        self.request("setExceptionBreakpoints", filters=list(filters))
        self.request("configurationDone")
        return said

    def top(self, thread: int) -> dict[str, Any]:
        return self.request("stackTrace", threadId=thread)["stackFrames"][0]  # type: ignore[no-any-return]

    def variables(self, frame: int, scope: str) -> dict[str, dict[str, Any]]:
        scopes = {one["name"]: one["variablesReference"] for one in self.request("scopes", frameId=frame)["scopes"]}
        return {one["name"]: one for one in self.request("variables", variablesReference=scopes[scope])["variables"]}

    def elements(self, variable: dict[str, Any]) -> list[str]:
        found = self.request("variables", variablesReference=variable["variablesReference"])["variables"]
        assert len(found) == variable["indexedVariables"]
        return [one["value"] for one in found]

    def end(self) -> int:
        """Disconnects; the exit code."""
        self.request("disconnect")
        code = self.process.wait(timeout=HANG)
        assert not self.wrong, self.wrong
        return code
