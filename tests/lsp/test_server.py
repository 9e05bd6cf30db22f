"""The server, asked by a client over standard input and output."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import HANG, Client, position
from lsprotocol import types as lsp

from ptxkit.lsp.changes import NONE, Outdated
from ptxkit.lsp.diagnosing import findings as findings_of
from ptxkit.lsp.document import Document
from ptxkit.lsp.protocol import LARGE, Server

URI = "file:///nowhere/kernel.ptx"
TEXT = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    .reg .pred %q;
    .shared .b32 tile;
    mov.u32 %r1, %tid.x;
    setp.gt.u32 %q, %r1, 5; // é 😀
    @%q bra $L_end;
    bar.sync 0;
$L_end:
    st.shared.b32 [tile], %r1;
    ret;
}
"""
DOCUMENT = {"uri": URI}


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A server; a test's parameter, if it has one, is what the server's process executes before."""
    running = Client(str(Path(__file__).resolve().parents[2]), getattr(request, "param", ""))
    yield running
    running.process.kill()


def findings(client: Client) -> list[tuple[str, int]]:
    """Rule and line, from 1, of each finding that is sent next."""
    sent = client.notified("textDocument/publishDiagnostics")
    return [(one["code"], one["range"]["start"]["line"] + 1) for one in sent["diagnostics"]]


def settled(client: Client) -> list[tuple[str, int]]:
    """What all rules find: it is sent after what takes no time."""
    findings(client)
    return findings(client)


def edit(client: Client, version: int, start: dict[str, int], end: dict[str, int], text: str) -> None:
    change = {"range": {"start": start, "end": end}, "text": text}
    client.notify("textDocument/didChange", textDocument={"uri": URI, "version": version}, contentChanges=[change])


def test_a_session(client: Client) -> None:
    capabilities = client.start()
    assert capabilities["hoverProvider"] and capabilities["semanticTokensProvider"]
    client.open(URI, TEXT)
    assert ("C001", 12) in settled(client)

    hover = client.request("textDocument/hover", textDocument=DOCUMENT, position=position(TEXT, "bar.sync"))
    assert "barrier" in hover["contents"]["value"]
    found = client.request("textDocument/definition", textDocument=DOCUMENT, position=position(TEXT, "bra $L", inside=5))
    assert found["range"]["start"] == {"line": 12, "character": 0}
    context = {"includeDeclaration": False}
    found = client.request("textDocument/references", textDocument=DOCUMENT, position=position(TEXT, "%r1"), context=context)
    assert [place["range"]["start"]["line"] for place in found] == [8, 9, 13]
    found = client.request("textDocument/documentHighlight", textDocument=DOCUMENT, position=position(TEXT, "%r1"))
    assert [place["kind"] for place in found] == [3, 2, 2]
    (kernel,) = client.request("textDocument/documentSymbol", textDocument=DOCUMENT)
    assert (kernel["name"], kernel["detail"], [inner["name"] for inner in kernel["children"]]) == ("k", "kernel", ["tile", "$L_end"])
    assert client.request("textDocument/foldingRange", textDocument=DOCUMENT) == [{"startLine": 3, "endLine": 15}]
    full = client.request("textDocument/semanticTokens/full", textDocument=DOCUMENT)["data"]
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    assert client.request("textDocument/semanticTokens/range", textDocument=DOCUMENT, range=whole)["data"] == full
    assert len(full) % 5 == 0 and len(full) > 100

    # a mistake is typed, and found; then it is cured, and the barrier is moved in front of the branch
    end = position(TEXT, "    ret;")
    edit(client, 2, end, end, "    add.f32 %r1, %r1, 1\n")
    assert {rule[0] for rule, _ in settled(client)} >= {"E"}
    edit(client, 3, end, {"line": end["line"] + 1, "character": 0}, "")
    assert ("C001", 12) in settled(client)
    edit(client, 4, position(TEXT, "    bar.sync"), position(TEXT, "$L_end:\n    st"), "")
    assert "C001" not in [rule for rule, _ in settled(client)]
    client.notify("textDocument/didClose", textDocument=DOCUMENT)
    assert findings(client) == []
    client.close()


def test_renaming_and_formatting(client: Client) -> None:
    client.start()
    client.open(URI, TEXT)
    at = position(TEXT, "%q bra")
    found = client.request("textDocument/prepareRename", textDocument=DOCUMENT, position=at)
    assert found["end"]["character"] - found["start"]["character"] == 2
    edits = client.request("textDocument/rename", textDocument=DOCUMENT, position=at, newName="late")["changes"][URI]
    assert sorted(one["range"]["start"]["line"] for one in edits) == [6, 9, 10]
    answer = client.ask("textDocument/rename", textDocument=DOCUMENT, position=at, newName="%r1")
    assert "else" in answer["error"]["message"] or "declared" in answer["error"]["message"]
    options = {"tabSize": 4, "insertSpaces": True}
    (whole,) = client.request("textDocument/formatting", textDocument=DOCUMENT, options=options)
    assert "bar.sync" in whole["newText"] and whole["newText"] != TEXT
    client.close()


def test_positions_count_in_the_client_s_units(client: Client) -> None:
    client.start()
    client.open(URI, TEXT.replace("    ret;", "    ret; /* 😀 */ mov.u32 %r2, %r1;"))
    at = {"line": 14, "character": len("    ret; /* 😀 */ mov.u32 %r") + 1}
    found = client.request("textDocument/hover", textDocument=DOCUMENT, position=at)
    assert "%r2" in found["contents"]["value"]
    assert found["range"]["start"]["character"] == len("    ret; /* 😀 */ mov.u32 ") + 1
    client.close()


def test_quick_fixes_are_those_of_the_findings(client: Client) -> None:
    client.start()
    text = TEXT.replace("    ret;", "    ret; // ptxkit: ignore[R001] nothing to see")
    client.open(URI, text)
    assert "X001" in [rule for rule, _ in settled(client)]
    place = {"start": {"line": 14, "character": 20}, "end": {"line": 14, "character": 20}}
    actions = client.request("textDocument/codeAction", textDocument=DOCUMENT, range=place, context={"diagnostics": []})
    (action,) = [one for one in actions if one["title"].startswith("X001")]
    (change,) = action["edit"]["changes"][URI]
    assert change["newText"] == "" and change["range"]["end"]["line"] == 14
    client.close()


def test_a_repair_is_looked_for_when_it_is_chosen(client: Client) -> None:
    client.start(resolves=True)
    client.open(URI, TEXT.replace("[tile], %r1", "[tile], 7"))
    assert ("C001", 12) in settled(client)
    place = {"start": position(TEXT, "bar.sync"), "end": position(TEXT, "bar.sync")}
    actions = client.request("textDocument/codeAction", textDocument=DOCUMENT, range=place, context={"diagnostics": []})
    (action,) = [one for one in actions if one["title"] == "C001: look for a repair that is proved"]
    assert "edit" not in action

    resolved = client.request("codeAction/resolve", **action)

    changes = resolved["edit"]["changes"][URI]
    assert sorted([change["newText"].strip() for change in changes]) == ["", "bar.sync 0;"]
    client.close()


def test_of_what_is_typed_fast_the_last_is_looked_at(client: Client) -> None:
    client.start()
    client.open(URI, TEXT)
    settled(client)
    at = position(TEXT, "    ret;")
    typed = "    bar.sync 1, 33;\n"
    for version, letter in enumerate(typed, 2):
        edit(client, version, at, at, letter)
        at = {"line": at["line"] + 1, "character": 0} if letter == "\n" else {**at, "character": at["character"] + 1}
    said: list[set[int]] = []
    while len(said) < 2:
        sent = client.notified("textDocument/publishDiagnostics")
        if sent["version"] == 1 + len(typed):
            said.append({one["range"]["start"]["line"] for one in sent["diagnostics"]})
    assert said[0] == {14} and said[1] >= {11, 14}
    client.close()


def test_a_large_text_that_is_not_parsed_yet_is_answered_from_the_one_before() -> None:
    ls = Server()
    large = TEXT + "// more\n" * (LARGE // 8)
    old, new = Document(large), Document(large.replace("    bar.sync 0;", "    // here\n    bar.sync 1;"))
    ls.before[URI] = old
    at, behind, inside = [new.text.index(words) for words in ("setp", "st.shared", "sync 1")]

    assert ls.known(new, URI, at)[:2] == (old, at)
    known, offset, change = ls.known(new, URI, behind)
    assert known is old and old.text.startswith("st.shared", offset) and change.after(offset) == behind
    assert ls.known(new, URI, inside) == (new, inside, NONE)
    assert ls.known(Document(TEXT), URI, 5)[1:] == (5, NONE)
    _ = new.facts
    assert ls.known(new, URI, behind) == (new, behind, NONE)


def test_what_is_not_wanted_any_more_is_not_found_out() -> None:
    document = Document(TEXT)
    asked = []

    def go_on() -> None:
        asked.append(1)
        if len(asked) == 4:
            raise Outdated

    with pytest.raises(Outdated):
        findings_of(document, go_on=go_on)
    asked.clear()
    with pytest.raises(Outdated):
        document.settle(go_on)
    assert not document.is_analysed
    assert "C001" in [one.rule for one in findings_of(document)]


def test_any_text_is_answered(client: Client) -> None:
    client.start()
    for number, text in enumerate(["", "}{", "\x00\x01", ".entry", "é" * 50, "ld.global.", "// only a comment"]):
        document = {"uri": f"{URI}{number}"}
        client.open(document["uri"], text)
        place: Any = {"line": 0, "character": min(len(text), 3)}
        for method in ("hover", "definition", "completion", "documentHighlight", "prepareRename"):
            client.request(f"textDocument/{method}", textDocument=document, position=place)
        for method in ("documentSymbol", "foldingRange", "semanticTokens/full"):
            client.request(f"textDocument/{method}", textDocument=document)
        settled(client)
    client.close()


def test_a_large_file_is_answered_while_it_is_looked_at(client: Client) -> None:
    kernel = TEXT[TEXT.index(".visible") :]
    body = "".join(f"    add.s32 %r{2 + i % 7}, %r{1 + i % 8}, {i};\n" for i in range(12_000))
    text = TEXT.replace("    ret;", body + "    ret;") + "".join(kernel.replace("entry k(", f"entry k{i}(") for i in range(1000))
    assert len(text) > 600_000
    client.start()
    client.open(URI, text)
    client.notified("textDocument/publishDiagnostics")
    middle = position(text, "%r4, %r4, 8003")
    for _ in range(15):
        client.request("textDocument/hover", textDocument=DOCUMENT, position=middle)
    # how fast is a matter of benchmarks/editor.py: here only that nobody waits for the rules to end
    assert client.notifications.empty()
    client.close()


WAITS, COMPUTES = "threading.Event().wait()", "any(False for _ in iter(int, 1))"


def endless(module: str, what: str, work: str) -> str:
    """Lets a function that a module of the server calls never end."""
    return f"import threading\nimport ptxkit.lsp.{module} as module\nmodule.{what} = lambda *given: {work}"


@pytest.mark.parametrize(
    "client", [endless("server", "repaired", WAITS), endless("server", "repaired", COMPUTES)], indirect=True, ids=["waits", "computes"]
)
def test_a_search_for_a_repair_does_not_keep_the_server(client: Client) -> None:
    client.start(resolves=True)
    client.open(URI, TEXT)
    assert ("C001", 12) in settled(client)
    place = {"start": position(TEXT, "bar.sync"), "end": position(TEXT, "bar.sync")}
    actions = client.request("textDocument/codeAction", textDocument=DOCUMENT, range=place, context={"diagnostics": []})
    (action,) = [one for one in actions if one["title"] == "C001: look for a repair that is proved"]
    client.asked("codeAction/resolve", **action)
    client.close()


@pytest.mark.parametrize("client", [endless("protocol", "findings", COMPUTES)], indirect=True, ids=["computes"])
def test_rules_at_work_do_not_keep_the_server(client: Client) -> None:
    client.start()
    client.open(URI, TEXT)
    client.request("textDocument/hover", textDocument=DOCUMENT, position=position(TEXT, "bar.sync"))
    client.close()


@pytest.mark.parametrize("client", [endless("protocol", "findings", WAITS)], indirect=True, ids=["waits"])
def test_an_editor_that_ends_without_a_word_ends_the_server(client: Client) -> None:
    client.start()
    client.open(URI, TEXT)
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(HANG) == 1


COLLECTS = """import gc, sys
import ptxkit.lsp.protocol as module
module.QUIET = 0
analyse, analysed = module.Server._analyse, []
module.Server._analyse = lambda *given: (analyse(*given), analysed.append(given))
gc.collect = lambda *age: age or print("collected after", len(analysed), file=sys.stderr, flush=True)"""


@pytest.mark.parametrize("client", [COLLECTS], indirect=True, ids=["collects"])
def test_garbage_of_old_versions_is_collected_once_there_is_one(client: Client) -> None:
    client.start()
    client.open(URI, TEXT)
    client.notified("workspace/codeLens/refresh")
    here = {"start": position(TEXT, "ret;"), "end": position(TEXT, "ret;")}
    document = {**DOCUMENT, "version": 2}
    client.notify("textDocument/didChange", textDocument=document, contentChanges=[{"range": here, "text": "exit; "}])
    client.notified("workspace/codeLens/refresh")
    assert client.process.stderr is not None
    watchdog = threading.Timer(HANG, client.process.kill)
    watchdog.start()
    said = next((line for line in client.process.stderr if line.startswith(b"collected")), b"nothing")
    watchdog.cancel()

    assert said == b"collected after 2\n"


class Closed:
    """A connection that the editor has closed."""

    def write(self, data: bytes) -> None:
        raise ValueError("write to closed file")

    def close(self) -> None:
        pass


def test_a_message_that_cannot_be_sent_is_not_followed_by_others(caplog: pytest.LogCaptureFixture) -> None:
    ls = Server()
    ls.protocol.set_writer(Closed())
    ls.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, "heard by nobody"))

    assert len(caplog.records) == 1
