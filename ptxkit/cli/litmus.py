"""`ptxkit litmus`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.memory_model.enumerator import Outcome, Outcomes
    from ptxkit.analyses.memory_model.execution import Execution
    from ptxkit.analyses.memory_model.litmus import Litmus
    from ptxkit.analyses.memory_model.verdicts import Forbidden


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("--threads", metavar="CTA:THREAD,...", help="The threads of the kernel that run; for PTX files.")
@click.option("-k", "--kernel", metavar="NAME", help="The kernel, if a PTX file has several.")
@click.option("--param", "parameters", metavar="NAME=N", multiple=True, help="A number for a parameter of the kernel.")
@click.option("--exists", metavar="CONDITION", help="The question for PTX files: '%r1@0:1 == 1 && %r2@0:1 == 0'.")
@click.option("--all", "all_", is_flag=True, help="Also show the forbidden outcomes, each with the axiom that forbids it.")
@click.option("--explain", is_flag=True, help="Explain a race: what is missing, and which change would add it.")
@click.option(
    "--loops", metavar="N", type=click.IntRange(0, 100), default=3, show_default=True, help="How many iterations of a loop are followed."
)
@click.option(
    "--draw",
    metavar="OUT.svg",
    callback=_input.ends_in((".svg", ".html")),
    help="Draw the execution that decides the question: .svg or .html.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(
    paths: tuple[str, ...],
    threads: str | None,
    kernel: str | None,
    parameters: tuple[str, ...],
    exists: str | None,
    all_: bool,
    explain: bool,
    loops: int,
    draw: str | None,
    format_: str,
) -> None:
    """Ask the memory model about small concurrent programs.

    FILE is a litmus file, or PTX with --threads. The memory model is that of chapter 8 of the PTX manual.

    Exit codes: 0 every answer is yes, 1 one is no, 2 could not run.
    """
    from ptxkit.analyses.memory_model.litmus import answer
    from ptxkit.analyses.memory_model.paths import CannotFollow

    if draw is not None and len(paths) > 1:
        raise click.UsageError("--draw draws the execution of one FILE.")
    could_run = True
    is_yes = True
    tests: list[dict[str, Any]] = []
    for path in paths:
        try:
            text = files.read(path) if path.endswith(".ptx") else files.read_any(path)
            test = _kernel(text, path, threads, kernel, parameters, exists) if path.endswith(".ptx") else _litmus(text, path)
            found = answer(test, loops=loops)
        except files.CannotRead as error:
            click.echo(f"ptxkit: {error}", err=True)
            could_run = False
            continue
        except CannotFollow as error:
            click.echo(f"{path}:{error.line}:1: error: {error}" if error.line else f"{path}: error: {error}", err=True)
            could_run = False
            continue
        except _Refused:
            could_run = False
            continue
        is_yes &= found.holds
        tests.append(_record(path, test, found.holds, found.outcomes))
        if format_ == "text":
            _print(path, test, found.holds, found.outcomes, all_, explain, loops)
        if draw is not None:
            could_run &= _draw(draw, test, found.witness, found.outcomes, loops)
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "tests": tests}, indent=2))
    sys.exit(2 if not could_run else 0 if is_yes else 1)


class _Refused(Exception):
    """A file that is not a valid test; its diagnostics are printed."""


def _litmus(text: str, path: str) -> Litmus:
    from ptxkit.analyses.memory_model.litmus_files import BadLitmus, parse

    try:
        return parse(text)
    except BadLitmus as error:
        _complain(text, path, error.at, str(error))
        raise _Refused from None


def _complain(text: str, path: str, at: int, message: str) -> None:
    """Prints a message with the line of the file and a caret."""
    at = min(at, len(text))
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1)
    source = text.split("\n")[line - 1]
    click.echo(f"{path}:{line}:{column + 1}: error: {message}", err=True)
    click.echo(f"{line:>6} | {source}", err=True)
    click.echo(" " * 7 + "| " + "".join("\t" if one == "\t" else " " for one in source[:column]) + "^", err=True)


def _kernel(text: str, path: str, threads: str | None, kernel: str | None, parameters: tuple[str, ...], exists: str | None) -> Litmus:
    from ptxkit.analyses.memory_model.ptx import litmus_of
    from ptxkit.analyses.memory_model.ptx_kernel import BadQuestion
    from ptxkit.syntax import parse

    if threads is None:
        raise click.UsageError("a PTX file needs --threads CTA:THREAD,...")
    if kernel is not None:
        (kernel,) = _input.chosen([function.name for function in parse(text, path).kernels if function.body], [kernel])
    try:
        return litmus_of(text, path, threads, kernel=kernel, parameters=parameters, exists=exists)
    except BadQuestion as error:
        click.echo(f"{path}:{error.line}:{error.column}: error: {error}" if error.line else f"ptxkit: {error}", err=True)
        raise _Refused from None


def _names(test: Litmus, outcomes: Outcomes) -> list[str]:
    from ptxkit.analyses.memory_model.enumerator import name_of

    return [name_of(test.program, one) for one in outcomes.wanted]


def _record(path: str, test: Litmus, holds: bool, outcomes: Outcomes) -> dict[str, Any]:
    names = _names(test, outcomes)
    shown = [{"values": dict(zip(names, one.values, strict=True)), "racy": one.racy is not None} for one in outcomes.outcomes]
    return {"path": path, "holds": holds, "outcomes": shown}


def _print(path: str, test: Litmus, holds: bool, outcomes: Outcomes, all_: bool, explain: bool, loops: int) -> None:
    from ptxkit.analyses.memory_model.conditions import is_true
    from ptxkit.analyses.memory_model.execution import SECTIONS
    from ptxkit.analyses.memory_model.verdicts import forbidden

    click.echo(f"{path}: {test.question}: {'yes' if holds else 'no'}")
    names = _names(test, outcomes)
    rows = [(one.values, "allowed", "racy" if one.racy is not None else "") for one in outcomes.outcomes]
    if all_:
        for one in forbidden(test.program, outcomes, loops=loops):
            rows.append((one.values, "forbidden", "by " + ", ".join(f"{name} ({SECTIONS[name]})" for name in one.axioms)))
    cells = [[str(value) for value in values] for values, _, _ in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    if rows:
        click.echo("  " + "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)))
    for row, (values, verdict, note) in zip(cells, rows, strict=True):
        line = "  " + "  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True))
        is_asked = names and is_true(test.condition, dict(zip(outcomes.wanted, values, strict=True)))
        click.echo(f"{line}  {'*' if is_asked else ' '} {verdict}{' ' + note if note else ''}".rstrip())
    if outcomes.is_cut:
        click.echo(f"  loops were followed {loops} times; there may be more outcomes")
    if explain:
        _explain(outcomes.outcomes, loops)


def _explain(outcomes: tuple[Outcome, ...], loops: int) -> None:
    from ptxkit.analyses.memory_model.missing import missing_order

    said: dict[str, list[str]] = {}
    for one in outcomes:
        found = missing_order(one.racy, loops=loops) if one.racy is not None else None
        if found is not None:
            race, *reasons = found.describe()
            if race not in said or found.relation.startswith("synchronizes"):
                said[race] = reasons
    for race, reasons in said.items():
        for line in (race, *reasons):
            click.echo(f"  {line}")


def _draw(target: str, test: Litmus, witness: Outcome | None, outcomes: Outcomes, loops: int) -> bool:
    from ptxkit.analyses.memory_model.conditions import is_true
    from ptxkit.analyses.memory_model.picture import page, svg
    from ptxkit.analyses.memory_model.verdicts import forbidden

    execution: Execution | None = witness.execution if witness is not None else None
    reason: Forbidden | None = None
    if execution is None:
        for one in forbidden(test.program, outcomes, loops=loops):
            if is_true(test.condition, dict(zip(outcomes.wanted, one.values, strict=True))) == (test.question != "forall"):
                execution, reason = one.execution, one
                break
    if execution is None:
        execution = outcomes.outcomes[0].execution if outcomes.outcomes else None
    if execution is None:
        click.echo("ptxkit: there is no execution to draw", err=True)
        return False
    make = page if target.lower().endswith(".html") else svg
    try:
        files.write(target, make(execution, reason))
    except OSError as error:
        click.echo(f"ptxkit: {target}: {error.strerror or error}", err=True)
        return False
    return True
