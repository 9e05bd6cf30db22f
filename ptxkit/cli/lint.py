"""`ptxkit lint`."""

from __future__ import annotations

import click

from ptxkit.cli import _checking


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.replace(",", " ").split())


@click.command()
@_checking.options
@click.option(
    "--select", "wanted", multiple=True, metavar="RULES", help="Only these rules: ids, names, family letters or ALL, with commas."
)
@click.option("--ignore", "unwanted", multiple=True, metavar="RULES", help="All but these rules.")
def command(
    paths: tuple[str, ...], format_: str, target: str | None, version: str | None, wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    """Report what is wrong with PTX files.

    PATH is a file, a folder (all *.ptx under it), or - for standard input. Without --select, the rules that are on by default.
    """
    from ptxkit.analyses.rule import select

    try:
        rules = select(_words(wanted), _words(unwanted))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _checking.run(paths, rules, format_, target, version)
