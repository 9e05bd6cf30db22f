"""What commands say has no mangled names: they stand in lines of PTX only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.cli import main
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "fixtures" / "source").glob("*.ptx"))
"""Compiled from C++ with templates and lambdas, without debugging data."""
COMMANDS = (
    "lint --no-run",
    "lint --report-at ptx --no-run",
    "check",
    "requires",
    "stats",
    "divergence",
    "liveness",
    "pipeline",
    "inputs",
    "callgraph",
)
MANGLED = re.compile(r"\b_Z\w+|\b\w+_param_\d+")


def prose(said: str, text: str) -> list[str]:
    """The lines without the PTX in them, and without what machines read: `entry` of a launch file, the nodes of a graph."""
    verbatim = sorted({" ".join(one.body_text.split()) for function in parse(text).functions for one in function.instructions}, key=len)[
        ::-1
    ]
    lines = []
    for line in said.splitlines():
        line = " ".join(re.sub(r'^entry = "[^"]*"|"[^"]*" \[label=|"[^"]*" -> "[^"]*"', "", line.strip()).split())
        for piece in verbatim:
            line = line.replace(piece, "").replace(piece[:57] + "...", "")
        lines.append(line)
    return lines


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_no_command_says_a_mangled_name(path: Path) -> None:
    text = path.read_text()
    found = {}
    for command in COMMANDS:
        said = CliRunner().invoke(main, [*command.split(), str(path)])
        assert said.exit_code in (0, 1), (command, said.output)
        found[command] = [line for line in prose(said.output, text) if MANGLED.search(line)]

    assert len(KERNELS) >= 10
    assert {command: lines for command, lines in found.items() if lines} == {}


def test_kernels_of_inputs_are_named_as_in_the_source() -> None:
    path = next(path for path in KERNELS if path.name.startswith("apply"))
    said = CliRunner().invoke(main, ["inputs", str(path), "-k", "apply"])

    assert said.exit_code == 0
    assert re.search(r'entry = "_Z\w+"  # .*apply', said.output)
