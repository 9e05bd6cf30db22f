"""`ptxkit requires`."""

from __future__ import annotations

import json
from typing import Any

import click

from ptxkit.cli import _input
from ptxkit.isa.targets import version_text


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@_input.kernel_option
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", help="The format of the output.")
def command(paths: tuple[str, ...], kernels: tuple[str, ...], format_: str) -> None:
    """Show the lowest .version and .target that each function needs.

    The instruction that requires them is shown as well. If several targets will do (a base one, a family `f`, an exact `a`), each is listed
    with its version.
    """
    from ptxkit.requirement import FunctionNeeds, needs_of

    every = {path: needs_of(_input.module(path, warns=True)) for path in _input.paths(paths)}
    chosen = _input.chosen_of({path: [one.function for one in needs] for path, needs in every.items()}, kernels)
    found: list[tuple[str, list[FunctionNeeds]]] = [
        (path, [one for one in every[path] if one.function in names]) for path, names in chosen.items()
    ]
    if format_ == "json":
        click.echo(
            json.dumps(
                {"version": 1, "files": [{"path": path, "functions": [_json(one) for one in needs]} for path, needs in found]}, indent=1
            )
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ptxkit.demangling import readable

    console = Console(highlight=False)
    for path, needs in found:
        console.print(f"[bold]{path}[/]")
        table = Table("function", "needs", "because of", "line", box=None, pad_edge=False)
        for one in needs:
            table.add_row(
                Text(readable(one.function)),
                "\n".join(map(_spoken, one.alternatives)) or "no known target",
                one.forced_by or "-",
                str(one.line or "-"),
            )
        console.print(table)


def _spoken(alternative: Any) -> str:
    return f"{alternative.target}  .version {version_text(alternative.version)}"


def _json(one: Any) -> dict[str, Any]:
    return {
        "function": one.function,
        "alternatives": [{"target": a.target, "version": version_text(a.version)} for a in one.alternatives],
        "forced_by": one.forced_by,
        "line": one.line,
    }
