"""A session over the Debug Adapter Protocol, by a client in another process."""

from __future__ import annotations

import base64
import io
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from debug_client import HANG, Client  # noqa: E402
from debugged import LAUNCH, RACE, SUMS, line_of, written  # noqa: E402

import ptxkit  # noqa: E402
from ptxkit.debugger.adapter import Adapter  # noqa: E402
from ptxkit.debugger.program import Text  # noqa: E402
from ptxkit.debugger.session import Session  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LOOP, SETP, STORE, BARRIER = (line_of(SUMS, one) for one in ("add.u32 %r4", "setp.lt.u32 %p1", "st.shared", "bar.sync"))
CALL, FUNCTION, AFTER = line_of(SUMS, "call"), line_of(SUMS, "ld.param.u32 %x1"), line_of(SUMS, "ld.param.b32 %r4")


def test_a_session_of_an_editor(client: Client, sums: tuple[str, str]) -> None:
    """Two warps, a breakpoint in a loop, steps in both directions; what is shown is what the kernel computes."""
    ptx, launch = sums
    said = client.begin({ptx: [SETP]}, program=ptx, launch=launch, stopOnEntry=True)
    assert [(one["verified"], one["line"]) for one in said] == [(True, SETP)]
    assert client.stopped()["reason"] == "entry"
    names = [one["name"] for one in client.request("threads")["threads"]]
    assert names == ["warp 0 (threads 0 to 31)", "warp 1 (threads 32 to 63)"]

    for iteration in range(1, 4):
        client.request("continue", threadId=1)
        stop = client.stopped()
        assert (stop["reason"], stop["hitBreakpointIds"]) == ("breakpoint", [said[0]["id"]])
        for warp in (0, 1):
            frame = client.top(warp + 1)
            assert (frame["line"], frame["name"], frame["source"]["path"]) == (SETP, "k", ptx)
            own = client.variables(frame["id"], "Registers")
            assert own["%r3"]["value"] == str(iteration)
            assert client.elements(own["%r4"]) == [str(iteration * (warp * 32 + lane)) for lane in range(32)]

    # back, within the loop: %r3 is not yet counted up
    client.request("stepBack", threadId=2)
    assert client.stopped()["reason"] == "step"
    frame = client.top(2)
    assert frame["line"] == SETP - 1
    assert client.request("evaluate", expression="%r3", frameId=frame["id"])["result"] == "2"
    # back to the breakpoint of the iteration before
    client.request("reverseContinue", threadId=2)
    client.stopped()
    frame = client.top(1)
    assert frame["line"] == SETP
    assert client.request("evaluate", expression="%r3 * 100 + %r4@5", frameId=frame["id"])["result"] == "210"
    client.request("setBreakpoints", source={"path": ptx}, breakpoints=[{"line": BARRIER}])
    client.request("continue", threadId=1)
    client.stopped()
    frame = client.top(1)
    shared = client.variables(frame["id"], "Shared memory")
    assert client.elements(shared["s"]) == [str(3 * thread) for thread in range(64)]
    assert client.request("evaluate", expression="s[4]", frameId=frame["id"])["result"] == "12"
    assert client.request("evaluate", expression="%tid.x", frameId=frame["id"])["result"].startswith("[0, 1, 2")
    memory = client.request("readMemory", memoryReference=shared["s"]["memoryReference"], offset=8, count=8)
    assert np.frombuffer(base64.b64decode(memory["data"]), np.uint32).tolist() == [6, 9]
    parameters = client.variables(frame["id"], "Parameters")
    assert parameters["n"]["value"] == "3" and "256 bytes of global memory" in parameters["out"]["value"]
    assert client.variables(frame["id"], "Special registers")["%ntid.x"]["value"] == "64"

    # into the function and out of it, with the calls on the stack
    client.request("setBreakpoints", source={"path": ptx}, breakpoints=[{"line": CALL}])
    client.request("continue", threadId=1)
    client.stopped()
    client.request("stepIn", threadId=1)
    assert client.stopped()["reason"] == "step"
    stack = client.request("stackTrace", threadId=1)["stackFrames"]
    assert [(one["name"], one["line"]) for one in stack[:2]] == [("twice", FUNCTION), ("k", CALL)]
    assert [one["presentationHint"] for one in stack[2:]] == ["label"]
    assert stack[2]["name"].startswith("24 threads elsewhere")
    inside = client.variables(stack[0]["id"], "Parameters")
    assert client.elements(inside["a"]) == [str(1000 + 3 * lane) for lane in range(8)]
    outside = client.variables(stack[1]["id"], "Registers")
    assert client.elements(outside["%r4"]) == [str(1000 + 3 * lane) for lane in range(8)]
    client.request("stepOut", threadId=1)
    client.stopped()
    assert client.top(1)["line"] == AFTER
    client.request("next", threadId=1)
    client.stopped()
    assert client.request("evaluate", expression="%r4@2")["result"] == "2012"
    barriers = client.variables(client.top(1)["id"], "Barriers")
    assert barriers["barrier 0"]["value"] == "no thread waits"

    client.request("setBreakpoints", source={"path": ptx}, breakpoints=[])
    client.request("continue", threadId=1)
    assert client.event("exited") == {"exitCode": 0}
    client.event("terminated")
    assert client.count > 20
    assert client.end() == 0


