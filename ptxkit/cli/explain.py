"""`ptxkit explain`."""

from __future__ import annotations

import json
import sys

import click


@click.command()
@click.argument("what", metavar="INSTRUCTION|RULE")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How it is printed.")
def command(what: str, format_: str) -> None:
    """What an instruction or a rule is: `ptxkit explain ldmatrix`, `ptxkit explain cp.async.bulk`, `ptxkit explain E108`.

    With modifiers, only the forms that have them are shown.
    """
    from ptxkit.analyses.rule import all_rules

    rule = next((rule for rule in all_rules() if what in (rule.id, rule.name)), None)
    if rule is not None:
        if format_ == "json":
            click.echo(
                json.dumps(
                    {name: str(getattr(rule, name)) for name in ("id", "name", "severity", "summary", "why", "bad", "good")}, indent=1
                )
            )
            return
        click.echo(f"{rule.id} {rule.name} ({rule.severity}{'' if rule.default else ', off by default'}): {rule.summary}\n\n{rule.why}\n")
        for title, example in (("bad", rule.bad), ("good", rule.good)):
            click.echo(f"{title}:\n" + "\n".join(f"    {line}" for line in example.splitlines()) + "\n")
        click.echo(f"To accept a finding: // ptxkit: ignore[{rule.id}] reason")
        return
    from ptxkit.isa.explain import describe, entries_with, forms_with

    forms = forms_with(what)
    if not forms:
        from ptxkit.isa.table import mnemonics

        near = sorted(name for name in mnemonics() if name.startswith(what[:2]))
        click.echo(f"ptxkit: no instruction or rule {what!r}{'; there are ' + ', '.join(near) if near else ''}", err=True)
        sys.exit(2)
    if format_ == "json":
        click.echo(json.dumps([describe(form) for form in forms], indent=1))
        return
    for entry in entries_with(what):
        click.echo(f"{entry}\n")
    click.echo("The notation: docs/isa-notation.md")
