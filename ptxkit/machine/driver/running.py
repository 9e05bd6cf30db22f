"""Runs a program with the machine as its GPU, and reports at its end."""

from __future__ import annotations

import argparse
import atexit
import runpy
import sys
from pathlib import Path

from ptxkit.machine.driver import STATE, install
from ptxkit.machine.driver.state import DEFAULT_TARGET
from ptxkit.machine.monitors import CHECKS

USAGE = "python -m ptxkit.machine [--target sm_90a] [--check races,…] [--schedule …] [--seconds N] (program.py | -m module) [arguments]"


def main(arguments: list[str] | None = None) -> None:
    """Runs the program named by the arguments. Exits with 1 if a kernel faulted or a check found something."""
    parser = argparse.ArgumentParser(prog="python -m ptxkit.machine", usage=USAGE, description=__doc__)
    parser.add_argument("--target", default=DEFAULT_TARGET, help="what the GPU is")
    parser.add_argument("--check", default="", help=f"what to watch for: all, {', '.join(CHECKS)}")
    parser.add_argument("--schedule", help="lockstep, late, early, or a number")
    parser.add_argument("--seconds", type=float, help="how long a launch may take")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    checks = tuple(name for name in given.check.split(",") if name)
    unknown = [name for name in checks if name != "all" and name not in CHECKS]
    if unknown:
        parser.error(f"there is no check {unknown[0]!r}; there are all, {', '.join(CHECKS)}")
    schedule = int(given.schedule) if given.schedule and given.schedule.isdecimal() else given.schedule
    try:
        install(given.target, checks, schedule, given.seconds)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    atexit.register(report)
    sys.argv = [given.program, *given.arguments]
    if given.module:
        sys.path.insert(0, "")
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        if not Path(given.program).exists():
            parser.error(f"there is no file {given.program}")
        sys.path.insert(0, str(Path(given.program).resolve().parent))
        runpy.run_path(given.program, run_name="__main__")
    if STATE.faults or STATE.findings:
        sys.exit(1)


def report() -> None:
    """Reports faults and the findings of the checks."""
    for fault in STATE.faults:
        print(fault.diagnostic, file=sys.stderr)
    for finding in STATE.findings:
        print(finding.diagnostic, file=sys.stderr)
    if STATE.absent:
        names = ", ".join(sorted(STATE.absent))
        print(f"functions of the driver that were called and are not here: {names}", file=sys.stderr)
