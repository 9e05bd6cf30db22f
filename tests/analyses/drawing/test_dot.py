"""The Graphviz text: its structure, read back, and that no name breaks out of it."""

from __future__ import annotations

import graphlib
import html
import re
from pathlib import Path

import pytest
from programs import HEAD, HOSTILE, TEXTS, kernel, structured

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.drawing import CannotDraw, draw
from ptxkit.analyses.drawing.dot import escape
from ptxkit.analyses.drawing.palette import DARK, LIGHT
from ptxkit.analyses.drawing.scene import Fold, Mark, scene
from ptxkit.analyses.framework.routine import routines
from ptxkit.syntax import parse

KERNELS = Path(__file__).resolve().parents[3] / "fixtures" / "kernels"
NODE = re.compile(r"^\t+(f\d+b\d+) \[label=<(.*)> id=f\d+b\d+\]$")
EDGE = re.compile(r"^\t+(f\d+b\d+) -> (f\d+[bs]\d+) \[(.*)\]$")


def read(dot: str) -> tuple[dict[str, str], list[tuple[str, str, str]], list[str]]:
    """Nodes with their labels, edges with their attributes, and clusters, of a graph whose braces match."""
    nodes, edges, clusters, depth = {}, [], [], 0
    for line in dot.splitlines():
        stripped = line.strip()
        if stripped.endswith("{") and not stripped.endswith("=<{"):
            depth += 1
            clusters += re.findall(r"subgraph (\w+) \{", stripped)
        elif stripped == "}":
            depth -= 1
        elif match := NODE.match(line):
            nodes[match[1]] = match[2]
        elif match := EDGE.match(line):
            ends = (match[2], match[1]) if "dir=back" in match[3] else (match[1], match[2])
            edges.append((*ends, match[3]))
    assert depth == 0
    return nodes, edges, clusters


