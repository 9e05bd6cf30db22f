"""`ptxkit profile`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.demangling import readable

if TYPE_CHECKING:
    from ptxkit.rewriters.probing import Instrumented
    from ptxkit.rewriters.profiling.isolation import Profile
    from ptxkit.rewriters.profiling.launch import Launch
    from ptxkit.syntax import Module

WIDTH = 200
"""Line width if the output is not a terminal."""


@click.command()
@click.argument("path", metavar="FILE")
@_input.launch_option
@click.option(
    "-p", "--probe", "probes", multiple=True, required=True, metavar="NAME[:OPTION=VALUE,…]", help="A probe. May be given several times."
)
@click.option("-k", "--kernel", "kernels", multiple=True, metavar="NAME", help="Only launches of this kernel.")
@click.option(
    "--on",
    type=click.Choice(["auto", "gpu", "machine"]),
    default="auto",
    show_default=True,
    help="Where the kernels run: auto is the GPU if there is one, else the CPU, which has no clock.",
)
@click.option(
    "--target",
    type=_input.Target(),
    metavar="TARGET",
    help="The GPU that the CPU stands in for, such as sm_90a; by default, the file's target.",
)
@click.option("--repeat", default=5, show_default=True, metavar="N", type=click.IntRange(0), help="How many times each kernel is timed.")
@click.option(
    "--timeout",
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Seconds for one launch.",
)
@click.option("--rows", metavar="N", type=click.IntRange(1), help="How many records a trace can hold.")
@click.option("--top", default=20, show_default=True, metavar="N", type=click.IntRange(0), help="How many rows of each table are shown.")
@click.option("--csv", "csv_folder", metavar="FOLDER", help="Write each table as a .csv file there.")
@click.option("--json", "json_file", metavar="OUT", help="Write everything as JSON.")
@click.option("--trace", "trace_file", metavar="OUT", help="Write a trace that Perfetto opens.")
def command(
    path: str,
    description: str,
    probes: tuple[str, ...],
    kernels: tuple[str, ...],
    on: str,
    target: str | None,
    repeat: int,
    timeout: float,
    rows: int | None,
    top: int,
    csv_folder: str | None,
    json_file: str | None,
    trace_file: str | None,
) -> None:
    """Run kernels with and without probes; show what they found.

    Each launch runs in its own process. Both versions get the same input, and their outputs are compared. Without a GPU the kernels run on
    the CPU: counts are the same; cycles, times and registers are left out. FILE may be - for standard input.

    Exit codes: 0 all outputs equal, 1 something differs, fails or hangs, 2 could not run.
    """
    module = _input.module(path)
    launches = _launches(description, path, module, kernels)
    made = _instrumented(module, probes)
    for refused in made.manifest.refused:
        where = f"`{refused.function}`" if refused.instruction < 0 else f"line {refused.line} of `{refused.function}`"
        click.echo(f"ptxkit: {probes[refused.probe]} is left out at {where}: {refused.message}", err=True)
    target = target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")
    profiles = _run(module, made, launches, repeat, timeout, rows, (on, target))
    if any(profile.on == "machine" for profile in profiles):
        why = "there is no GPU: the machine ran them" if on == "auto" else "the machine ran them"
        click.echo(f"ptxkit: {why}; it has no clock: cycles, times and registers are left out", err=True)
    for profile in profiles:
        _print(profile, top)
    try:
        _write(profiles, path, probes, csv_folder, json_file, trace_file)
    except OSError as error:
        _input.fail(f"{error.filename or ''}: {error.strerror or error}")
    from ptxkit.rewriters.profiling.isolation import Outcome

    outcomes = {profile.outcome for profile in profiles}
    if Outcome.UNAVAILABLE in outcomes:
        sys.exit(2)
    sys.exit(0 if outcomes <= {Outcome.EQUAL} else 1)


def _launches(description: str, path: str, module: Module, kernels: tuple[str, ...]) -> list[Launch]:
    """The launches of the file's kernels."""
    from ptxkit.rewriters.profiling.description import BadLaunch, read

    try:
        everything = read(description)
    except OSError as error:
        _input.fail(f"{description}: {error.strerror or error}")
    except BadLaunch as bad:
        _show(bad.diagnostics, bad.text)
        _input.fail("nothing is launched")
    names = {function.name for function in module.kernels}
    kernels = tuple(_input.chosen(sorted(names), kernels)) if kernels else ()
    mine = [one for one in everything if one.is_for(path)]
    found = [one for one in mine if one.kernel in names and (not kernels or one.kernel in kernels)]
    missing = sorted({one.kernel for one in mine} - names) if not kernels else sorted(set(kernels) - {one.kernel for one in found})
    if missing:
        if missing[0] not in names:
            _input.fail(f"{path}: {_input.unknown('kernel', missing[0], sorted(names))}")
        _input.fail(f"{description} has no launch of `{missing[0]}`")
    if not found:
        _input.fail(f"{description} has no launch for {path}; its kernels are {', '.join(sorted(names)) or 'none'}")
    return found


