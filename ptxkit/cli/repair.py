"""`ptxkit repair`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import attrs
import click

from ptxkit import files
from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.rewriters.repairs import Repaired


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-o", "--output", metavar="OUT", help="Where to write the repaired text; - is standard output.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
@click.option(
    "--target", type=_input.Target(), metavar="TARGET", help="The GPU to execute as, such as sm_90a; by default, the file's target."
)
@_input.compilers_option
def command(path: str, output: str | None, format_: str, target: str | None, using: tuple[str, ...]) -> None:
    """Fix what lint finds in a PTX file, by proved edits.

    Each repair is shown as a diff, with what it costs and what it does not promise. Findings that cannot be repaired are listed, each with
    the reason. FILE may be - for standard input.

    Exit codes: 0 no error or warning is left, 1 some are, 2 could not run.
    """
    from ptxkit.rewriters.repairs import repair

    module = _input.module(path)
    if module.diagnostics:
        first = module.diagnostics[0]
        _input.fail(f"{path}:{first.span.line}: {first.message}: what cannot be read cannot be repaired")
    try:
        made = repair(module, target=target, compilers=using)
    except ValueError as error:
        _input.fail(str(error))
    to_output = output == "-"
    if format_ == "json":
        click.echo(json.dumps({"path": path, **made.as_json()}, indent=1), err=to_output)
    else:
        _print(made, to_output)
    if output is not None and not to_output:
        _input.write(output, made.text)
    elif to_output:
        click.echo(files.encode(made.text), nl=False)
    count = len(made.repairs)
    left = f"; {len(made.left)} finding{'' if len(made.left) == 1 else 's'} left" if made.left else "; no findings are left"
    click.echo(f"ptxkit: {count} repair{'' if count == 1 else 's'}{left}", err=True)
    sys.exit(0 if made.is_clean else 1)


def _print(made: Repaired, to_error: bool) -> None:
    """Prints the repairs as findings with their diffs, then the remaining findings."""
    from rich.console import Console

    from ptxkit.report.text import render

    console = Console(soft_wrap=True, highlight=False, stderr=to_error)
    for one in made.repairs:
        lines = one.text.replace("\r\n", "\n").split("\n")
        console.print(render(attrs.evolve(one.finding, fix=one.fix, related=(), notes=()), lines), end="\n")
    lines = made.text.replace("\r\n", "\n").split("\n")
    for left in made.left:
        shown = attrs.evolve(left.finding, notes=(*left.finding.notes, f"not repaired: {left.why}"))
        console.print(render(shown, lines), end="\n")