def test_conditions_hit_counts_and_functions(client: Client, sums: tuple[str, str]) -> None:
    ptx, launch = sums
    client.request("initialize", adapterID="ptxkit")
    client.request("launch", program=ptx, launch=launch, cta=[1, 0, 0])
    client.event("initialized")
    wanted = [
        {"line": LOOP, "condition": "%tid.x == 40 && %r3 == 2"},
        {"line": SETP, "hitCondition": "2"},
        {"line": 10_000},
        {"line": LOOP, "condition": "%r3 ="},
    ]
    said = client.request("setBreakpoints", source={"path": ptx}, breakpoints=wanted)["breakpoints"]
    assert [one["verified"] for one in said] == [True, True, False, False]
    said += client.request("setFunctionBreakpoints", breakpoints=[{"name": "twice"}, {"name": "nobody"}])["breakpoints"]
    assert [one["verified"] for one in said[4:]] == [True, False]
    client.request("configurationDone")

    stops = []
    for _ in range(4):
        stop = client.stopped()
        frame = client.top(stop["threadId"])
        stops.append((stop["reason"], frame["line"], client.request("evaluate", expression="%ctaid.x", frameId=frame["id"])["result"]))
        client.request("continue", threadId=1)
    function = line_of(SUMS, "ld.param.u32 %x1")
    assert stops == [
        ("breakpoint", SETP, "1"),
        ("breakpoint", LOOP, "1"),
        ("breakpoint", SETP, "1"),
        ("function breakpoint", function, "1"),
    ]
    client.event("exited")
    client.event("terminated")
    client.end()


def test_it_stops_on_what_a_monitor_finds(client: Client, race: tuple[str, str]) -> None:
    ptx, launch = race
    client.begin(filters=("faults", "races"), program=ptx, launch=launch)
    stop = client.stopped()
    assert stop["reason"] == "exception"
    assert stop["text"].startswith("S003: data race: thread (")
    assert client.top(stop["threadId"])["line"] == line_of(RACE, "ld.shared")
    said = client.request("exceptionInfo", threadId=stop["threadId"])
    assert (said["exceptionId"], said["details"]["typeName"]) == ("S003", "smem-race")
    client.request("continue", threadId=1)
    assert client.event("exited") == {"exitCode": 1}
    client.event("terminated")
    assert client.end() == 1


def test_it_stops_on_faults_where_they_are(client: Client, tmp_path: Path) -> None:
    ptx, launch = written(tmp_path, RACE.replace("ld.shared.u32 %r5, [%r4];", "ld.shared.u32 %r5, [%r4+4096];"))
    client.begin(program=ptx, launch=launch)
    stop = client.stopped()
    assert stop["reason"] == "exception" and "outside of shared memory" in stop["text"]
    frame = client.top(stop["threadId"])
    assert frame["line"] == line_of(RACE, "ld.shared")
    assert client.request("evaluate", expression="%r4", frameId=frame["id"])["result"].startswith("[128, 132")
    client.request("stepBack", threadId=stop["threadId"])
    client.stopped()
    assert client.top(stop["threadId"])["line"] == line_of(RACE, "xor.b32")
    assert client.end() == 1


