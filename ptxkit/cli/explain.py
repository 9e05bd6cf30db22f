"""`ptxkit explain`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.framework.rule import Rule


FIELDS = ("id", "name", "severity", "summary", "why", "proof", "ptxas", "sanitizer", "bad", "good")


def about(rule: Rule) -> dict[str, str | bool]:
    """A rule as plain data."""
    from ptxkit.analyses.framework.rule import PTXAS

    return {**{name: str(getattr(rule, name)) for name in FIELDS}, "ptxas": f"{PTXAS} {rule.ptxas}", "default": rule.default}


def as_text(rule: Rule) -> str:
    """A rule as text."""
    from ptxkit.analyses.framework.rule import PTXAS

    lines = [f"{rule.id} {rule.name} ({rule.severity}{'' if rule.default else ', off by default'}): {rule.summary}", "", rule.why, ""]
    lines += [f"How it is proved: {rule.proof}", f"ptxas {PTXAS} {rule.ptxas.rstrip('.')}.", f"compute-sanitizer: {rule.sanitizer}", ""]
    for title, example in (("bad", rule.bad), ("good", rule.good)):
        lines += [f"{title}:", *[f"    {line}" for line in example.splitlines()], ""]
    return "\n".join([*lines, f"To accept a finding: // ptxkit: ignore[{rule.id}] reason"])


@click.command(short_help="Explain an instruction, a rule, a register or a target.")
@click.argument("what", metavar="INSTRUCTION|RULE|NAME")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
@click.option("--notation", is_flag=True, help="Print the entries of the instruction table (docs/isa-notation.md).")
def command(what: str, format_: str, notation: bool) -> None:
    """Explain an instruction, a rule, a special register, a directive or a target.

    For example `ptxkit explain ldmatrix`, `C001`, `%tid.x`, `.maxntid` or `sm_90a`. If modifiers are given, as in `cp.async.bulk`, only the
    forms that have them are shown.
    """
    from ptxkit.analyses.framework.rule import all_rules

    rule = next((rule for rule in all_rules() if what.lower() in (rule.id.lower(), rule.name)), None)
    if rule is not None:
        click.echo(json.dumps(about(rule), indent=1) if format_ == "json" else as_text(rule))
        return
    from ptxkit.isa.explain import declared, describe, entries_with, forms_with, in_words

    about_it = declared(what)
    if about_it is not None:
        click.echo(json.dumps({"name": what, "text": about_it}, indent=1) if format_ == "json" else about_it)
        return
    forms = forms_with(what)
    if not forms:
        from ptxkit.isa.directives import directives
        from ptxkit.isa.registers import special_registers
        from ptxkit.isa.table import mnemonics
        from ptxkit.isa.targets import targets

        words = {
            "%": list(special_registers()),
            ".": list(directives()),
        }.get(what[:1], [*mnemonics(), *targets(), *[name for rule in all_rules() for name in (rule.id, rule.name)]])
        mnemonic, *_ = re.split(r"[.\s]", what, maxsplit=1)
        near = [mnemonic] if mnemonic in words else _input.nearest(what, words)
        near = near or sorted(name for name in words if len(what) > 1 and name.startswith(what[:2]))
        _input.fail(f"nothing is called {what!r}{': did you mean ' + ' or '.join(near[:8]) + '?' if near else ''}")
    if format_ == "json":
        click.echo(json.dumps([describe(form) for form in forms], indent=1))
        return
    for entry in entries_with(what) if notation else dict.fromkeys(map(in_words, forms)):
        click.echo(f"{entry}\n")
