"""`ptxkit run`."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.cli.profile import _launches, _show, _size
from ptxkit.demangling import readable

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.rewriters.profiling.execution import Execution
    from ptxkit.rewriters.profiling.launch import Launch
    from ptxkit.syntax import Module

FIRST = 8
"""Number of elements of an output that are shown."""

PROGRESS_AFTER = 1.0
"""Seconds until a progress bar appears, on a terminal."""


def _schedule(context: click.Context, parameter: click.Parameter, value: str) -> str | int:
    if value in ("lockstep", "late", "early"):
        return value
    if value.isdecimal():
        return int(value)
    raise click.BadParameter(f"{value!r} is not lockstep, late, early or a number")


def _checks(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    from ptxkit.machine.monitors import CHECKS

    names = tuple([name.strip() for name in value.split(",")])
    for name in names:
        if name != "all" and name not in CHECKS:
            raise click.BadParameter(f"{name!r} is not a check; there are all, {', '.join(CHECKS)}")
    return names


@click.command()
@click.argument("path", metavar="FILE")
@_input.launch_option
@click.option("-k", "--kernel", "kernels", multiple=True, metavar="NAME", help="Only launches of this kernel.")
@click.option(
    "--schedule",
    default="lockstep",
    show_default=True,
    callback=_schedule,
    metavar="WHICH",
    help="lockstep, late, early, or a number as a seed.",
)
@click.option(
    "--check",
    "checks",
    callback=_checks,
    metavar="all|races,…",
    help="What to check while they run: all, or races, addresses, barriers, mbarriers, uninitialized, …",
)
@click.option(
    "--target", type=_input.Target(), metavar="TARGET", help="The GPU to execute as, such as sm_90a; by default, the file's target."
)
@click.option(
    "--budget", default=600.0, show_default=True, metavar="SECONDS", type=click.FloatRange(0, min_open=True), help="Seconds for one launch."
)
@click.option(
    "--first-lines",
    is_flag=True,
    help="Read only the first lines of each matrix that a wgmma or tcgen05 descriptor describes; the rest counts as zeros.",
)
@click.option("--stats", is_flag=True, help="Count what is executed: instructions, divergence, sectors, bank conflicts, bytes, waits.")
@click.option(
    "--top", default=20, show_default=True, metavar="N", type=click.IntRange(0), help="How many rows of a table of --stats are shown."
)
@click.option("--csv", "csv_folder", metavar="FOLDER", help="Write each table of --stats as a .csv file there.")
@click.option("--json", "json_file", metavar="OUT", help="Write everything as JSON.")
def command(
    path: str,
    description: str,
    kernels: tuple[str, ...],
    schedule: str | int,
    checks: tuple[str, ...],
    target: str | None,
    budget: float,
    first_lines: bool,
    stats: bool,
    top: int,
    csv_folder: str | None,
    json_file: str | None,
) -> None:
    """Run kernels of a PTX file on the CPU: no GPU, no driver.

    Prints the outputs of each launch, what it printed, its time, and how many instructions its threads executed. With --check, errors are
    reported as by `ptxkit lint`, with the threads and the bytes involved. FILE may be - for standard input.

    Exit codes: 0 all launches ran to completion, 1 one failed or a check found something, 2 could not run.
    """
    import ptxkit

    try:
        module = ptxkit.parse(files.read(path), path)
    except files.CannotRead as error:
        _input.fail(str(error))
    launches = _launches(description, path, module, kernels)
    from ptxkit.machine import Machine

    target = target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")
    machine = Machine(target)
    try:
        code = machine.load(module)
    except ValueError as error:
        _show(getattr(error, "diagnostics", ()), module.text)
        _input.fail("nothing is run: the file has errors")
    replay = ["ptxkit", "run", path, "--launch", description, "--check", ",".join(checks), "--schedule", str(schedule)]
    replay += ["--first-lines"] if first_lines else []
    records = []
    for number, launch in enumerate(launches):
        counters = _counters() if stats or csv_folder is not None else None
        record = _one(machine, code, module, launch, schedule, budget, checks, first_lines, replay, counters)
        if counters is not None:
            record["stats"] = _counted(counters, number, launch, top if stats else 0, csv_folder)
        records.append(record)
    if json_file is not None:
        document = {"version": 1, "path": path, "target": target, "schedule": schedule, "checks": list(checks), "launches": records}
        try:
            files.write(json_file, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            _input.fail(f"{json_file}: {error.strerror or error}")
    sys.exit(0 if all(record["outcome"] == "ended" and not _is_bad(record) for record in records) else 1)


def _is_bad(record: dict[str, Any]) -> bool:
    return any(finding["severity"] != "info" for finding in record["findings"])


def _one(
    machine: Any,
    code: Any,
    module: Module,
    launch: Launch,
    schedule: str | int,
    budget: float,
    checks: tuple[str, ...],
    first_lines: bool,
    replay: list[str],
    counters: Any = None,
) -> dict[str, Any]:
    """Runs a launch, prints the results, and returns its record."""
    from ptxkit.machine import Fault
    from ptxkit.machine.monitors import monitors_of, not_covered
    from ptxkit.machine.monitors.first_lines import FirstLines
    from ptxkit.rewriters.profiling.array_files import BadFile
    from ptxkit.rewriters.profiling.execution import execute

    monitors = monitors_of(checks) if checks else ()
    watching = (*monitors, *([FirstLines()] if first_lines else []), *([counters] if counters is not None else []))
    record: dict[str, Any] = {"kernel": launch.kernel, "grid": list(launch.grid), "block": list(launch.block)}
    with _Progress(launch) as progress:
        try:
            found = execute(machine, code, launch, schedule=schedule, budget=budget, monitors=watching, progress=progress)
        except Fault as fault:
            failure: Fault | None = fault
        except (OSError, BadFile, TypeError, ValueError) as error:
            _input.fail(f"{readable(launch.kernel)}: {error}")
        else:
            failure = None
    if failure is not None:
        click.echo(f"{readable(launch.kernel)} <<<{_size(launch.grid)}, {_size(launch.block)}>>> {failure.kind}")
        findings = _reported(module, failure.findings, launch, replay)
        if not any(finding.diagnostic.span == failure.diagnostic.span for finding in failure.findings):
            _show([failure.diagnostic], module.text)
        _left_out(monitors)
        return {
            **record,
            "outcome": "fault",
            "fault": failure.diagnostic.as_json(),
            "findings": [finding.as_json() for finding in findings],
            "not_covered": not_covered(monitors),
        }
    _print(found)
    findings = _reported(module, found.findings, launch, replay)
    _left_out(monitors)
    outputs = [{"argument": i, "type": _type(launch, i), "values": _numbers(launch, i, data)} for i, data in found.outputs.items()]
    return {
        **record,
        "outcome": "ended",
        "instructions": found.instructions,
        "seconds": found.seconds,
        "printed": found.printed,
        "outputs": outputs,
        "findings": [finding.as_json() for finding in findings],
        "not_covered": not_covered(monitors),
    }


def _counters() -> Any:
    from ptxkit.machine.monitors.counters import Counters

    return Counters()


def _counted(counters: Any, number: int, launch: Launch, top: int, csv_folder: str | None) -> dict[str, Any]:
    """Prints and writes the counts; returns them for the record."""
    from ptxkit.cli import _counting

    counted: dict[str, Any] = counters.tables
    tables = _counting.tables_of(counted)
    if top:
        _counting.show(tables, top)
    if csv_folder is not None:
        try:
            _counting.write(csv_folder, number, launch.kernel, tables)
        except OSError as error:
            _input.fail(f"{error.filename or csv_folder}: {error.strerror or error}")
    return counted


def _reported(module: Module, findings: tuple[Finding, ...], launch: Launch, replay: list[str]) -> list[Finding]:
    """Prints findings and their witnesses; returns them with source lines and the command that reproduces them."""
    from ptxkit.cli._witnesses import located, spoken, with_replay

    command = shlex.join([*replay, "--kernel", launch.kernel])
    found = [with_replay(finding, command) for finding in located(module, findings)]
    for finding in found:
        _show([finding.diagnostic], module.text)
        for line in spoken(finding.witness):
            click.echo(f"  {line}", err=True)
    return found


def _left_out(monitors: tuple[Any, ...]) -> None:
    from ptxkit.machine.monitors import not_covered

    for what in not_covered(monitors):
        click.echo(f"ptxkit: not covered: {what}", err=True)


def _print(found: Execution) -> None:
    launch = found.launch
    rate = found.instructions / found.seconds / 1e6 if found.seconds else 0.0
    click.echo(
        f"{readable(launch.kernel)} <<<{_size(launch.grid)}, {_size(launch.block)}>>> "
        f"{found.instructions:,} instructions, {found.seconds:.3f} s ({rate:.1f} M/s)"
    )
    for i, data in found.outputs.items():
        numbers = _numbers(launch, i, data[: FIRST * 8])[:FIRST]
        shown = " ".join([f"{number:.7g}" if isinstance(number, float) else str(number) for number in numbers])
        argument = launch.arguments[i]
        more = " …" if getattr(argument, "count", 0) > FIRST else ""
        click.echo(f"  argument {i} ({getattr(argument, 'count', 0)} x {_type(launch, i)}): {shown}{more}")
    if found.printed:
        click.echo(found.printed, nl=not found.printed.endswith("\n"))


def _type(launch: Launch, argument: int) -> str:
    return str(getattr(launch.arguments[argument], "type", ""))


def _numbers(launch: Launch, argument: int, data: bytes) -> list[int | float]:
    from ptxkit.rewriters.profiling.elements import SIZES, unpacked

    kind = _type(launch, argument)
    size = SIZES[kind]
    return list(unpacked(kind, data[: len(data) // size * size]))


class _Progress:
    """A progress bar on standard error, for launches of more than a second on a terminal."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._bar: Any = None
        self._task: Any = None
        self._started = 0.0

    def __enter__(self) -> Any:
        import time

        self._started = time.perf_counter()
        return self._advance if sys.stderr.isatty() else None

    def _advance(self, scheduler: Any) -> None:
        import time

        if time.perf_counter() - self._started < PROGRESS_AFTER:
            return
        one = scheduler.launch
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._launch.kernel, total=one.ctas)
        residents = scheduler.residents
        done = one.next_cta - residents.ctas * residents.alive_count // max(1, residents.count)
        self._bar.update(self._task, completed=done)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
