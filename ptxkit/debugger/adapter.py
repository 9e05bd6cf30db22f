"""The Debug Adapter Protocol (https://microsoft.github.io/debug-adapter-protocol): an editor's session, on a pair of streams.

The warps of the chosen CTA are the protocol's threads, numbered from 1. A frame is a call, at a line of the PTX; the source lines that it
comes from are separate frames, listed first if the client steps by source line. The exception filters are faults and the checks.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np

from ptxkit.debugger import expressions, values, wire
from ptxkit.debugger.controller import Breakpoint, Plan, Stop
from ptxkit.debugger.program import Statement, shown
from ptxkit.debugger.session import Session
from ptxkit.debugger.state import Call, State
from ptxkit.debugger.values import NoValue, Value, line_of
from ptxkit.demangling import base, readable
from ptxkit.frozen import frozen
from ptxkit.machine.monitors import CHECKS
from ptxkit.origins import frames

Arguments = Mapping[str, Any]
MOST_BYTES = 1 << 20
"""Maximum bytes of memory in one read."""
MOST_ELEMENTS = 1 << 14
"""Maximum number of elements in one response."""

CAPABILITIES: dict[str, Any] = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsStepBack": True,
    "supportsSteppingGranularity": True,
    "supportsReadMemoryRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsRestartRequest": True,
    "supportsTerminateRequest": True,
    "exceptionBreakpointFilters": [
        {"filter": "faults", "label": "Faults", "description": "Bad addresses, deadlocks, traps: what ends a launch", "default": True},
        *[{"filter": one, "label": f"Check: {one}", "description": f"What `run --check {one}` finds", "default": False} for one in CHECKS],
    ],
}


class Refused(Exception):
    """A request that cannot be fulfilled, with the reason."""


@frozen(eq=False)
class _Frame:
    warp: int
    call: Call


class Adapter:
    """Serves one client until it disconnects. `open_` creates a session from the arguments of `launch`, or raises `Refused`."""

    def __init__(self, source: IO[bytes], sink: IO[bytes], open_: Callable[[Arguments], Session]) -> None:
        self._source = source
        self._writer = wire.Writer(sink)
        self._open = open_
        self._session: Session | None = None
        self._by_line: dict[str, list[Breakpoint]] = {}
        self._by_name: list[Breakpoint] = []
        self._count = 0
        self._handles: list[Any] = []
        self._stop: Stop | None = None
        self._by_source = False
        self._stops_on_entry = False
        self._checks: frozenset[str] = frozenset()
        self._filters: frozenset[str] = frozenset(("faults",))
        self._is_going_back = False
        self._is_over = False

    # --- messages

    def serve(self) -> int:
        """Answers requests until the client disconnects; returns the exit code: 1 after a fault or a finding, 2 for a protocol error."""
        code = 0
        try:
            while not self._is_over and (message := wire.read(self._source)) is not None:
                self._answer(message)
        except wire.BadMessage as why:
            self._event("output", category="stderr", output=f"ptxkit: {why}\n")
            code = 2
        if self._session is not None:
            code = code or int(self._session.problems > 0)
            self._session.end()
        return code

    def _answer(self, message: dict[str, Any]) -> None:
        if message.get("type") != "request":
            return
        command = str(message.get("command", ""))
        reply: dict[str, Any] = {"type": "response", "request_seq": message.get("seq", 0), "command": command}
        handler = _HANDLERS.get(command)
        arguments = message.get("arguments")
        try:
            if handler is None:
                raise Refused(f"`{command}` is not served")
            body, after = handler(self, arguments if isinstance(arguments, dict) else {})
        except (Refused, NoValue) as why:
            self._refuse(reply, str(why))
            return
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self._refuse(reply, f"the arguments of `{command}` are not as the protocol has them: {type(error).__name__}: {error}")
            return
        self._writer.send({**reply, "success": True, "body": body})
        if after is not None:
            after()

    def _refuse(self, reply: dict[str, Any], why: str) -> None:
        escaped = why.replace("{", "(").replace("}", ")")
        self._writer.send({**reply, "success": False, "message": why, "body": {"error": {"id": 1, "format": escaped, "showUser": True}}})

    def _event(self, name: str, **body: Any) -> None:
        self._writer.send({"type": "event", "event": name, "body": body})

    # --- the session

    @property
    def session(self) -> Session:
        if self._session is None:
            raise Refused("nothing is launched")
        return self._session

    @property
    def _stopped(self) -> State:
        if self._session is None or not self._session.is_stopped:
            raise Refused("the launch is running")
        return self._session.state

    def initialize(self, arguments: Arguments) -> Any:
        return CAPABILITIES, None

    def launch(self, arguments: Arguments) -> Any:
        if self._session is not None:
            raise Refused("there is a launch already")
        self._session = self._open(arguments)
        self._checks = frozenset(self._session.checks)
        self._by_source = arguments.get("steps") == "source"
        self._stops_on_entry = bool(arguments.get("stopOnEntry"))
        return {}, lambda: self._event("initialized")

    def configuration_done(self, arguments: Arguments) -> Any:
        session = self.session
        session.checks = tuple(sorted(self._checks | self._filters & frozenset(CHECKS)))
        threading.Thread(target=self._forward, args=(session,), daemon=True, name="stops").start()
        return {}, self._start

    def _start(self) -> None:
        self.session.start(None if self._stops_on_entry else Plan())

    def restart(self, arguments: Arguments) -> Any:
        self.session.checks = tuple(sorted(self._checks | self._filters & frozenset(CHECKS)))
        return {}, self._start

    def disconnect(self, arguments: Arguments) -> Any:
        self._is_over = True
        return {}, None

    def terminate(self, arguments: Arguments) -> Any:
        return {}, self._terminate

    def _terminate(self) -> None:
        self.session.end()
        self._event("terminated")

    def _forward(self, session: Session) -> None:
        """Reports stops to the client, in a separate thread."""
        while True:
            stop = session.wait()
            self._handles = []
            self._stop = stop
            if stop.reason == "end":
                self._ended(session, stop)
                continue
            reason = {"finding": "exception", "fault": "exception", "goto": "step" if self._is_going_back else "goto"}
            body: dict[str, Any] = {"reason": reason.get(stop.reason, stop.reason), "threadId": stop.warp + 1, "allThreadsStopped": True}
            if stop.text:
                body["description"] = f"Stopped on a {stop.reason}"
                body["text"] = stop.text
            if stop.breakpoint:
                body["hitBreakpointIds"] = [stop.breakpoint]
            self._event("stopped", **body)

    def _ended(self, session: Session, stop: Stop) -> None:
        if session.output:
            self._event("output", category="stdout", output=session.output)
        is_bad = stop.fault is not None or session.problems > 0 or session.could_not_run
        self._event("output", category="stderr" if is_bad else "console", output=f"{stop.text}\n")
        self._event("exited", exitCode=int(is_bad))
        self._event("terminated")

    # --- breakpoints

    def set_breakpoints(self, arguments: Arguments) -> Any:
        path = str(arguments["source"]["path"])
        text = self.session.text
        made, said = [], []
        for wanted in arguments.get("breakpoints", ()):
            line = int(wanted["line"])
            is_own = text.is_own(path)
            found = text.on_line(line) if is_own else text.on_source_line(path, line)
            one, answer = self._breakpoint(found, wanted, "breakpoint")
            if one is not None:
                made.append(one)
                answer["line"] = found[0].line if is_own else _source_line(found[0], line)
            said.append(answer)
        self._by_line[path] = made
        self._breakpoints_changed()
        return {"breakpoints": said}, None

    def set_function_breakpoints(self, arguments: Arguments) -> Any:
        made, said = [], []
        for wanted in arguments["breakpoints"]:
            entry = self.session.text.entry(str(wanted["name"]))
            one, answer = self._breakpoint((entry,) if entry is not None else (), wanted, "function breakpoint")
            made += [one] if one is not None else []
            said.append(answer)
        self._by_name = made
        self._breakpoints_changed()
        return {"breakpoints": said}, None

    def _breakpoint(self, found: tuple[Statement, ...], wanted: Arguments, reason: str) -> tuple[Breakpoint | None, dict[str, Any]]:
        self._count += 1
        if not found:
            return None, {"id": self._count, "verified": False, "message": "no instruction is there"}
        after = str(wanted.get("hitCondition") or "1").lstrip("> =")
        if not after.isdecimal():
            return None, {"id": self._count, "verified": False, "message": f"a hit count is a number, not {after!r}"}
        try:
            condition = expressions.condition(wanted["condition"]) if wanted.get("condition") else None
        except NoValue as why:
            return None, {"id": self._count, "verified": False, "message": str(why)}
        paths = frozenset([one.path for one in found])
        return Breakpoint(paths, condition, int(after), reason, self._count), {"id": self._count, "verified": True}

    def _breakpoints_changed(self) -> None:
        self.session.set_breakpoints([one for some in self._by_line.values() for one in some] + self._by_name)

    def set_exception_breakpoints(self, arguments: Arguments) -> Any:
        self._filters = frozenset([str(name) for name in arguments["filters"]])
        stops = frozenset(("faults",)) & self._filters
        if self._checks or self._filters & frozenset(CHECKS):
            stops |= {"findings"}
        self.session.stop_on(stops)
        return {}, None

    def exception_info(self, arguments: Arguments) -> Any:
        stop = self._stop
        if stop is None or (stop.finding is None and stop.fault is None):
            raise Refused("it has not stopped at a fault or a finding")
        diagnostic = stop.finding.diagnostic if stop.finding is not None else stop.fault.diagnostic  # type: ignore[union-attr]
        prose = self.session.text.prose
        notes = "\n".join([diagnostic.message, *diagnostic.notes, *[f"line {one.span.line}: {one.message}" for one in diagnostic.related]])
        return {
            "exceptionId": diagnostic.rule,
            "description": prose(diagnostic.message),
            "breakMode": "always",
            "details": {"message": prose(notes), "typeName": diagnostic.name},
        }, None

    # --- going on

    def _resume(self, resume: Callable[[], None], body: Any = None) -> Any:
        self._stopped  # noqa: B018 - refuses while it runs
        self._is_going_back = False
        return body or {}, resume

    def continue_(self, arguments: Arguments) -> Any:
        return self._resume(lambda: self.session.resume(Plan()), {"allThreadsContinued": True})

    def next(self, arguments: Arguments) -> Any:
        return self._step("over", arguments)

    def step_in(self, arguments: Arguments) -> Any:
        return self._step("into", arguments)

    def step_out(self, arguments: Arguments) -> Any:
        return self._step("out", arguments)

    def _step(self, how: str, arguments: Arguments) -> Any:
        warp = int(arguments["threadId"]) - 1
        by_source = self._by_source and arguments.get("granularity") != "instruction"
        return self._resume(lambda: self.session.step(how, warp, by_source))

    def step_back(self, arguments: Arguments) -> Any:
        warp = int(arguments["threadId"]) - 1

        def back() -> None:
            self._is_going_back = True
            if not self.session.back(warp):
                self._event("stopped", reason="entry", threadId=warp + 1, allThreadsStopped=True)

        return self._resume(back)

    def reverse_continue(self, arguments: Arguments) -> Any:
        def back() -> None:
            self._is_going_back = True
            self.session.back_to_breakpoint()

        return self._resume(back)

    def pause(self, arguments: Arguments) -> Any:
        return {}, self.session.interrupt

    # --- looking around

    def threads(self, arguments: Arguments) -> Any:
        session = self.session
        if not session.is_stopped or session.is_over:
            return {"threads": [{"id": 1, "name": "warp 0"}]}, None
        state = session.state
        return {"threads": [{"id": warp + 1, "name": f"warp {warp} ({state.threads_of(warp)})"} for warp in state.warps]}, None

    def stack_trace(self, arguments: Arguments) -> Any:
        state = self._stopped
        warp = int(arguments["threadId"]) - 1
        found: list[dict[str, Any]] = []
        parts = state.parts(warp)
        for call in state.calls(parts[0]) if parts else ():
            own = [self._frame(warp, call, state.statement(call.body, call.i))]
            origin = state.statement(call.body, call.i).origin
            inlined = [self._source_frame(warp, call, one) for one in frames(shown(origin))] if origin is not None else []
            found += [*inlined, *own] if self._by_source else [*own, *inlined]
        for part in parts[1:]:
            count = len(part.positions)
            what = {"waits": "waiting", "warp": "waiting for others of the warp"}.get(part.how, "ready")
            for call in state.calls(part)[:1]:
                statement = state.statement(call.body, call.i)
                name = f"{count} thread{'s' if count > 1 else ''} elsewhere, {what}"
                found.append({**self._frame(warp, call, statement), "name": name, "presentationHint": "label"})
        first = int(arguments.get("startFrame") or 0)
        levels = int(arguments.get("levels") or 0) or len(found)
        return {"stackFrames": found[first : first + levels], "totalFrames": len(found)}, None

    def _frame(self, warp: int, call: Call, statement: Statement) -> dict[str, Any]:
        path = self.session.text.path
        source = {"name": Path(path).name, "path": path}
        found = {
            "id": self._handle(_Frame(warp, call)),
            "name": readable(call.body.name),
            "source": source,
            "line": statement.line,
            "column": 1,
        }
        return {**found, "presentationHint": "subtle"} if self._by_source and statement.origin is not None else found

    def _source_frame(self, warp: int, call: Call, origin: Any) -> dict[str, Any]:
        path = self.session.text.source_of(origin)
        name = Path(origin.path).name
        found: dict[str, Any] = {
            "id": self._handle(_Frame(warp, call)),
            "name": f"{base(call.body.name)} ({name}:{origin.line})",
            "line": origin.line,
            "column": max(1, origin.column),
        }
        if path is not None:
            found["source"] = {"name": name, "path": path}
        return found if self._by_source else {**found, "presentationHint": "subtle"}

    def _handle(self, what: Any) -> int:
        self._handles.append(what)
        return len(self._handles)

    def _handled(self, number: int) -> Any:
        if not 1 <= number <= len(self._handles):
            raise Refused("that was of an earlier stop")
        return self._handles[number - 1]

    def scopes(self, arguments: Arguments) -> Any:
        state = self._stopped
        frame: _Frame = self._handled(int(arguments["frameId"]))
        hints = {"Registers": "registers", "Parameters": "arguments"}
        found = []
        for name in values.scopes(state):
            scope: dict[str, Any] = {"name": name, "variablesReference": self._handle((frame.call, name)), "expensive": False}
            if name in hints:
                scope["presentationHint"] = hints[name]
            found.append(scope)
        return {"scopes": found}, None

    def variables(self, arguments: Arguments) -> Any:
        state = self._stopped
        what = self._handled(int(arguments["variablesReference"]))
        first = int(arguments.get("start") or 0)
        count = min(int(arguments.get("count") or 0) or MOST_ELEMENTS, MOST_ELEMENTS)
        call, inner = what
        if isinstance(inner, str):
            found = values.of_scope(state, call, inner)
            return {"variables": [self._variable(call, one) for one in found[first : first + count]]}, None
        if inner.children:
            return {"variables": [self._variable(call, one) for one in inner.children[first : first + count]]}, None
        elements = np.ravel(inner.data)
        if inner.is_by_lane:
            x, y, _ = state.launch.block
            rows = []
            for lane, thread, one in zip(call.lanes.lane.tolist(), call.lanes.thread.tolist(), elements, strict=True):
                index = f"({thread % x},{thread // x % y},{thread // (x * y)})"
                rows.append(Value(f"lane {lane} {index}", one, inner.type))
            return {"variables": [self._variable(call, one) for one in rows[first : first + count]]}, None
        size = elements.dtype.itemsize
        chosen = range(first, min(first + count, len(elements)))
        cells = [Value(f"[{i}]", elements[i], inner.type, address=(inner.address or 0) + i * size, size=size) for i in chosen]
        return {"variables": [self._variable(call, one, inner.name) for one in cells]}, None

    def _variable(self, call: Call, value: Value, of: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {"name": value.name, "value": line_of(value), "variablesReference": 0}
        if value.type:
            found["type"] = value.type
        if value.name[:1] in "%[" or value.address is not None:
            found["evaluateName"] = of + value.name
        has_elements = bool(value.children) or (value.data is not None and not value.is_uniform and not (value.text and value.type == ""))
        if has_elements:
            found["variablesReference"] = self._handle((call, value))
            found["indexedVariables"] = len(value.children) or int(np.size(value.data))
        if value.address is not None:
            found["memoryReference"] = hex(value.address)
        return found

    def evaluate(self, arguments: Arguments) -> Any:
        state = self._stopped
        number = arguments.get("frameId")
        if number is not None:
            call = self._handled(int(number)).call
        else:
            parts = state.parts(self._stop.warp if self._stop is not None else 0)
            if not parts:
                raise Refused("the warp has exited")
            call = state.calls(parts[0])[0]
        found = expressions.evaluate(state, call, str(arguments["expression"]))
        said = self._variable(call, attrs.evolve(found, text="" if found.data is not None else found.text))
        return {"result": said["value"], **{name: said[name] for name in said if name not in ("name", "value", "evaluateName")}}, None

    def read_memory(self, arguments: Arguments) -> Any:
        state = self._stopped
        address = int(str(arguments["memoryReference"]), 0) + int(arguments.get("offset") or 0)
        count = min(int(arguments["count"]), MOST_BYTES)
        if address < 0 or count < 0:
            raise Refused("there is no such address")
        try:
            data = values.read(state, address, count)
        except NoValue:
            return {"address": hex(address), "unreadableBytes": count}, None
        found: dict[str, Any] = {"address": hex(address), "data": base64.b64encode(data).decode()}
        return (found if len(data) == count else {**found, "unreadableBytes": count - len(data)}), None


_HANDLERS: dict[str, Callable[[Adapter, Arguments], tuple[Any, Callable[[], Any] | None]]] = {
    "initialize": Adapter.initialize,
    "launch": Adapter.launch,
    "setBreakpoints": Adapter.set_breakpoints,
    "setFunctionBreakpoints": Adapter.set_function_breakpoints,
    "setExceptionBreakpoints": Adapter.set_exception_breakpoints,
    "configurationDone": Adapter.configuration_done,
    "threads": Adapter.threads,
    "stackTrace": Adapter.stack_trace,
    "scopes": Adapter.scopes,
    "variables": Adapter.variables,
    "evaluate": Adapter.evaluate,
    "readMemory": Adapter.read_memory,
    "exceptionInfo": Adapter.exception_info,
    "continue": Adapter.continue_,
    "next": Adapter.next,
    "stepIn": Adapter.step_in,
    "stepOut": Adapter.step_out,
    "stepBack": Adapter.step_back,
    "reverseContinue": Adapter.reverse_continue,
    "pause": Adapter.pause,
    "restart": Adapter.restart,
    "terminate": Adapter.terminate,
    "disconnect": Adapter.disconnect,
}


def _source_line(statement: Statement, line: int) -> int:
    """The source line of a breakpoint that was requested for `line`."""
    origin = statement.origin
    if origin is None:
        return line
    return min([frame.line for frame in frames(origin) if frame.line >= line], default=line)
