"""`ptxkit lint` beside `ptxas -O3`, file by file and in turn.

    python benchmarks/lint_speed.py [FOLDER] [--least BYTES] [--every N] [--no-run] [--budget SECONDS] [--record FILE] [--slowest N]
    python benchmarks/lint_speed.py [FOLDER] [--least BYTES] [--every N] --families C,B A,W,T,P,F M,G,S

Timed is time of the processor: of parsing a file and applying the default rules, in a process forked for it that has everything imported,
and of ptxas for the first target of the file. Files that this ptxas refuses are left out. With `--no-run` nothing is executed. `--record`
keeps a line of JSON a file and goes on where the last run was stopped; `--budget` stops after that many seconds. With `--families`, the
time of the rules of these families, with all analyses that they need, over that of parsing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ptxkit import files
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.linting.linting import lint
from ptxkit.memo import collector_paused
from ptxkit.syntax import parse
from ptxkit.syntax.grammar import grammar

HERE = Path(__file__).resolve().parent.parent
WARM = """.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 p) { .reg .b64 %p; ld.param.u64 %p, [p]; st.global.u64 [%p], %p; ret; }
"""
"""A kernel that is executed: so the machine is imported, too."""


def linted(path: str, run: bool) -> float:
    """Seconds that parsing and linting a file take; with `run`, its kernels are executed."""
    text = files.read(path)
    # as the command does
    with collector_paused():
        start = time.process_time()
        lint(parse(text, path), select(), run=run)
        return time.process_time() - start


def over_parse(path: str, families: list[str]) -> float:
    """The time of the rules of some families over that of parsing; the instruction table has been read."""
    text = files.read(path)
    rules = select(families)
    lint(parse(text, path), rules)
    with collector_paused():
        start = time.process_time()
        module = parse(text, path)
        parsed = time.process_time()
        lint(module, rules)
        return (time.process_time() - parsed) / (parsed - start)


def assembled(path: Path) -> float | None:
    """Seconds that ptxas takes; None if it refuses the file."""
    words = parse(files.read(str(path))).targets
    target = next((word for word in words if word.startswith("sm_")), "sm_80")
    number = int("".join(filter(str.isdigit, target)))
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = str(Path(folder) / "out.cubin")
        command = ["ptxas", "-O3", "-arch", target if number >= 75 else "sm_75", "-c", str(path), "-o", output]
        done = subprocess.run(command, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    parser.add_argument("--least", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--slowest", type=int, default=5)
    parser.add_argument("--families", nargs="+", default=[])
    parser.add_argument("--no-run", action="store_true")
    arguments = parser.parse_args()
    grammar()
    lint(parse(WARM), select())
    paths = sorted(path for path in arguments.folder.rglob("*.ptx") if path.stat().st_size >= arguments.least)[:: arguments.every]
    for families in arguments.families:
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            ratios = pool.starmap(over_parse, [(str(path), families.split(",")) for path in paths], 1)
        print(f"{families} over parsing, {len(paths)} files: median {statistics.median(ratios):.1f}, worst {max(ratios):.1f}")
    if arguments.families:
        return
    if shutil.which("ptxas") is None:
        sys.exit("ptxas is not on PATH")
    lines = arguments.record.read_text().splitlines() if arguments.record and arguments.record.exists() else []
    done: dict[str, dict[str, Any]] = {found["path"]: found for found in map(json.loads, lines)}
    start = time.monotonic()
    for path in paths:
        if str(path) in done or time.monotonic() - start > arguments.budget:
            continue
        with multiprocessing.get_context("fork").Pool(1) as pool:
            own = pool.apply(linted, (str(path), not arguments.no_run))
        found = {"path": str(path), "bytes": path.stat().st_size, "lint": own, "ptxas": assembled(path)}
        done[str(path)] = found
        if arguments.record:
            with arguments.record.open("a") as file:
                file.write(json.dumps(found) + "\n")
    report([done[str(path)] for path in paths if str(path) in done], len(paths), arguments.slowest)


def report(found: list[dict[str, Any]], expected: int, slowest: int) -> None:
    """Prints the figures."""
    timed = sorted([one for one in found if one["ptxas"]], key=lambda one: one["lint"] / one["ptxas"])
    if not timed:
        sys.exit("nothing was timed")
    ratios = [one["lint"] / one["ptxas"] for one in timed]
    print(f"{len(found)} of {expected} files, {len(timed)} of them taken by ptxas")
    print(f"lint over ptxas -O3: median {statistics.median(ratios):.2f}, worst {ratios[-1]:.2f}")
    print(f"altogether: {sum(one['lint'] for one in timed) / sum(one['ptxas'] for one in timed):.2f}")
    for one in timed[: -slowest - 1 : -1]:
        print(f"{one['lint'] / one['ptxas']:8.2f}  lint {one['lint']:.2f} s, ptxas {one['ptxas']:.2f} s  {one['path']}")


if __name__ == "__main__":
    main()
