"""`ptxkit diff`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.comparison import Change, Changed, Comparison
    from ptxkit.syntax import Module


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
@_input.kernel_option
@click.option("--map", "pairs", multiple=True, metavar="OLD=NEW", help="Compare function OLD of A with function NEW of B.")
@click.option("--summary", is_flag=True, help="Print counts, not the statements.")
def command(before: str, after: str, format_: str, kernels: tuple[str, ...], pairs: tuple[str, ...], summary: bool) -> None:
    """Show what changed from one PTX file to another.

    Names of registers and labels, the order of declarations and functions, layout, comments and debugging data do not count as differences.
    Functions of different names are compared if most of their instructions are the same, or if --map pairs them.

    A and B are files, PTX inside a binary file (libfoo.so!1.sm_80.ptx), or - for standard input.

    Exit codes: 0 equal, 1 different, 2 could not run.
    """
    import attrs

    from ptxkit.analyses.comparison import compare

    old, new = _input.module(before, warns=True), _input.module(after, warns=True)
    found = compare(old, new, _mapped_functions(pairs, old, new))
    if kernels:
        names = [one.name for module in (old, new) for one in module.functions]
        wanted = set(_input.chosen(names, kernels))
        only = [one for one in found.functions if one.name in wanted or one.was in wanted]
        found = attrs.evolve(found, module=(), functions=tuple(only))
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "before": before, "after": after, "equal": found.is_equal, **attrs.asdict(found)}, indent=1))
    else:
        _print(found, summary)
    sys.exit(0 if found.is_equal else 1)


def _mapped_functions(pairs: tuple[str, ...], old: Module, new: Module) -> dict[str, str]:
    """The pairs of functions given by --map."""
    found = {}
    for pair in pairs:
        before, equals, after = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not OLD=NEW", param_hint="--map")
        (one,) = _input.chosen([function.name for function in old.functions if function.body], [before], "kernel of the first file called")
        (other,) = _input.chosen(
            [function.name for function in new.functions if function.body], [after], "kernel of the second file called"
        )
        found[one] = other
    return found


def _print(found: Comparison, summary: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    if found.module:
        console.print(Text("module", style="bold"))
        _print_changes(found.module, summary)
    for one in found.functions:
        kind = "kernel" if one.is_entry else "function"
        console.print(Text(f"{kind} {_name(one)}", style="bold").append(f"  {_counted(one)}", style="not bold"))
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


def _name(changed: Changed) -> str:
    from ptxkit.demangling import readable

    now = readable(changed.name)
    return f"{readable(changed.was)} → {now}" if changed.was else now


def _counted(changed: Changed) -> str:
    if changed.status != "changed":
        return changed.status
    kinds = [change.kind for change in changed.changes]
    return ", ".join([f"{kinds.count(kind)} {kind}" for kind in ("changed", "removed", "added") if kind in kinds])
