"""`ptxkit pipeline`: text, JSON, SVG."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.cli.pipeline import command
from tests.analyses.protocols.async_copy.test_copies import kernel


@pytest.fixture
def ring(tmp_path: Path) -> str:
    path = tmp_path / "ring.ptx"
    path.write_text(kernel(), encoding="utf-8")
    return str(path)


class TestPipeline:
    def test_text_has_stages_and_groups(self, ring: str) -> None:
        result = CliRunner().invoke(command, [ring])

        assert result.exit_code == 0
        assert "3 stages at 4096, 0, 2048" in result.output
        assert "2 -> 1 groups" in result.output

    def test_json(self, ring: str) -> None:
        (found,) = json.loads(CliRunner().invoke(command, ["--format", "json", ring]).output)["functions"]

        assert [copy["stages"] for copy in found["copies"]] == [1, 1, 3]
        assert [step["what"] for step in found["iterations"][0]["steps"]] == ["wait", "barrier", "start", "commit", "read"]

    def test_no_svg_without_a_pipelined_loop(self, tmp_path: Path) -> None:
        (tmp_path / "k.ptx").write_text(".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
        result = CliRunner().invoke(command, ["--format", "svg", str(tmp_path / "k.ptx")])

        assert result.exit_code == 2
        assert result.output.endswith("k.ptx: there is no pipelined loop to draw\n")

    def test_svg_is_well_formed(self, ring: str) -> None:
        output = CliRunner().invoke(command, ["--format", "svg", ring]).output

        assert ElementTree.fromstring(output).tag.endswith("svg")
        assert "LOOP" not in output

    def test_nothing_asynchronous(self, tmp_path: Path) -> None:
        path = tmp_path / "plain.ptx"
        path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n", encoding="utf-8")

        assert CliRunner().invoke(command, [str(path)]).output == "nothing asynchronous\n"

    def test_unreadable_file(self, tmp_path: Path) -> None:
        assert CliRunner().invoke(command, [str(tmp_path / "none.ptx")]).exit_code == 2


KERNELS = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("triton_matmul.sm_90a", ["3 stages at 8192, 0, 4096", "wait for cp.async: 4 -> 2 groups", "wait for wgmma: 1 to 2 -> 1 groups"]),
        ("wgmma_gemm.sm_90a", ["mbarrier full: signalled", "start   wgmma", "wait for wgmma: 1 -> 0 groups"]),
        ("cp_async.sm_80", ["wait for cp.async: 2 -> 1 groups", "one iteration of the loop"]),
        ("tma_1d.sm_90a", ["bulk copy", "sources only"]),
    ],
)
class TestKernelsOfCompilers:
    def test_text(self, name: str, expected: list[str]) -> None:
        output = CliRunner().invoke(command, [str(KERNELS / f"{name}.ptx")]).output

        assert [words for words in expected if words not in output] == []

    def test_svg(self, name: str, expected: list[str]) -> None:
        result = CliRunner().invoke(command, ["--format", "svg", str(KERNELS / f"{name}.ptx")])

        assert result.exit_code == 0
        assert ElementTree.fromstring(result.output).tag.endswith("svg")
