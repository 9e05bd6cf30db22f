"""Whether the commands in the witness of each error of an executable kind show it again.

    python benchmarks/witnesses.py [--every N] [PATH...]

Each file (without a path the bad ones of ../shared/lint) is linted; of each error that an execution has shown, the two commands are
executed: `ptxkit inputs` writes the launch, `ptxkit run` runs it under all monitors. It is shown again if one of the findings, or the fault
that ends the launch, is of the same family and has a line in common with it. Prints those that are not; exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner
from facts import read

from ptxkit.analyses.linting.linting import lint
from ptxkit.cli import main as ptxkit
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import parse

LINT = Path(__file__).resolve().parents[2] / "shared" / "lint"


def shown_again(one: Diagnostic, folder: Path) -> str:
    """What the commands come to: empty if they show the finding."""
    out = folder / "out.json"
    out.unlink(missing_ok=True)
    said = ""
    for command in (one.witness or {})["replay"]:
        words = [str(folder / word) if word == "launch.toml" else word for word in shlex.split(command)[1:]]
        said = CliRunner().invoke(ptxkit, [*words, *(["--json", str(out)] if words[0] == "run" else [])]).output
    if not out.exists():
        return said.strip()[-200:] or "nothing is written"
    lines = {one.span.line, *[related.span.line for related in one.related]}
    launches = json.loads(out.read_text())["launches"]
    ended = [launch["fault"] for launch in launches if launch.get("fault", {}).get("rule")]
    found = [*ended, *[finding for launch in launches for finding in launch["findings"]]]
    for finding in found:
        others = {finding["line"], *[related["line"] for related in finding.get("related", ())]}
        if (finding["rule"][:1] == one.rule[:1] or finding["name"] == one.name) and lines & others:
            return ""
    return ", ".join([f"{finding['rule']} at {finding['line']}" for finding in found]) or "nothing is found"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("paths", type=Path, nargs="*")
    asked = parser.parse_args()
    paths = asked.paths or sorted(LINT.glob("*.bad.ptx"))
    count = again = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths[:: asked.every]:
            for one in lint(parse(read(path), str(path))):
                if one.severity is Severity.ERROR and "replay" in (one.witness or {}):
                    count += 1
                    why = shown_again(one, Path(folder))
                    again += not why
                    if why:
                        print(f"  {path.name}:{one.span.line}: {one.rule}: {why}", flush=True)
    print(f"{again} of {count} errors are shown again")
    sys.exit(again != count)


if __name__ == "__main__":
    main()
