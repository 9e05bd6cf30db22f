"""Pictures by the programs that there are; without one the tests are skipped, and what happens then is tested."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
import xml.dom.minidom
from itertools import pairwise
from pathlib import Path

import pytest
from programs import HEAD, HOSTILE, TEXTS, kernel, needs_program, structured

from ptxkit.analyses.drawing import CannotDraw, Drawing, draw
from ptxkit.analyses.drawing.render import program, rendered
from ptxkit.syntax import Module, parse

KERNELS = Path(__file__).resolve().parents[3] / "fixtures" / "kernels"


def small() -> Module:
    return kernel("L: add.s32 %r1, %r1, 1;\n @%p1 bra L;\n ret;")


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only `graphviz-pure` is there, not `dot`."""
    found = shutil.which("graphviz-pure") or shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    if found is None:
        pytest.skip("graphviz-pure is not installed")
    (tmp_path / "graphviz-pure").symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program to draw with is there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))


@needs_program
@pytest.mark.parametrize("name", ["reduce", "control_flow", "wgmma_gemm", "cp_async"])
@pytest.mark.parametrize("level", ["blocks", "instructions"])
def test_svg_of_fixtures(name: str, level: str) -> None:
    svg = draw(parse((KERNELS / f"{name}.sm_90a.ptx").read_text()), level=level).svg()

    xml.dom.minidom.parseString(svg)
    assert svg.startswith("<svg")


@needs_program
@pytest.mark.parametrize("name", HOSTILE, ids=["mangled", "10 kB", "digits", "signs"])
def test_svg_with_any_name(name: str) -> None:
    xml.dom.minidom.parseString(draw(kernel(f"{name}1: add.s32 {name}2, %r1, 1;\n bra {name}1;", name)).svg())


@needs_program
@pytest.mark.parametrize("text", TEXTS)
def test_svg_and_page_with_any_text(text: str) -> None:
    named = text.replace('"', "")  # a quote would end the name, and the next one begin a text that goes on over lines
    module = parse(f'{HEAD}.file 1 "{named}"\n.entry k() {{\n.loc 1 3 4\n// {text}\nmov.b32 %r1, {text};\nret; }}', f"{text}.ptx")
    drawing = draw(module)

    xml.dom.minidom.parseString(drawing.svg())
    drawing.html().encode("utf-8")


@needs_program
def test_rows_do_not_overflow() -> None:
    """Each run of text ends inside of its box."""
    document = xml.dom.minidom.parseString(draw(parse((KERNELS / "reduce.sm_90a.ptx").read_text()), ["block_sum_i32"]).svg())
    nodes = [group for group in document.getElementsByTagName("g") if group.getAttribute("class") == "node"]
    for node in nodes:
        points = " ".join([polygon.getAttribute("points") for polygon in node.getElementsByTagName("polygon")])
        right = max(float(point.split(",")[0]) for point in points.split())
        for text in node.getElementsByTagName("text"):
            assert float(text.getAttribute("x")) + float(text.getAttribute("textLength") or 0) <= right + 4

    assert len(nodes) == 12


@needs_program
def test_all_words_of_a_row_stand_on_one_line() -> None:
    """An instruction, the number beside it and the line of its source."""
    module = parse((KERNELS / "reduce.sm_90a.ptx").read_text())
    document = xml.dom.minidom.parseString(draw(module, ["block_sum_i32"], color="liveness").svg())
    nodes = [group for group in document.getElementsByTagName("g") if group.getAttribute("class") == "node"]
    heights = [sorted({float(text.getAttribute("y")) for text in node.getElementsByTagName("text")}) for node in nodes]

    assert len(nodes) == 12 and all(heights)
    assert all(below - above > 8 for found in heights for above, below in pairwise(found))


@needs_program
def test_formats(tmp_path: Path) -> None:
    drawing = draw(small())
    starts = {"svg": b"<svg", "png": b"\x89PNG", "dot": b"digraph", "html": b"<!doctype html>"}
    if "pure" not in program():
        starts["pdf"] = b"%PDF"
    for ending, start in starts.items():
        drawing.save(tmp_path / f"k.{ending}")
        assert (tmp_path / f"k.{ending}").read_bytes().startswith(start)

    assert sorted(path.suffix[1:] for path in tmp_path.iterdir()) == sorted(starts)
    with pytest.raises(ValueError, match="does not end in"):
        drawing.save(tmp_path / "k.bmp")


def _processor_seconds() -> float:
    """Of this process and of the programs that it has run."""
    return sum(os.times()[:4])


@needs_program
@pytest.mark.parametrize("exits", [False, True], ids=["nested", "with exits"])
def test_functions_of_2000_blocks_are_drawn(exits: bool) -> None:
    module = parse(structured(1600, exits=exits))
    start = _processor_seconds()
    drawing = draw(module)
    svg = drawing.svg()

    # it takes seconds; a layout that is no longer simplified takes an hour, and that is what this is about
    assert _processor_seconds() - start < 300
    assert len(drawing.scenes[0].boxes) >= 1900
    assert svg.count('class="node"') >= len(drawing.scenes[0].boxes)


def test_graphviz_pure_draws(pure: None) -> None:
    assert "pure" in program()
    xml.dom.minidom.parseString(draw(small()).svg())
    assert draw(small()).render("png").startswith(b"\x89PNG")
    assert '<g id="f0i0_0" class="row">' in draw(small()).html()
    with pytest.raises(CannotDraw, match="PDF"):
        draw(small()).render("pdf")


def test_without_a_program(none: None) -> None:
    drawing = draw(small())

    with pytest.raises(CannotDraw, match="pip install graphviz-pure"):
        drawing.svg()
    assert drawing.dot.startswith("digraph")
    assert drawing._repr_svg_() is None
    assert "No picture" in drawing._repr_html_()


@needs_program
def test_jupyter() -> None:
    drawing = draw(small())

    assert (drawing._repr_svg_() or "").startswith("<svg")
    assert drawing._repr_html_().startswith("<iframe srcdoc=")


def test_a_program_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\necho out of memory >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CannotDraw, match="`dot` failed: out of memory"):
        draw(small()).svg()


def test_a_function_alone() -> None:
    module = small()

    assert isinstance(draw(module.functions[0]), Drawing)
    assert draw(module.functions[0]).dot == draw(module).dot


def test_letters_beyond_ascii_are_as_wide_as_others(pure: None) -> None:
    svg = rendered('digraph { a [shape=plain, fontname="Courier New", label=<<B>──▸</B> then>] }', "svg").decode()
    before, after = (float(one) for one in re.findall(r'<text [^>]*x="(-?[\d.]+)"', svg))

    assert "──▸" in svg
    assert after - before < 4 * 9
