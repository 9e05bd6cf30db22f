"""The playground, as Node runs it: what the worker of the page runs.

Skipped where its parts were not fetched by docs/playground/build.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "playground"
HERE = ROOT / "docs" / "playground"

DRIVE = """
import { readFile } from "node:fs/promises";
const folder = new URL(process.argv[2]);
const { start } = await import(new URL("engine.js", folder));
const { about, ask } = await start(async (name) => new Uint8Array(await readFile(new URL(name, folder))));
const text = await readFile(process.argv[3], "utf8");
const examined = ask("examine", text);
const drawn = ask("graph", text, examined.functions[0][0], "divergence");
const strange = ask("examine", "// \\u{1F600}\\n.version 8.0\\n.target sm_80\\n.entry k() { bra nowhere; }");
const [formatted, broken] = [text, "{ mov"].map((one) => ask("formatted", one));
process.stdout.write(JSON.stringify({ about, examined, drawn, strange, formatted, broken }));
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None or not (KEPT / "wheels").is_dir():
        pytest.skip("node, or what docs/playground/build.py fetches, is not there")
    if (KEPT / "package.json").read_text() != (HERE / "package.json").read_text():
        pytest.skip("what was fetched is out of date: run docs/playground/build.py again")
    folder = tmp_path_factory.mktemp("playground") / "site"
    built = subprocess.run([sys.executable, str(HERE / "build.py"), "--out", str(folder)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "drive.mjs").write_text(DRIVE)
    kernel = ROOT / "fixtures/tutorials/row_max.sm_90a.ptx"
    command = [node, str(folder / "drive.mjs"), f"{folder.as_uri()}/", str(kernel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_findings_have_lines(answers: dict[str, Any]) -> None:
    (finding,) = answers["examined"]["findings"]

    assert (finding["rule"], finding["line"]) == ("C001", 127)
    assert finding["text"].startswith("row_max: thread 0 executes `bar.sync`")
    assert not answers["about"]["executes"] or finding["severity"] == "error"


def test_needs_and_layout(answers: dict[str, Any]) -> None:
    (needs,) = answers["examined"]["requires"]

    assert needs["needs"] == ["sm_90, .version 8.0"]
    assert ".visible .entry row_max" in answers["formatted"]["text"]
    assert answers["broken"]["reason"]


def test_the_graph_is_drawn_without_programs(answers: dict[str, Any]) -> None:
    assert len(re.findall("<svg", answers["drawn"]["page"])) == 1


def test_locations_count_as_browsers_do(answers: dict[str, Any]) -> None:
    text = "// \U0001f600\n.version 8.0\n.target sm_80\n.entry k() { bra nowhere; }"
    (finding,) = [one for one in answers["strange"]["findings"] if one["rule"] == "E012"]

    assert text.encode("utf-16-le")[2 * finding["from"] : 2 * finding["to"]].decode("utf-16-le") == "nowhere"


def test_every_file_named_is_there() -> None:
    """What needs no Node: the files that build.py copies, and the examples."""
    said = (HERE / "build.py").read_text()
    examples = re.findall(r'"((?:tutorials|kernels|profiling)/[\w.]+\.ptx)"', said)

    assert len(examples) >= 3
    assert all((ROOT / "fixtures" / name).is_file() for name in examples)
    assert all(
        (HERE / name).is_file()
        for name in ("index.html", "page.js", "style.css", "engine.js", "worker.js", "answers.py", "package-lock.json")
    )
