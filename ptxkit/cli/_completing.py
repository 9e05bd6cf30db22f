"""Shell completion: a command's parameter descriptions determine their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from ptxkit.memo import expression

Find = Callable[[click.Context], Iterable[str]]
"""The possible words at a position, given what was typed before."""

_FILES = frozenset(("FILE", "PATH", "A", "B", "OUT", "TOML", "LOG"))
_FUNCTION = expression(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$%]+)")


class _Word(click.ParamType[str]):
    name = "text"

    def __init__(self, find: Find) -> None:
        self.find = find

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in sorted(self.find(ctx)) if word.lower().startswith(incomplete.lower())]


class _File(click.ParamType[str]):
    name = "text"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self.kind)]


def completed(command: click.Command) -> click.Command:
    """The command, with completion for its parameters."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = _type(parameter) or parameter.type
    return command


def _type(parameter: click.Parameter) -> click.ParamType[str] | None:
    word = re.search(r"\w+", parameter.metavar or "")
    kind = word[0] if word is not None else ""
    if kind in _FILES:
        return _File("file")
    if kind == "FOLDER":
        return _File("dir")
    if kind in ("RULE", "RULES"):
        return _Word(_rules)
    if kind == "INSTRUCTION":
        return _Word(lambda ctx: [*_rules(ctx), *_explained()])
    named: dict[str | None, Find] = {"kernel": _functions, "kernels": _functions, "probes": _probes}
    return _Word(named[parameter.name]) if parameter.name in named else None


def _rules(ctx: click.Context) -> list[str]:
    from ptxkit.analyses.framework.rule import all_rules

    return [word for rule in all_rules() for word in (rule.id, rule.name)]


def _explained() -> Iterable[str]:
    from ptxkit.isa.directives import directives
    from ptxkit.isa.registers import special_registers
    from ptxkit.isa.table import mnemonics
    from ptxkit.isa.targets import targets

    return [*mnemonics(), *special_registers(), *directives(), *targets()]


def _probes(ctx: click.Context) -> Iterable[str]:
    from ptxkit.rewriters.probing import all_probes

    return all_probes()


def _functions(ctx: click.Context) -> list[str]:
    """The functions of the given files, as far as they can be read."""
    from ptxkit import files

    # arguments are not separated before the option has a value
    paths = ctx.params.get("paths") or [ctx.params.get("path"), ctx.params.get("before"), *ctx.args]
    found: list[str] = []
    for path in paths:
        try:
            found += _FUNCTION.findall(files.read(path)) if path and path != "-" else []
        except files.CannotRead:
            continue
    return list(dict.fromkeys(found))
