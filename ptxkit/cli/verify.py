"""`ptxkit verify`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.cli._agreeing import agreed
from ptxkit.cli._launching import CannotLaunch, Options, names_of, of_description, of_options
from ptxkit.demangling import in_prose, readable, short

if TYPE_CHECKING:
    from ptxkit.analyses.execution.launch import Launch
    from ptxkit.analyses.framework.routine import Routine
    from ptxkit.analyses.verify.verdict import Verdict
    from ptxkit.machine.findings import Finding
    from ptxkit.syntax import Module

MOST_LINES = 3
"""How many lines a reason lists."""
CODES = {"verified": 0, "refuted": 1, "undecided": 3}
WORST = ("refuted", "undecided", "verified")
COVERED = {
    "shared": ("of shared memory", "of shared memory"),
    "global": ("of global memory", "of global memory"),
    "barriers": ("wait at a barrier", "waits at barriers"),
    "phases": ("mbarrier phase", "mbarrier phases"),
    "copies": ("operation in flight", "operations in flight"),
    "stood_for": ("CTA that does in shared memory what a watched one does", "CTAs that do in shared memory what a watched one does"),
    "schedules": ("schedule", "schedules"),
    "contents": ("contents of memory", "contents of memory"),
}
"""Descriptions of what was covered."""


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-k", "--kernel", metavar="NAME", help="The kernel, if the file has several.")
@click.option(
    "--launch", "description", metavar="TOML", help="The file that describes the launch (docs/profiling.md), instead of the options below."
)
@click.option("--grid", metavar="X,Y,Z", default="1", show_default=True, help="CTAs of the grid.")
@click.option("--block", metavar="X,Y,Z", help="Threads of a CTA; by default those of `.reqntid`. Needed where there is neither.")
@click.option("--cluster", metavar="X,Y,Z", help="CTAs of a cluster; by default, what the kernel declares, or 1.")
@click.option(
    "--shared", type=click.IntRange(0, 1 << 20), metavar="BYTES", help="Dynamic shared memory; by default, as much as the kernel accesses."
)
@click.option(
    "--param",
    "parameters",
    metavar="NAME=N",
    multiple=True,
    help="A number; NAME+16=N for a member of a structure; *=N for all others. NAME may be a variable of the module, here and below.",
)
@click.option("--array", "arrays", metavar="NAME=TYPE:COUNT[:FILL]", multiple=True, help="An array: a=f32:4096:random, a=i32:9:zeros.")
@click.option(
    "--memory",
    metavar="NAME=N",
    multiple=True,
    help="Integers in the memory that a parameter points to; N:S grows by S; *=N for all others.",
)
@click.option("--assume", "assumptions", metavar="distinct:NAME", multiple=True, help="The words of an array that you do not give differ.")
@click.option("--boxes", metavar="JSON", help="A file with the boxes of tensor maps, by parameter.")
@click.option(
    "--library", "libraries", metavar="FILE", multiple=True, help="Another PTX file, which defines functions that this one calls."
)
@click.option(
    "--check",
    "checks",
    default="all",
    show_default=True,
    metavar="all|races,…",
    help="What to check: all, or some of races, addresses, barriers, …",
)
@click.option(
    "--target", type=_input.Target(), metavar="TARGET", help="The GPU to execute as, such as sm_90a; by default, the file's target."
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Processor time for a launch.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json", "sarif"]), default="text", help="The format of the output.")
def command(
    path: str,
    kernel: str | None,
    description: str | None,
    grid: str,
    block: str | None,
    cluster: str | None,
    shared: int | None,
    parameters: tuple[str, ...],
    arrays: tuple[str, ...],
    memory: tuple[str, ...],
    assumptions: tuple[str, ...],
    boxes: str | None,
    libraries: tuple[str, ...],
    checks: str,
    target: str | None,
    budget: float,
    format_: str,
) -> None:
    """Execute a launch; find races, deadlocks and bad accesses.

    Wrong barriers are found as well. Arguments that you leave out are synthesized. FILE may be - for standard input.

    Exit codes: 0 verified, 1 refuted, 2 could not run, 3 undecided.
    """
    options = Options(block or "", grid, cluster, shared, parameters, arrays, memory, boxes, assumptions)
    if description is not None and options != Options(""):
        raise click.UsageError("--launch describes the whole launch: leave out the options for its shape and its arguments")
    from ptxkit.analyses.verify.verdict import verify
    from ptxkit.machine import Fault, Machine
    from ptxkit.machine.monitors import monitors_of
    from ptxkit.syntax import parse

    read = path
    try:
        names = tuple([name.strip() for name in checks.split(",")])
        monitors_of(names)
        module = parse(files.read(path), path)
        machine = Machine(target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a"))
        for library in libraries:
            read = library
            machine.load(parse(files.read(library), library))
        read = path
        code = machine.load(module)
        chosen = _of_file(module, path, kernel, description) if description is not None else _of_options(module, kernel, options)
        verdicts = []
        for routine, launch in chosen:
            found = verify(code, launch, names_of(module, routine), budget, names)
            _raise_of_launch(found)
            verdicts.append((routine, agreed(module, routine.name, found)))
    except (files.CannotRead, CannotLaunch, OSError, ValueError, TypeError) as error:
        diagnostics = getattr(error, "diagnostics", ())
        where = f"{read}:{diagnostics[0].span.line}:{diagnostics[0].span.column}: {diagnostics[0].message}" if diagnostics else str(error)
        click.echo(f"ptxkit: {where}", err=True)
        sys.exit(2)
    except Fault as fault:
        click.echo(f"ptxkit: {fault.reason}", err=True)
        sys.exit(2)
    replay = _replay(path, description, checks)
    reports = [_report(module, routine, verdict, replay) for routine, verdict in verdicts]
    if format_ == "json":
        click.echo(json.dumps(reports[0] if len(reports) == 1 else reports, indent=1))
    elif format_ == "sarif":
        click.echo(json.dumps(_sarif(module, verdicts), indent=1))
    else:
        for (routine, verdict), report in zip(verdicts, reports, strict=True):
            _print(module, routine, verdict, report)
    outcomes = [verdict.outcome for _, verdict in verdicts]
    sys.exit(CODES[next(one for one in WORST if one in outcomes)])


def _raise_of_launch(verdict: Verdict) -> None:
    """Raises the fault of a launch that is invalid for the kernel."""
    from ptxkit.analyses.execution.findings import NO_LAUNCH

    fault = verdict.executed.fault
    if fault is not None and fault.kind in NO_LAUNCH:
        raise fault


def _chosen(module: Module, kernel: str | None) -> Routine:
    """The named kernel, or the only one. Exits for an unknown name. Raises CannotLaunch if none is named and there is not exactly one."""
    from ptxkit.analyses.framework.routine import routines

    found = {one.name: one for one in routines(module) if one.function.header.is_entry}
    if kernel is not None:
        (name,) = _input.chosen(found, [kernel])
        return found[name]
    if len(found) != 1:
        raise CannotLaunch(f"say which kernel (-k); there are {', '.join(map(readable, found)) or 'none'}")
    return next(iter(found.values()))


def _of_options(module: Module, kernel: str | None, options: Options) -> list[tuple[Routine, Launch]]:
    from ptxkit.analyses.launch.launch import launch as shape

    routine = _chosen(module, kernel)
    said = shape(routine).threads
    if not options.block and said is None:
        raise CannotLaunch("--block or --launch is needed: the kernel does not declare how many threads a CTA has")
    chosen = options.block or ",".join(map(str, said or ()))
    return [(routine, of_options(module, routine, attrs.evolve(options, block=chosen)))]


def _of_file(module: Module, path: str, kernel: str | None, description: str) -> list[tuple[Routine, Launch]]:
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.cli.profile import _launches

    known = {one.name: one for one in routines(module)}
    described = _launches(description, path, module, (kernel,) if kernel is not None else ())
    return [(known[one.kernel], of_description(known[one.kernel], one)) for one in described]


def _replay(path: str, description: str | None, checks: str) -> list[str]:
    """The command that repeats the launch, without a schedule, which differs between findings."""
    if description is not None:
        return ["ptxkit", "run", path, "--launch", description, "--check", checks]
    return ["ptxkit", "verify", *_given_options()]


def _given_options() -> list[str]:
    """The command-line options, except for the format."""
    context = click.get_current_context()
    found = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("format_",) or context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.DEFAULT:
            continue
        if isinstance(parameter, click.Argument):
            found.append(str(value))
            continue
        values: Sequence[Any] = value if isinstance(value, tuple) else (value,)
        for one in values:
            found += [parameter.opts[-1], str(one)]
    return found


def _report(module: Module, routine: Routine, verdict: Verdict, replay: Sequence[str]) -> dict[str, Any]:
    """A verdict as JSON data."""
    from ptxkit.cli._witnesses import located, with_replay

    findings = []
    for shown in verdict.findings:
        command = list(replay)
        if command[1] == "run":
            command += ["--kernel", routine.name, "--schedule", str(shown.schedule)]
        findings.append(with_replay(located(module, [shown.finding])[0], shlex.join(command)).as_json())
    missing = [f"line {reason.line}: {reason.text}" if reason.line else reason.text for reason in verdict.reasons]
    return {
        "version": 1,
        "kernel": routine.name,
        "outcome": verdict.outcome,
        "findings": findings,
        "covered": dict(verdict.covered),
        "not_covered": list(dict.fromkeys([*missing, *verdict.not_covered, *verdict.assumptions])),
    }


def _sarif(module: Module, verdicts: Sequence[tuple[Routine, Verdict]]) -> dict[str, Any]:
    from ptxkit.cli._witnesses import located, sarif

    findings: list[Finding] = []
    for _, verdict in verdicts:
        findings += located(module, [shown.finding for shown in verdict.findings])
    return sarif(module, findings)


def _is_printed(name: str, count: int) -> bool:
    """Whether a count is printed: for accesses even 0; for schedules and contents only if there are several."""
    return name in ("shared", "global") or count > (1 if name in ("schedules", "contents") else 0)


def _reasons(routine: Routine, verdict: Verdict) -> Iterator[str]:
    """Why a kernel is undecided. The findings themselves are printed before: of these, only why they decide nothing, once for all lines."""
    lines: dict[str, dict[int, None]] = {}
    for reason in verdict.reasons:
        lines.setdefault(reason.why or reason.text, {})[reason.line] = None
    for text, found in lines.items():
        known = [str(line) for line in sorted(found) if line]
        more = f" and {len(known) - MOST_LINES} more" if len(known) > MOST_LINES else ""
        where = f"line{'s' if len(known) > 1 else ''} {', '.join(known[:MOST_LINES])}{more}: " if known else ""
        yield f"undecided: {where}{in_prose(text, [routine.name], within=routine.name)}"


def _print(module: Module, routine: Routine, verdict: Verdict, report: Mapping[str, Any]) -> None:
    from rich.console import Console

    from ptxkit.cli._witnesses import located, spoken
    from ptxkit.report.source import ReportAt, merged
    from ptxkit.report.text import render

    console = Console(soft_wrap=True, highlight=False, markup=False)
    lines = module.text.replace("\r\n", "\n").split("\n")
    click.echo(f"{short(routine.name)}: {verdict.outcome}")
    placed = [one.diagnostic for one in located(module, [shown.finding for shown in verdict.findings])]
    witnesses = {(one.message, one.span): record["witness"] for one, record in zip(placed, report["findings"], strict=True)}
    for diagnostic in merged(placed, ReportAt.SOURCE):
        console.print(render(diagnostic, lines, ReportAt.AUTO), end="")
        for line in spoken(witnesses[diagnostic.message, diagnostic.span]):
            click.echo(f"  {line}")
    for line in _reasons(routine, verdict):
        click.echo(f"  {line}")
    for example in dict.fromkeys([reason.example for reason in verdict.reasons if reason.example]):
        click.echo(f"  give what is missing, for example: {example}")
    for assumption in verdict.assumptions:
        click.echo(f"  {assumption}")
    counted = [f"{count:,} {COVERED[name][count != 1]}" for name, count in verdict.covered.items() if _is_printed(name, count)]
    nothing = "" if verdict.reasons else "; nothing was left out"
    rest = "; not covered: " + "; ".join(verdict.not_covered) if verdict.not_covered else nothing
    click.echo(f"  covered: accesses: {', '.join(counted)}{rest}")