def test_lines_of_the_source(client: Client, tmp_path: Path) -> None:
    for name in ("neighbour.cu", "neighbour.sm_90a.ptx"):
        shutil.copy(ROOT / "fixtures" / "source" / name, tmp_path / name)
    ptx, source = str(tmp_path / "neighbour.sm_90a.ptx"), str(tmp_path / "neighbour.cu")
    launch = tmp_path / "launch.toml"
    kernel = next(line for line in Path(ptx).read_text().splitlines() if ".entry" in line).split()[-1].rstrip("(")
    array = '{ buffer = "f32", length = 512, fill = "random" }'
    launch.write_text(f'[[kernel]]\nentry = "{kernel}"\ngrid = 2\nblock = 256\nargs = [{array}, {array}]\n', encoding="utf-8")
    assert Text(ptxkit.parse(Path(ptx).read_text(), ptx), ptx).entry("neighbour") is not None
    said = client.begin({source: [7]}, program=ptx, launch=str(launch), steps="source")
    assert said[0]["verified"] and said[0]["line"] == 7
    client.stopped()
    frames = client.request("stackTrace", threadId=1)["stackFrames"]
    assert (frames[0]["source"]["path"], frames[0]["line"]) == (source, 7)
    assert frames[1]["source"]["path"] == ptx
    assert (frames[0]["name"], frames[1]["name"]) == ("neighbour (neighbour.cu:7)", "neighbour<float>")
    client.request("next", threadId=1)
    client.stopped()
    assert client.top(1)["line"] == 8
    client.request("next", threadId=1, granularity="instruction")
    client.stopped()
    assert client.end() == 0


def test_what_cannot_be_done_is_refused_and_the_session_goes_on(client: Client, sums: tuple[str, str]) -> None:
    ptx, launch = sums
    client.request("initialize", adapterID="ptxkit")
    assert "nothing is launched" in client.refused("threads")
    assert "`launch` is missing" in client.refused("launch", program=ptx)
    assert "cannot be launched" in client.refused("launch", program=ptx, launch=launch, kernel="nobody")
    assert "is not a check" in client.refused("launch", program=ptx, launch=launch, check="nothing")
    client.request("launch", program=ptx, launch=launch, stopOnEntry=True)
    client.event("initialized")
    assert "is running" in client.refused("stackTrace", threadId=1)
    client.request("configurationDone")
    client.stopped()
    frame = client.top(1)
    for wrong, why in (
        ("__import__('os')", "means nothing"),
        ("%r77", "nothing that can be shown"),
        ("[0]:u32", "global memory"),
        ("1 +", "lacks"),
    ):
        assert why in client.refused("evaluate", expression=wrong, frameId=frame["id"])
    assert "not as the protocol has them" in client.refused("stackTrace")
    assert "is not served" in client.refused("setVariable")
    assert client.request("readMemory", memoryReference="0x10", count=4)["unreadableBytes"] == 4
    client.request("restart")
    assert client.stopped()["reason"] == "entry"
    assert client.end() == 0


def test_a_step_of_a_thousand_threads(client: Client, tmp_path: Path) -> None:
    """That it can be stepped; how long a step takes is in docs/figures.md."""
    ptx, launch = written(tmp_path, SUMS.replace("s[64]", "s[1024]"))
    Path(launch).write_text(LAUNCH.replace("block = 64", "block = 1024").replace("length = 64", "length = 1024"), encoding="utf-8")
    client.begin(program=ptx, launch=launch, stopOnEntry=True)
    client.stopped()
    assert len(client.request("threads")["threads"]) == 32
    lines = []
    for _ in range(9):
        client.timed("next", threadId=17)
        lines.append(client.top(17)["line"])
    assert lines[4:9] == [LOOP, LOOP + 1, SETP, SETP + 1, LOOP]
    assert client.end() == 0


def test_a_launch_that_never_ends_is_paused_and_ended(client: Client, tmp_path: Path) -> None:
    ptx, launch = written(tmp_path, SUMS.replace("setp.lt.u32 %p1, %r3, %r1;", "setp.ne.u32 %p1, %r3, 0;"))
    client.begin(program=ptx, launch=launch)
    client.request("pause", threadId=1)
    stop = client.stopped()
    assert stop["reason"] == "pause"
    assert client.top(stop["threadId"])["name"] == "k"
    client.request("continue", threadId=1)
    assert client.end() == 0


def test_an_editor_may_come_through_a_port(sums: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "ptxkit", "debug", "--dap", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().split()[-1])
        with socket.create_connection(("127.0.0.1", port), timeout=HANG) as connection, connection.makefile("rwb") as stream:
            for number, name in enumerate(("initialize", "disconnect"), 1):
                body = json.dumps({"seq": number, "type": "request", "command": name}).encode()
                stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                stream.flush()
                length = int(stream.readline().partition(b":")[2])
                stream.readline()
                assert json.loads(stream.read(length))["success"]
        assert process.wait(timeout=HANG) == 0


def refuse(arguments: Any) -> Session:
    raise AssertionError("nothing is launched")


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Length: 2\r\n\r\n[]", b"Content-Length: 3\r\n\r\n{{{"]
)
def test_what_is_no_protocol_ends_it(sent: bytes) -> None:
    said = io.BytesIO()
    assert Adapter(io.BytesIO(sent), said, refuse).serve() == 2
    assert b'"category": "stderr"' in said.getvalue()
