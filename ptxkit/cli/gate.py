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
    "--launch",
    "description",
    metavar="TOML",
    help="The file that describes the launches (docs/profiling.md); without it, no kernel is accepted.",
)
@click.option(
    "--budget",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Seconds for all steps together.",
)
@click.option(
    "--target", type=_input.Target(), metavar="TARGET", help="The GPU to execute as, such as sm_90a; by default, the file's target."
)
@click.option("--repairs", is_flag=True, help="Look for a proved repair of each lint finding; this may exceed the budget.")
@_input.compilers_option
def command(path: str, description: str | None, budget: float, target: str | None, using: tuple[str, ...], repairs: bool) -> None:
    """Decide whether to accept a PTX file: one verdict, as JSON.

    The file is checked, compiled if there is a compiler, executed in the given launches, and linted. FILE may be - for standard input.

    Exit codes: 0 accept, 1 reject, 3 undecided, 2 could not run.
    """
    from ptxkit.analyses.gate.verdict import gate
    from ptxkit.syntax import parse

    try:
        module = parse(files.read(path), path)
        launches = [] if description is None or module.diagnostics else _described(module, path, description)
        found = gate(module, launches, budget=budget, target=target, using=using)
    except (files.CannotRead, CannotLaunch, OSError, ValueError, TypeError) as error:
        click.echo(f"ptxkit: {error}", err=True)
        sys.exit(2)
    document = {"path": path, **found.as_json()}
    for one in document["findings"] if description is not None else ():
        if one["by"] == "verify":
            run = ["ptxkit", "run", path, "--launch", str(description), "--kernel", one["function"] or "", "--check", "all"]
            one["witness"]["replay"] = shlex.join([*run, "--schedule", str(one["witness"]["schedule"])])
    if repairs:
        _repair(module, document["findings"], target, using)
    click.echo(json.dumps(document, indent=1))
    sys.exit(CODES[found.verdict])


def _repair(module: Module, found: list[dict[str, Any]], target: str | None, using: tuple[str, ...]) -> None:
    """Adds repairs to findings, matched by line and rule."""
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
