"""Whether the tests of the edit engine notice when it is broken: each fault is planted in the engine, and the tests run on it.

    python benchmarks/planted.py [--only NAME]

Printed is, for each fault, how many tests fail, of those that plant no faults themselves: `TestPlantedFaults` of
`tests/rewriters/test_edits.py` does the same the other way round, there what a planted fault does to a module must be found. A fault that
no test notices is an error.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from ptxkit.rewriters.engine import edits
from ptxkit.rewriters.engine.points import Points

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/rewriters/test_edits.py",)


def _plant(name: str, value: Any, of: Any = edits) -> None:
    setattr(of, name, value)


def _without(**changes: Any) -> None:
    """The points that must not be broken, with some of what is said of them forgotten."""
    real = vars(edits)["points"]
    _plant("points", lambda routine: attrs.evolve(real(routine), **changes))


def _collision() -> None:
    for name in ("_check_names", "_taken"):
        _plant(name, lambda *_: None, of=edits._Batch)


def _carry() -> None:
    _without(carry=frozenset())


def _call() -> None:
    real = vars(edits)["points"]
    _plant("points", lambda routine: attrs.evolve(real(routine), sequence=(-1,) * len(routine.instructions)))


def _loc() -> None:
    _plant("before", lambda children, at: at)


def _pragma() -> None:
    _plant("is_block_pragma", lambda statement: False)


def _points() -> None:
    _plant("points", lambda routine: Points((-1,) * len(routine.instructions), frozenset(), frozenset(), {}, frozenset(), -1))


FAULTS: dict[str, Callable[[], None]] = {
    "name collision in an inner scope": _collision,
    "carry chain cut": _carry,
    "call sequence split": _call,
    ".loc moved": _loc,
    "label between a pragma and its loop": _pragma,
    "no forbidden points at all": _points,
}


def run(fault: str) -> tuple[int, int]:
    """How many tests fail, and how many pass, with a fault planted; an empty name plants none."""
    command = [sys.executable, str(Path(__file__).resolve()), "--plant", fault]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (failed|passed|error)", said)}
    return counts.get("failed", 0) + counts.get("error", 0), counts.get("passed", 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="", help="faults whose name contains this")
    arguments.add_argument("--plant", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.plant is not None:
        import pytest

        if options.plant:
            FAULTS[options.plant]()
        sys.exit(pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-k", "not PlantedFaults", *TESTS]))
    failed, passed = run("")
    print(f"{'no fault':40} {failed:4} of {failed + passed} tests fail")
    wrong = failed > 0
    for fault in FAULTS:
        if options.only in fault:
            failed, passed = run(fault)
            print(f"{fault:40} {failed:4} of {failed + passed} tests fail")
            wrong = wrong or not failed
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
