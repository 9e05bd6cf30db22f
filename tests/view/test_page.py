"""The page of `ptxkit view`: its structure and its data, without a browser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ptxkit.cli import main
from ptxkit.syntax import Index, parse
from ptxkit.view import Graphs, page
from ptxkit.view.linking import links
from ptxkit.view.sass import Sass, parsed

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>;
    .loc 1 3 5
    mov.u32 %r1, %tid.x;
    .loc 1 4 9
    .loc 2 7 1, function_name $L__info_string0, inlined_at 1 4 9
L:  add.s32 %r2, %r1, 1;
    .loc 1 3 9
    @%p1 bra L;
    ret;
}
.entry other() { ret; }
    .file 1 "k.cu"
    .file 2 "/usr/local/cuda/include/cuda_pipeline_helpers.h"
"""
SOURCE = "// one\n// two\n__global__ void k() {\n  f();\n}\n"
DISASSEMBLY = """	.section	.text.k,"ax",@progbits
	.align	128
.text.k:
	//## File ".nv_debug_ptx_txt", line 8
        /*0000*/                   S2R R6, SR_TID.X ;
        /*0010*/                   IADD3 R1, R1, 1 ;
.L_x_1:
	//## File ".nv_debug_ptx_txt", line 13
        /*0020*/                   BRA `(.L_x_1) ;
	.section	.nv.info
	.word	0
"""
HOSTILE = '</script><img src=x onerror="alert(1)"><!--'


class Reader(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script":
            self.scripts[-1] += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def written(tmp_path: Path, text: str = PTX, *arguments: str) -> Reader:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.ptx").write_text(text)
    result = CliRunner().invoke(
        main, ["view", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.html"), "--no-sass", "--no-graph", *arguments]
    )
    assert result.exit_code == 0, result.output
    return Reader((tmp_path / "k.html").read_text())


def test_a_line_of_the_source_and_what_it_made_have_one_key(tmp_path: Path) -> None:
    data = written(tmp_path).data

    lines = data["text"].split("\n")
    made = {lines[i].strip(): tuple(data["keys"][key]) for i, key in enumerate(data["keyOf"]) if key >= 0}
    assert made == {
        "mov.u32 %r1, %tid.x;": (0, 3),
        "L:  add.s32 %r2, %r1, 1;": (0, 4),  # the user's own line, not the header's
        "@%p1 bra L;": (0, 3),
        "ret;": (0, 3),
    }
    assert data["files"] == [{"name": "k.cu", "text": SOURCE.rstrip("\n")}]
    assert data["calls"][data["callOf"][10]] == ["/usr/local/cuda/include/cuda_pipeline_helpers.h:7", "k.cu:4"]


def test_findings_are_in_the_page_at_their_lines(tmp_path: Path) -> None:
    data = written(tmp_path).data

    (found,) = [one for one in data["findings"] if "%p1" in one["text"]]
    assert (found["line"], found["source"], found["severity"]) == (13, [0, 3], "error")
    assert found["rule"] in data["why"]
    assert written(tmp_path, PTX, "--no-findings").data["findings"] == []


def test_one_kernel(tmp_path: Path) -> None:
    data = written(tmp_path, PTX, "-k", "other").data

    assert data["spans"] == [[16, 16]]
    assert data["text"] == ".entry other() { ret; }"
    assert [name for name, _, _ in data["functions"]] == ["other"]
    assert data["findings"] == []


def test_nothing_is_loaded_and_all_controls_have_names(tmp_path: Path) -> None:
    found = written(tmp_path)

    assert not [one for one in found.elements if {"src", "href", "action"} & set(one[1])]
    assert not [one for one in found.elements if any(name.startswith("on") for name in one[1])]
    policy = next(of["content"] for tag, of in found.elements if tag == "meta" and "http-equiv" in of)
    assert policy is not None and "default-src 'none'" in policy
    ids = {of["id"] for _, of in found.elements if "id" in of}
    script = found.scripts[1]
    assert {part.split('"')[0] for part in script.split('find("')[1:]} <= ids


@pytest.mark.parametrize("where", [f"// {HOSTILE}\n", f'.file 3 "{HOSTILE}.cu"\n'.replace('"alert(1)"', "alert(1)")])
def test_text_of_the_file_is_never_markup(tmp_path: Path, where: str) -> None:
    found = written(tmp_path, PTX + where)

    assert "img" not in [tag for tag, _ in found.elements]
    assert len(found.scripts) == 2
    assert HOSTILE[:20] in found.data["text"]


def test_a_hostile_name_and_graph() -> None:
    module = parse(PTX.replace("k.cu", HOSTILE.replace('"', "")), f"{HOSTILE}.ptx")
    found = Reader(page(module, graphs=Graphs(f"<p>{HOSTILE}", ("k",))))

    assert "img" not in [tag for tag, _ in found.elements]
    assert found.data["graphs"]["page"].endswith(HOSTILE)


@pytest.mark.parametrize("text", ["", "}{", "\x00\x01 .entry", "\udc80\u2028", "a\r\nb\rc"])
def test_any_text_has_a_page(text: str) -> None:
    data = Reader(page(parse(text))).data

    assert len(data["keyOf"]) == len(data["text"].split("\n")) == text.count("\n") + 1


def test_a_missing_source_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    result = CliRunner().invoke(main, ["view", str(tmp_path / "k.ptx"), "--no-sass", "--no-graph"])

    assert result.output == f"{tmp_path / 'k.html'}\n"
    assert Reader((tmp_path / "k.html").read_text()).data["files"] == [{"name": "k.cu", "text": None}]


def test_machine_code_is_linked_by_the_line_of_the_ptx() -> None:
    sass = parsed(DISASSEMBLY)
    data = Reader(page(parse(PTX), sass=sass)).data

    assert sass.functions == (("k", 0),)
    assert sass.of_line == (0, 8, 8, 0, 13)
    assert data["sass"]["text"].split("\n")[1] == "    /*0000*/  S2R R6, SR_TID.X ;"
    assert [data["keys"][key] if key >= 0 else None for key in data["sass"]["keyOf"]] == [None, [0, 3], [0, 3], None, [0, 3]]


def test_without_loc_a_line_of_the_ptx_is_a_key() -> None:
    text = "".join(line + "\n" for line in PTX.splitlines() if ".loc" not in line and ".file" not in line)
    data = Reader(page(parse(text), sass=Sass(("k:", "    /*0000*/  S2R"), (0, 7), (("k", 0),)))).data

    assert data["keys"] == []
    assert data["keyOf"][6] == data["sass"]["keyOf"][1] == 6
    assert set(data["keyOf"]) == {6, -1}


def test_no_machine_code_is_said_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("ptxkit.revalidation.wheels.find", lambda *patterns: [])
    data = written(tmp_path, PTX, "--sass").data

    assert data["sass"] is None
    assert "no ptxas" in data["noSass"]


def test_links_of_a_function_without_loc() -> None:
    module = parse(PTX)

    assert links(module, Index(module), PTX.split("\n")).of_line[15] == -1


@pytest.mark.parametrize("arguments", [["nowhere.ptx", "-o", "x.html"], ["-"]])
def test_what_cannot_be_shown_is_exit_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["view", *arguments])

    assert result.exit_code == 2
    assert "Traceback" not in result.output