def _instrumented(module: Module, probes: tuple[str, ...]) -> Instrumented:
    from ptxkit.rewriters import Refused
    from ptxkit.rewriters.probing import instrument

    try:
        return instrument(module, probes)
    except Refused as refused:
        _show(refused.diagnostics, refused.module.text)
        click.echo("ptxkit: the probes are refused, nothing is launched", err=True)
        sys.exit(1)
    except ValueError as error:
        _input.fail(str(error))


def _run(
    module: Module, made: Instrumented, launches: list[Launch], repeat: int, timeout: float, rows: int | None, where: tuple[str, str]
) -> list[Profile]:
    """Runs every launch; shows progress on standard error, as a bar on a terminal, otherwise as one line per launch."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from ptxkit.rewriters.profiling.isolation import profile

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Profile] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(launches))
        for number, one in enumerate(launches, 1):
            progress.update(bar, description=one.kernel)
            limits = {"repeat": repeat, "timeout": timeout, "rows": rows}
            found.append(profile(module.text, made.text, made.manifest, one, **limits, on=where[0], target=where[1]))  # type: ignore[arg-type]
            progress.advance(bar)
            if not console.is_terminal:
                click.echo(f"ptxkit: {number}/{len(launches)} {one.kernel}: {found[-1].outcome}", err=True)
    return found


def _print(profile: Profile, top: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from ptxkit.rewriters.profiling.isolation import Outcome
    from ptxkit.rewriters.profiling.results import shown

    if profile.outcome is Outcome.UNAVAILABLE:
        click.echo(f"ptxkit: {readable(profile.launch.kernel)}: {profile.detail}", err=True)
        return
    console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    line = Text(readable(profile.launch.kernel), "bold")
    line.append(f" <<<{_size(profile.launch.grid)}, {_size(profile.launch.block)}>>> ", "dim")
    line.append(f"outputs {profile.outcome}" if profile.outcome not in (Outcome.FAILED, Outcome.HUNG) else profile.outcome.value)
    line.stylize("green" if profile.outcome is Outcome.EQUAL else "red", len(line) - len(profile.outcome))
    if profile.on == "machine":
        line.append(" on the machine", "dim")
    if profile.overhead is not None:
        times = (min(profile.seconds) * 1e6, min(profile.seconds_instrumented) * 1e6)
        line.append(f", {times[0]:.1f} µs → {times[1]:.1f} µs ({profile.overhead:.2f}x)")
    if profile.registers is not None and profile.registers_instrumented is not None:
        line.append(f", {profile.registers} → {profile.registers_instrumented} registers")
    console.print(line)
    if profile.detail:
        console.print(Text(f"  {profile.detail}", "red"))
    for table in profile.tables:
        console.print(shown(table, top))
        for note in table.notes:
            console.print(Text(f"note: {note}", "cyan"))
    console.print()


def _size(numbers: tuple[int, int, int]) -> str:
    last = 3 if numbers[2] > 1 else 2 if numbers[1] > 1 else 1
    return "x".join([str(number) for number in numbers[:last]])


def _write(
    profiles: list[Profile], path: str, probes: tuple[str, ...], csv_folder: str | None, json_file: str | None, trace_file: str | None
) -> None:
    from ptxkit.rewriters.profiling import results

    if csv_folder is not None:
        Path(csv_folder).mkdir(parents=True, exist_ok=True)
        for number, profile in enumerate(profiles):
            for table in profile.tables:
                name = re.sub(r"[^\w.$-]", "_", f"{number}.{profile.launch.kernel}.{table.name}")
                files.write(str(Path(csv_folder) / f"{name}.csv"), results.as_csv(table))
    if json_file is not None:
        files.write(json_file, _json(results.document(profiles, path, probes)))
    if trace_file is not None:
        files.write(trace_file, _json(results.trace(profiles)))


def _json(what: dict[str, Any]) -> str:
    return json.dumps(what, indent=1) + "\n"


def _show(diagnostics: Any, text: str) -> None:
    from rich.console import Console

    from ptxkit.report.text import render

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    lines = text.replace("\r\n", "\n").split("\n")
    for diagnostic in diagnostics:
        console.print(render(diagnostic, lines))