def words(label: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", label))


@pytest.mark.parametrize("name", ["reduce", "control_flow", "wgmma_gemm", "cp_async", "debug_build", "mma_gemm"])
def test_every_block_edge_and_loop_is_there(name: str) -> None:
    module = parse((KERNELS / f"{name}.sm_90a.ptx").read_text())
    nodes, edges, clusters = read(draw(module).dot)
    found = routines(module)
    several = len(found) > 1

    assert len(nodes) == sum(len(control_flow(routine).blocks) for routine in found)
    assert len(edges) == sum(len(block.edges) for routine in found for block in control_flow(routine).blocks)
    assert len(clusters) == sum(len(loops(routine).loops) for routine in found) + several * len(found)
    assert {source for source, _, _ in edges} | {target for _, target, _ in edges if "b" in target} <= set(nodes)


def test_edges_differ() -> None:
    module = kernel("L: @%p1 bra L;\n @!%p2 bra E;\n mov.b32 %r1, 0;\n bra.uni E;\n E: ret;")
    _, edges, _ = read(draw(module).dot)
    by_ends = {(source, target): attributes for source, target, attributes in edges}

    assert LIGHT["back"] in by_ends["f0b0", "f0b0"] and "penwidth=2.4" in by_ends["f0b0", "f0b0"]
    assert "T back" in by_ends["f0b0", "f0b0"]
    assert LIGHT["not-taken"] in by_ends["f0b0", "f0b1"] and "dashed" in by_ends["f0b0", "f0b1"]
    assert LIGHT["taken"] in by_ends["f0b1", "f0b3"] and "T" in by_ends["f0b1", "f0b3"]
    assert LIGHT["fall"] in by_ends["f0b2", "f0b3"] and "label" not in by_ends["f0b2", "f0b3"]


def test_what_comes_first_is_at_the_top() -> None:
    """Layout gets a graph without cycles, but for a block that goes to itself."""
    module = parse((KERNELS / "wgmma_gemm.sm_90a.ptx").read_text())
    for color, level in (("none", "blocks"), ("none", "instructions")):
        dot = draw(module, color=color, level=level).dot
        below: dict[str, list[str]] = {}
        for match in map(EDGE.match, dot.splitlines()):
            if match and match[1] != match[2]:
                below.setdefault(match[1], []).append(match[2])

        assert tuple(graphlib.TopologicalSorter(below).static_order())


def test_places_of_a_branch_by_index_are_its_label() -> None:
    module = kernel("brx.idx %r1, T;\nT: .branchtargets A, A, B, A;\nA: mov.b32 %r2, 0;\nB: ret;")
    _, edges, _ = read(draw(module).dot)

    assert any("0–1, 3" in attributes for _, _, attributes in edges)


def test_barriers_exits_and_unreachable_blocks_are_marked() -> None:
    module = kernel("bar.sync 0;\n shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;\n ret;\nD: add.s32 %r1, %r1, 1;\n trap;")
    (one,) = draw(module).scenes
    nodes, _, _ = read(draw(module).dot)

    assert [mark for mark, _ in one.notes] == [Mark.BARRIER, Mark.TOGETHER, Mark.EXIT, Mark.NONE, Mark.EXIT]
    assert "whole CTA" in words(nodes["f0b0"]) and "whole warp" in words(nodes["f0b0"]) and "return" in words(nodes["f0b0"])
    assert "unreachable" in words(nodes["f0b1"]) and LIGHT["dead"] in nodes["f0b1"]
    assert LIGHT["opcode"] not in nodes["f0b1"]


def test_tokens_are_coloured_by_what_they_are() -> None:
    nodes, _, _ = read(draw(kernel("L: @%p1 add.s32 %r1, %r2, 17;\n mov.u32 %r1, %tid.x;\n @%p1 bra L;\n ret;")).dot)
    label = nodes["f0b0"]

    expected = {"opcode": "add", "modifier": ".s32", "register": "%r1", "number": "17", "special": "%tid.x", "label": "L"}
    for color, text in expected.items():
        assert f'<FONT COLOR="{LIGHT[color]}">{text}</FONT>' in label


def test_long_blocks_are_folded_with_a_count() -> None:
    body = "\n".join(["add.s32 %r1, %r1, 1;"] * 200)
    module = kernel(f"{body}\nbar.sync 0;\n{body}\nret;")
    (one,) = draw(module).scenes
    (box,) = one.boxes

    assert sum(row.hidden for row in box.rows) + sum(not row.hidden for row in box.rows) == 402
    assert any(row.mark is Mark.BARRIER for row in box.rows)
    assert len(box.rows) < 30
    assert "… 186 more" in words(read(draw(module).dot)[0]["f0b0"])


@pytest.mark.parametrize("length", range(1, 12))
def test_folds_hide_more_than_they_cost(length: int) -> None:
    module = kernel("add.s32 %r1, %r1, 1;\n" * length)
    (box,) = scene(routines(module)[0], fold=Fold(1, 1, 1)).boxes

    assert all(row.hidden != 1 for row in box.rows)
    assert sum(row.hidden or 1 for row in box.rows) == length


def test_source_lines() -> None:
    module = parse((KERNELS / "line_info.sm_90a.ptx").read_text())
    nodes, _, _ = read(draw(module, ["plain"]).dot)

    assert re.search(r"line_info\.cu:\d+", words(" ".join(nodes.values())))


def test_lists_are_shortened() -> None:
    registers = ", ".join(f"%r{i}" for i in range(9))
    nodes, _, _ = read(draw(kernel(f"ld.global.v8.b32 {{{registers}}}, [%r1];\nret;")).dot)

    assert "{%r0, %r1, … 5 more, %r7, %r8}" in words(nodes["f0b0"])


@pytest.mark.parametrize("name", HOSTILE, ids=["mangled", "10 kB", "digits", "signs"])
def test_names_of_any_length(name: str) -> None:
    dot = draw(kernel(f"{name}1: add.s32 {name}2, %r1, 1;\n bra {name}1;", name)).dot
    nodes, edges, _ = read(dot)

    assert set(nodes) == {"f0b0"} and len(edges) == 1
    assert max(map(len, dot.splitlines())) < 5000


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_any_kind(text: str) -> None:
    named = text.replace('"', "")  # a quote would end the name, and the next one begin a text that goes on over lines
    module = parse(f'{HEAD}.file 1 "{named}"\n.entry k() {{ // {text}\n.loc 1 3 4\nmov.b32 %r1, {text};\n// {text}\nret; }}', f"{text}.ptx")
    dot = draw(module).dot
    nodes, _, _ = read(dot)

    dot.encode("utf-8")
    assert nodes
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", dot.replace("\r", ""))


def test_escaping_leaves_no_markup() -> None:
    assert escape('<&>"\\]') == "&lt;&amp;&gt;&quot;&#92;&#93;"
    assert escape("a\x00\ud800é") == "a��é"


def test_colours_are_told_apart() -> None:
    assert len(set(LIGHT.values())) == len(LIGHT)
    assert set(LIGHT) == set(DARK)


def luminance(color: str) -> float:
    """The relative luminance as WCAG defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("word", ["ink", "opcode", "modifier", "register", "special", "number", "label", "symbol", "comment"])
@pytest.mark.parametrize("ground", ["paper", "barrier-row", "together-row", "exit-row"])
def test_letters_are_legible(theme: dict[str, str], word: str, ground: str) -> None:
    """WCAG AA: a contrast of 4.5."""
    dark, light = sorted((luminance(theme[word]), luminance(theme[ground])))

    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("color", ["liveness", "pressure", "loops"])
def test_colourings(color: str) -> None:
    module = parse((KERNELS / "reduce.sm_90a.ptx").read_text())
    drawing = draw(module, color=color)
    nodes, _, _ = read(drawing.dot)
    (peak,) = {one.coloring.peak for one in drawing.scenes if one.coloring}

    assert peak > 0
    assert any(LIGHT["heat-4"] in label for label in nodes.values()) or color == "loops"
    assert str(peak) in words(" ".join(nodes.values()))


def test_a_comment_is_drawn_with_the_instruction_on_its_line() -> None:
    body = """\tmov.u32 %r1, 1; // one
\t// two
\t.loc 1 3 5
\tmov.u32 %r2, 2;\t// three
\tbra L;
\t// four
L:
\tret;"""
    (routine,) = routines(kernel(body))
    rows = ["".join([token.text for token in row.tokens]) for box in scene(routine).boxes for row in box.rows]
    assert rows == ["// one", "mov.u32 %r1, 1", "// two", "// three", "mov.u32 %r2, 2", "bra L", "// four", "ret"]


def test_divergence_has_one_scale() -> None:
    routine = kernel("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; membar.gl; L: membar.gl; ret;")
    (one,) = draw(routine, color="divergence").scenes

    assert one.coloring is not None
    assert (one.coloring.blocks, one.coloring.peak) == ((0, 5, 0), 5)
    assert one.coloring.scale == ((0, "grid, cluster"), (1, "CTA"), (2, "warpgroup"), (3, "warp"), (4, "thread"))


@pytest.mark.parametrize("words", [{"color": "green"}, {"level": "files"}])
def test_unknown_words(words: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="there are"):
        draw(kernel("ret;"), **words)


def test_instructions() -> None:
    module = kernel("L: add.s32 %r1, %r1, 1;\n @%p1 bra L;\n ret;")
    nodes, edges, clusters = read(draw(module, level="instructions").dot)

    assert set(nodes) == {"f0b0", "f0b1", "f0b2"}
    assert {(source, target) for source, target, _ in edges} == {("f0b0", "f0b1"), ("f0b1", "f0b2"), ("f0b1", "f0b0")}
    assert clusters == ["cluster_f0l0"]


def test_nothing_to_draw() -> None:
    with pytest.raises(CannotDraw, match="no function"):
        draw(parse(HEAD))
    with pytest.raises(KeyError):
        draw(kernel("ret;"), ["other"])


def test_far_blocks_are_reached_by_stubs() -> None:
    (one,) = draw(parse(structured(1000, exits=True))).scenes
    nodes, edges, _ = read(draw(parse(structured(1000, exits=True))).dot)
    stubs = [arrow for arrow in one.arrows if arrow.is_stub]

    assert stubs
    assert len(edges) == len(one.arrows)
    assert sum("s" in target for _, target, _ in edges) == len(stubs)
    assert len(nodes) == len(one.boxes)


def test_loops_nest_as_deep_as_they_like() -> None:
    depth = 300
    heads = "".join([f"L{i}: add.s32 %r1, %r1, 1;\n" for i in range(depth)])
    _, _, clusters = read(draw(kernel(heads + "".join([f"@%p1 bra L{i};\n" for i in reversed(range(depth))]))).dot)

    assert len(clusters) == depth
