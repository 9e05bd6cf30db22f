"""What the server shows without being asked, and what it knows of the program that a file was compiled from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import Client, position

from ptxkit import formatter
from ptxkit.lsp.document import Document
from ptxkit.lsp.hints import hints
from ptxkit.lsp.hover import hover
from ptxkit.lsp.signature import signatures
from ptxkit.lsp.spans import formatted_part

TEXT = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<9>;
    .reg .pred %q;
    .shared .align 4 .b8 tile[1024];
    .loc 1 2 5
    mov.u32 %r1, %tid.x;
    setp.gt.u32 %q, %r1, 5;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.s32 %r4, %r3, %r2;
    .loc 1 4 9
    @%q bra $L_end;
    bar.sync 0;
$L_end:
    st.shared.b32 [%r4], %r1;
    ret;
}
    .file 1 "k.cu"
"""
SOURCE = "__global__ void k() {\n  int i = threadIdx.x;\n  if (i <= 5)\n    __syncthreads();\n}\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    running = Client(str(Path(__file__).resolve().parents[2]))
    running.start()
    yield running
    running.process.kill()


@pytest.fixture
def uris(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.ptx").write_text(TEXT)
    return (tmp_path / "k.ptx").as_uri(), (tmp_path / "k.cu").as_uri()


def published(client: Client, uri: str) -> list[dict[str, Any]]:
    """What is sent next of a file."""
    while True:
        sent = client.notified("textDocument/publishDiagnostics")
        if sent["uri"] == uri:
            found: list[dict[str, Any]] = sent["diagnostics"]
            return found


def test_findings_stand_in_the_open_source_too(client: Client, uris: tuple[str, str]) -> None:
    ptx, source = uris
    client.open(source, SOURCE)
    assert published(client, source) == []
    client.open(ptx, TEXT)
    (found,) = published(client, source)

    assert found["code"] == "C001"
    assert found["range"] == {"start": {"line": 3, "character": 8}, "end": {"line": 3, "character": 20}}
    assert found["relatedInformation"][0]["location"]["uri"] == ptx
    assert found["relatedInformation"][0]["location"]["range"]["start"]["line"] == 15

    # and one jumps between both
    document = {"uri": source}
    there = client.request("textDocument/definition", textDocument=document, position={"line": 3, "character": 4})
    assert [(place["uri"], place["range"]["start"]["line"]) for place in there] == [(ptx, 13)]
    back = client.request("textDocument/definition", textDocument={"uri": ptx}, position=position(TEXT, "bar.sync"))
    assert (back["uri"], back["range"]["start"]["line"]) == (source, 3)

    client.notify("textDocument/didClose", textDocument={"uri": ptx})
    assert published(client, source) == []
    client.close()


def test_a_source_that_is_opened_later_has_its_findings(client: Client, uris: tuple[str, str]) -> None:
    ptx, source = uris
    client.open(ptx, TEXT)
    published(client, ptx)
    assert published(client, ptx)
    client.open(source, SOURCE)

    assert [one["code"] for one in published(client, source)] == ["C001"]
    for method in ("documentSymbol", "foldingRange", "semanticTokens/full", "codeLens", "documentLink"):
        assert client.request(f"textDocument/{method}", textDocument={"uri": source}) in ([], {"data": []})
    at = {"textDocument": {"uri": source}, "position": {"line": 1, "character": 2}}
    assert client.request("textDocument/completion", **at)["items"] == []
    assert client.request("textDocument/hover", **at) is None
    client.close()


def test_ignore_here_and_explain(client: Client, uris: tuple[str, str]) -> None:
    ptx, _ = uris
    client.open(ptx, TEXT)
    published(client, ptx)
    assert "C001" in [one["code"] for one in published(client, ptx)]
    at = position(TEXT, "bar.sync")
    actions = client.request(
        "textDocument/codeAction", textDocument={"uri": ptx}, range={"start": at, "end": at}, context={"diagnostics": []}
    )

    ignoring = next(one for one in actions if one["title"] == "Ignore C001 here")
    (change,) = ignoring["edit"]["changes"][ptx]
    assert change["newText"] == "    // ptxkit: ignore[C001] say why\n"
    explaining = next(one for one in actions if one["title"] == "Explain C001")["command"]
    assert "C001" in client.request("workspace/executeCommand", command=explaining["command"], arguments=explaining["arguments"])
    assert client.request("workspace/executeCommand", command=explaining["command"], arguments=["nowhere"]) is None

    changed = {"range": change["range"], "text": change["newText"]}
    client.notify("textDocument/didChange", textDocument={"uri": ptx, "version": 2}, contentChanges=[changed])
    published(client, ptx)
    assert "C001" not in [one["code"] for one in published(client, ptx)]
    client.close()


def test_lenses_symbols_links_and_ranges(client: Client, uris: tuple[str, str]) -> None:
    ptx, source = uris
    client.open(ptx, TEXT)
    published(client, ptx)
    published(client, ptx)
    document = {"uri": ptx}
    # they are there a moment after the findings
    client.notified("workspace/codeLens/refresh")
    (lens,) = client.request("textDocument/codeLens", textDocument=document)
    assert re.fullmatch(
        r"at most 3 registers of 32 bits live · 1,024 bytes of shared memory · needs sm_\d+, PTX \d\.\d", lens["command"]["title"]
    )
    assert [one["name"] for one in client.request("workspace/symbol", query="K")] == ["k"]
    assert client.request("workspace/symbol", query="other") == []
    links = client.request("textDocument/documentLink", textDocument=document)
    assert [one["target"] for one in links] == [f"{source}#L1", f"{source}#L2", f"{source}#L4"]
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    found = client.request("textDocument/inlayHint", textDocument=document, range=whole)
    assert {one["position"]["line"] for one in found} >= {8, 14}
    at = position(TEXT, "%r4, %r3", inside=6)
    said = client.request("textDocument/signatureHelp", textDocument=document, position=at)
    assert said["activeParameter"] == 1 and said["signatures"][0]["label"].startswith("add")
    options = {"tabSize": 4, "insertSpaces": True}
    edits = client.request("textDocument/rangeFormatting", textDocument=document, options=options, range=whole)
    assert len(edits) <= 1
    client.close()


def test_hints_say_what_is_known() -> None:
    found = dict(hints(Document(TEXT), 0, len(TEXT)))
    lines = {TEXT[:at].rpartition("\n")[2].strip(): said for at, said in found.items()}

    assert lines["mov.u32 %r1, %tid.x;"] == "0 registers live"
    assert lines["@%q bra $L_end;"] == "divergent"
    assert "tile" in lines["st.shared.b32 [%r4], %r1;"] and "registers live" in lines["st.shared.b32 [%r4], %r1;"]
    assert "setp.gt.u32 %q, %r1, 5;" not in lines
    assert len(hints(Document(TEXT), 0, TEXT.index("setp"))) == 1


@pytest.mark.parametrize(
    ("typed", "label", "operand", "at"),
    [
        ("    add.s32 %r1, ", "add", "a", 1),
        ("L: @%p st.shared.v2.f32 [%r1], {%f1, ", "st", "b", 1),
        ("    ret; cp.async.ca.shared.global [%r1], [%r2], ", "cp.async", "n", 2),
    ],
)
def test_signatures(typed: str, label: str, operand: str, at: int) -> None:
    found = signatures(Document(typed), len(typed))

    assert found is not None and found[1] == at
    start, end = found[0][0].operands[at]
    assert found[0][0].syntax.startswith(label)
    assert found[0][0].syntax[start:end] == operand


@pytest.mark.parametrize("typed", ["", "add.s32", "nothing %r1,", ".reg .b32 ", "// add.s32 %r1, "])
def test_no_signature(typed: str) -> None:
    assert signatures(Document(typed), len(typed)) is None


def test_a_range_is_formatted_alone() -> None:
    old = ".version 8.0\n.target   sm_80\n.entry k(){\nadd.s32   %r1,%r2,1;\nsub.s32   %r1,%r2,1;\n}\n"
    new = formatter.format_module(Document(old).module)
    at = old.index("add")
    found = formatted_part(old, new, at + 3, at + 5)

    assert found is not None
    start, end, text = found
    assert old[start:end] == "add.s32   %r1,%r2,1;"
    assert text in new.split("\n") and text.strip().startswith("add.s32")
    assert formatted_part(new, new, 0, len(new)) is None
    assert formatted_part(old, new + "x", 0, 5) is None


@pytest.mark.parametrize(
    ("words", "inside", "said"),
    [
        ("%tid.x", 1, "%tid"),
        ("%tid.x", 5, "%tid"),
        ("sm_80", 1, "from `.version"),
        (".loc 1 4", 1, "k.cu:4"),
        (".loc 1 4", 7, "k.cu:4"),
        ("k.cu", 1, "Source file 1"),
        (".version", 2, ".version"),
        (".address_size 64", 14, "64"),
        ("1024", 1, "0x400"),
        ("bar.sync", 5, "barrier"),
    ],
)
def test_hover_everywhere(words: str, inside: int, said: str) -> None:
    found = hover(Document(TEXT), TEXT.index(words) + inside)

    assert found is not None
    assert said in found[2]


@pytest.mark.parametrize(("text", "value"), [("0f3F800000", "1.0"), ("0d4000000000000000", "2.0"), ("0xFFFFFFFF", "4,294,967,295")])
def test_hover_says_what_a_constant_is(text: str, value: str) -> None:
    line = f".version 8.0 .target sm_80 .address_size 64 .entry k() {{ .reg .b32 %r1; mov.b32 %r1, {text}; }}"
    found = hover(Document(line), line.index(text) + 3)

    assert found is not None and value in found[2]
