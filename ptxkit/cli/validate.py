"""`ptxkit validate`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ptxkit import files
from ptxkit.cli import _input

if TYPE_CHECKING:
    from rich.console import Console

    from ptxkit.revalidation import Resources, Verdict


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@click.option("--using", metavar="NAMES", help="Which validators to try, in this order: driver, nvjitlink, ptxas (all), with commas.")
@click.option("--target", type=_input.Target(), metavar="TARGET", help="Compile for this target instead of the file's, such as sm_90a.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long a compiler may take for a file; by default, 120.",
)
@click.option("--no-optimization", is_flag=True, help="Tell the compiler not to optimize: large kernels are judged sooner.")
@click.option("--relocatable", is_flag=True, help="Accept .extern functions and variables that the file does not define.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(
    paths: tuple[str, ...],
    using: str | None,
    target: str | None,
    timeout: float | None,
    no_optimization: bool,
    relocatable: bool,
    format_: str,
) -> None:
    """Ask a real compiler whether it accepts PTX files.

    It also reports the registers and memory that kernels use. The first compiler found is asked: the CUDA driver, nvJitLink or ptxas. A
    compiler that crashes or takes too long is reported as such. FILE may be a folder (all *.ptx under it), or - for standard input.

    Exit codes: 0 all valid, 1 one is not or a compiler failed on it, 2 one could not be judged.
    """
    from ptxkit.revalidation import Outcome, revalidate
    from ptxkit.revalidation.chain import TIMEOUT, VALIDATORS
    from ptxkit.syntax import parse

    validators = tuple(using.replace(",", " ").split()) if using is not None else VALIDATORS
    try:
        names = list(files.find(paths))
    except files.CannotRead as error:
        _input.fail(str(error))
    verdicts: list[tuple[str, Verdict]] = []
    unreadable = []
    for name in names:
        try:
            text = files.read(name)
        except files.CannotRead as error:
            unreadable.append(str(error))
            continue
        try:
            limit = TIMEOUT if timeout is None else timeout
            verdict = revalidate(parse(text, name), target, validators, limit, relocatable=relocatable, optimized=not no_optimization)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        verdicts.append((name, verdict))
        if format_ == "text":
            _print(name, verdict, text)
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "files": [{"path": name, **verdict.as_json()} for name, verdict in verdicts]}, indent=1))
    for reason in unreadable:
        click.echo(f"ptxkit: {reason}", err=True)
    outcomes = {verdict.outcome for _, verdict in verdicts}
    if unreadable or Outcome.UNAVAILABLE in outcomes:
        sys.exit(2)
    sys.exit(0 if outcomes == {Outcome.VALID} else 1)


def _print(name: str, verdict: Verdict, text: str) -> None:
    from rich.console import Console

    from ptxkit.report.text import render
    from ptxkit.revalidation import Outcome

    console = Console(soft_wrap=True, highlight=False)
    lines = text.replace("\r\n", "\n").split("\n")
    for diagnostic in verdict.diagnostics:
        console.print(render(diagnostic, lines))
    if verdict.outcome is Outcome.UNAVAILABLE:
        click.echo(f"ptxkit: {name}: {verdict.reason}", err=True)
        for skipped in verdict.skipped:
            click.echo(f"  {skipped.validator}: {skipped.reason}", err=True)
        return
    by = f"({verdict.validator} {verdict.version or '?'}, {verdict.target})"
    why = f": {verdict.reason}" if verdict.reason else ""
    console.print(f"{name}: {verdict.outcome} {by}{why}", style="green" if verdict.ok else "red", markup=False)
    _print_resources(console, verdict.resources)


def _print_resources(console: Console, kernels: tuple[Resources, ...]) -> None:
    if not kernels:
        return
    from rich.table import Table
    from rich.text import Text

    from ptxkit.demangling import readable

    table = Table("kernel", "registers", "stack", "spilled", "shared", "constant", box=None, pad_edge=False)
    for kernel in kernels:
        spills = _spoken(kernel.spill_stores) if kernel.spill_stores == kernel.spill_loads else None
        spills = spills or f"{_spoken(kernel.spill_stores)} out, {_spoken(kernel.spill_loads)} in"
        numbers = (_spoken(kernel.registers), _spoken(kernel.stack), spills, _spoken(kernel.shared), _spoken(kernel.constant))
        table.add_row(Text(readable(kernel.kernel)), *numbers)
    console.print(table)


def _spoken(number: int | None) -> str:
    return "?" if number is None else str(number)
