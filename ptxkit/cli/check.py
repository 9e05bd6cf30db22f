"""`ptxkit check`."""

from __future__ import annotations

import click

from ptxkit.cli import _checking


@click.command()
@_checking.options
def command(paths: tuple[str, ...], format_: str, target: str | None, version: str | None) -> None:
    """Report what an assembler would refuse, and nothing else.

    PATH is a file, a folder (all *.ptx under it), or - for standard input.
    """
    from ptxkit.analyses.rule import select
    from ptxkit.diagnostics import Severity

    rules = tuple(rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR)
    _checking.run(paths, rules, format_, target, version)
