"""`ptxkit gate`."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.cli._launching import CannotLaunch, names_of, of_description

if TYPE_CHECKING:
    from ptxkit.syntax import Module

CODES = {"accept": 0, "reject": 1, "undecided": 3}


@click.command()
@click.argument("path", metavar="FILE")
@click.option(
    "--launch", "description", metavar="TOML", help="How the kernels are launched (docs/profiling.md); without it none is accepted."
)
@click.option("--budget", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Seconds for everything.")
@click.option("--target", type=_input.Target(), metavar="TARGET", help="The GPU to be, such as sm_90a; the file's if it is left out.")
@click.option("--repairs", is_flag=True, help="Look for a proved repair of each finding of lint, beyond the budget of the verdict.")
@click.option("--using", metavar="NAMES", help="Which compilers are asked if they are there: driver, nvjitlink, ptxas (all), or none.")
def command(path: str, description: str | None, budget: float, target: str | None, using: str | None, repairs: bool) -> None:
    """One verdict on a PTX file (- for standard input), as JSON: accept, reject or undecided.

    The file is checked, compiled if a compiler is there, its kernels are executed in the launches that are given, and linted.

    Exit codes: 0 accept, 1 reject, 3 undecided, 2 could not run.
    """
    from ptxkit.analyses.gate.verdict import gate
    from ptxkit.revalidation.chain import VALIDATORS
    from ptxkit.syntax import parse

    chosen = VALIDATORS if using is None else tuple([name for name in using.replace(",", " ").split() if name != "none"])
    try:
        module = parse(files.read(path), path)
        launches = [] if description is None or module.diagnostics else _described(module, path, description)
        found = gate(module, launches, budget=budget, target=target, using=chosen)
    except (files.CannotRead, CannotLaunch, OSError, ValueError, TypeError) as error:
        click.echo(f"ptxkit: {error}", err=True)
        sys.exit(2)
    document = {"path": path, **found.as_json()}
    for one in document["findings"] if description is not None else ():
        if one["by"] == "verify":
            run = ["ptxkit", "run", path, "--launch", str(description), "--kernel", one["function"] or "", "--check", "all"]
            one["witness"]["replay"] = shlex.join([*run, "--schedule", str(one["witness"]["schedule"])])
    if repairs:
        _repair(module, document["findings"], target, chosen)
    click.echo(json.dumps(document, indent=1))
    sys.exit(CODES[found.verdict])


def _repair(module: Module, found: list[dict[str, Any]], target: str | None, using: tuple[str, ...]) -> None:
    """Gives findings their repairs: what lint finds at the same line, by the same rule."""
    from ptxkit.rewriters.repairs import offers

    known = {(one.rule, one.span.line): one.fix for one in offers(module, target=target, compilers=using) if one.fix is not None}
    for one in found:
        fix = known.get((one["rule"], one["line"]))
        if fix is not None and fix.diff:
            one["repair"] = fix.as_json()


def _described(module: Module, path: str, description: str) -> list[tuple[Any, Any]]:
    """The launches of a launch file, with the names of the parameters. Raises CannotLaunch."""
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.cli.profile import _launches

    known = {one.name: one for one in routines(module)}
    chosen = [(known[one.kernel], one) for one in _launches(description, path, module, ())]
    return [(of_description(routine, one), names_of(module, routine)) for routine, one in chosen]
