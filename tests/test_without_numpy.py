"""What needs no execution works where there is no NumPy, as in the playground."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "fixtures" / "tutorials" / "row_max.sm_90a.ptx"
HIDING = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec.__func__
PathFinder.find_spec = classmethod(lambda cls, name, *more: None if name.split(".")[0] == "numpy" else find(cls, name, *more))
from ptxkit.cli import run
run()
"""


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("lint --no-cache", 1, "C001"),
        ("check --no-cache", 0, "no findings"),
        ("requires", 0, "sm_90"),
        ("liveness", 0, "bar.sync"),
        ("divergence", 0, "divergent"),
        ("pipeline", 0, "mbarrier full"),
    ],
)
def test_commands(command: str, code: int, says: str) -> None:
    call = [sys.executable, "-c", HIDING, *command.split(), str(KERNEL)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)

    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done.stderr
