"""Execution counts of lines, for pictures: from the output of `run --stats --json`, or from launches run for this purpose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.syntax import Module

Lines = dict[tuple[str, int], int]
"""By function and line of the PTX, the number of threads that have executed it."""

option = click.option(
    "--heat",
    metavar="FILE",
    help="Color by how often each line is executed: FILE describes launches, which are run, or is what `run --stats --json` wrote.",
)


def lines(path: str, module: Module, given: str) -> Lines:
    """The counts of all launches in a file, summed. Reports errors on standard error and exits if there are none."""
    if not given.endswith(".json"):
        return _counted(_run(path, module, given))
    try:
        document = json.loads(Path(given).read_text(encoding="utf-8"))
        return _counted([launch["stats"] for launch in document["launches"]])
    except OSError as error:
        _input.fail(f"{given}: {error.strerror or error}")
    except (ValueError, KeyError, TypeError, RecursionError):
        _input.fail(f"{given} is not what `ptxkit run --stats --json` writes")


def by_instruction(module: Module, counts: Lines) -> dict[str, list[int]]:
    """The counts by function and instruction."""
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.syntax import Index

    index = Index(module)
    return {
        routine.name: [counts.get((routine.name, index.span(routine.where(i)).line), 0) for i in range(len(routine.instructions))]
        for routine in routines(module)
    }


def _counted(all_stats: list[Mapping[str, Any]]) -> Lines:
    found: Counter[tuple[str, int]] = Counter()
    for stats in all_stats:
        for row in stats["lines"]:
            # a line with several instructions has the count of the most executed one
            found[str(row["function"]), int(row["line"])] += int(row["threads"]) // int(row["instructions"])
    return dict(found)


def _run(path: str, module: Module, description: str) -> list[Mapping[str, Any]]:
    """Runs the launches of a file and returns the counts. A fault is reported, and the counts up to it are kept."""
    from ptxkit.cli.profile import _launches, _show
    from ptxkit.machine import Fault, Machine
    from ptxkit.machine.monitors.counters import Counters
    from ptxkit.rewriters.profiling.array_files import BadFile
    from ptxkit.rewriters.profiling.execution import execute

    launches = _launches(description, path, module, ())
    machine = Machine(next((word for word in module.targets if word.startswith("sm_")), "sm_90a"))
    found: list[Mapping[str, Any]] = []
    try:
        code = machine.load(module)
        for launch in launches:
            counters = Counters()
            try:
                execute(machine, code, launch, monitors=(counters,))
            except Fault as fault:
                _show([fault.diagnostic], module.text)
            found.append(counters.tables)
    except (OSError, BadFile, TypeError, ValueError) as error:
        _input.fail(f"{description}: {error}")
    return found
