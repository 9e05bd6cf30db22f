"""`ptxkit lint --explain-ptxas`: the notes of a ptxas log with their causes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NoReturn

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.diagnostics import Diagnostic


def run(paths: Iterable[str], log: str, format_: str) -> NoReturn:
    """Prints the cause of each note of a log in the given files; exits with 0, or 2 if something cannot be read."""
    from rich.console import Console

    from ptxkit.analyses.rules.wgmma._ptxas_notes import explain, notes
    from ptxkit.report import json_
    from ptxkit.report.text import render
    from ptxkit.syntax import parse

    explained: list[Diagnostic] = []
    try:
        said = files.read_any(log)
        names = list(files.find(paths))
        for name in names:
            source = files.read(name)
            found = explain(parse(source, name), said)
            explained += found
            if format_ != "json":
                console = Console(soft_wrap=True, highlight=False)
                for diagnostic in found:
                    console.print(render(diagnostic, source.splitlines()), end="\n")
    except files.CannotRead as error:
        _input.fail(str(error))
    if format_ == "json":
        click.echo(json.dumps(json_.document(explained, len(names)), indent=1))
    elif not notes(said):
        click.echo("the log has no notes from C7500 to C7599", err=True)
    raise SystemExit(0)
