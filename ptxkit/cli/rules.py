"""`ptxkit rules`."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("words", nargs=-1, metavar="[RULES]…")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(words: tuple[str, ...], format_: str) -> None:
    """List the lint rules.

    RULES are ids, names or family letters; without them, all rules are listed.
    """
    from ptxkit.analyses.framework.rule import select

    try:
        rules = select(words or ["ALL"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if format_ == "json":
        fields = ("id", "name", "severity", "default", "summary")
        click.echo(json.dumps([{field: getattr(rule, field) for field in fields} for rule in rules], indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("id", "name", "severity", "by default", "what it finds", box=None, pad_edge=False)
    for rule in rules:
        table.add_row(rule.id, rule.name, rule.severity, "yes" if rule.default else "no", rule.summary)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)
