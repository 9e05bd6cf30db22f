"""`ptxkit diff`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ptxkit import files

if TYPE_CHECKING:
    from ptxkit.analyses.comparison import Change, Changed, Comparison


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How the differences are printed.")
@click.option("--only", "wanted", multiple=True, metavar="NAME", help="Compare only the functions of these names.")
@click.option("--summary", is_flag=True, help="Print counts, not the statements.")
def command(before: str, after: str, format_: str, wanted: tuple[str, ...], summary: bool) -> None:
    """Show what changed from one PTX file to another.

    Names of registers and labels, the order of declarations and functions, layout, comments and debugging data are no differences. A and B
    are files, a text in a binary file (libfoo.so!1.sm_80.ptx), or - for standard input.

    Exit codes: 0 equal, 1 different, 2 could not run.
    """
    import attrs

    from ptxkit.analyses.comparison import compare
    from ptxkit.syntax import parse

    try:
        found = compare(parse(files.read(before), before), parse(files.read(after), after))
    except files.CannotRead as error:
        click.echo(f"ptxkit: {error}", err=True)
        sys.exit(2)
    if wanted:
        found = attrs.evolve(found, module=(), functions=tuple([one for one in found.functions if one.name in wanted]))
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "before": before, "after": after, "equal": found.is_equal, **attrs.asdict(found)}, indent=1))
    else:
        _print(found, summary)
    sys.exit(0 if found.is_equal else 1)


def _print(found: Comparison, summary: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    if found.module:
        console.print(Text("module", style="bold"))
        _print_changes(found.module, summary)
    for one in found.functions:
        kind = "kernel" if one.is_entry else "function"
        console.print(Text(f"{kind} {one.name}", style="bold").append(f"  {_counted(one)}", style="not bold"))
        _print_changes(one.changes, summary)
        for title, counts in (("opcodes", one.opcodes), ("resources", one.resources)):
            if counts:
                console.print(Text(f"  {title}: " + ", ".join([f"{what} {old} → {new}" for what, (old, new) in counts.items()])))
    if found.is_equal:
        click.echo("ptxkit: no differences", err=True)


def _print_changes(changes: tuple[Change, ...], summary: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    if summary:
        return
    console = Console(soft_wrap=True, highlight=False)
    for change in changes:
        for line, sign, style in ((change.before, "-", "red"), (change.after, "+", "green")):
            if line is not None:
                console.print(Text(f"{sign} {line.line:6}  {line.text}", style=style))


def _counted(changed: Changed) -> str:
    if changed.status != "changed":
        return changed.status
    kinds = [change.kind for change in changed.changes]
    return ", ".join([f"{kinds.count(kind)} {kind}" for kind in ("changed", "removed", "added") if kind in kinds])
