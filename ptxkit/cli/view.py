"""`ptxkit view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxkit.cli import _heat, _input
from ptxkit.cli._job import Job

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.syntax import Module
    from ptxkit.view import Graphs, Sass

MOST_INSTRUCTIONS = 3000
"""Functions are drawn, in order, up to this total number of instructions: layout is slow."""


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option("-o", "--output", metavar="OUT", help="The page to write; by default, FILE with .html.")
@click.option("--target", type=_input.Target(), metavar="TARGET", help="Show the machine code for this target instead of the file's.")
@click.option("--sass/--no-sass", default=True, help="Show the machine code, if ptxas and nvdisasm are found.")
@click.option("--findings/--no-findings", default=True, help="Apply the rules of `ptxkit lint`.")
@click.option("--graph/--no-graph", default=True, help="Draw the control flow graphs, unless they are too large.")
@_heat.option
@click.option("--run", "execute", is_flag=True, help="Also execute the kernels, for findings that only an execution shows.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds for the machine code."
)
def command(
    path: str,
    kernels: tuple[str, ...],
    output: str | None,
    target: str | None,
    sass: bool,
    findings: bool,
    graph: bool,
    heat: str | None,
    execute: bool,
    timeout: float,
) -> None:
    """Write a page with PTX beside its source and machine code.

    Each source line and the PTX made from it have the same color. Findings are in the margin; the graph is one click away. The page is a
    single file that loads nothing else, and contains the source files that .loc names. FILE may be - for standard input.
    """
    if output is None and path == "-":
        raise click.UsageError("name the page to write: -o OUT.html")
    from ptxkit.view import page

    module = _input.module(path, warns=True)
    names = _input.chosen([function.name for function in module.functions if function.body], kernels) if kernels else []
    counts = _heat.lines(path, module, heat) if heat is not None else None
    found = _findings(path, module, execute) if findings else ()
    text = page(
        module,
        found,
        _machine_code(module, target, timeout) if sass else "",
        _graphs(module, names, counts) if graph else None,
        names,
        _why(found),
        None if counts is None else _by_line(counts),
    )
    to = output or str(Path(path).with_suffix(".html"))
    _input.write(to, text)
    click.echo(to)


def _findings(path: str, module: Module, execute: bool) -> tuple[Diagnostic, ...]:
    from ptxkit import configuration
    from ptxkit.analyses.linting.linting import lint
    from ptxkit.cli._job import rules_of, with_severity
    from ptxkit.configuration import BadConfiguration
    from ptxkit.isa.targets import parse_version

    at = Path(path.partition("!")[0]).resolve()
    try:
        settled = configuration.find(at.parent if path != "-" else Path.cwd())
        in_file = configuration.ignored_in(at, settled) if settled.per_file_ignores else ()
        rules = rules_of(Job(settled.select, (*settled.ignore, *in_file), settled.severity))
    except (BadConfiguration, ValueError) as error:
        _input.fail(str(error))
    version = parse_version(settled.ptx) if settled.ptx else None
    found = lint(module, rules, settled.target, version, run=execute)
    return tuple([with_severity(one, settled.severity) for one in found])


def _machine_code(module: Module, target: str | None, timeout: float) -> Sass | str:
    from ptxkit.revalidation.architectures import named_target
    from ptxkit.view import NoCode, disassembled

    named = target or named_target(module)
    if named is None:
        return "the file names no target"
    try:
        return disassembled(module, named, timeout)
    except NoCode as why:
        return str(why)


def _by_line(counts: _heat.Lines) -> dict[int, int]:
    return {line: count for (_, line), count in counts.items()}


def _graphs(module: Module, names: list[str], counts: _heat.Lines | None) -> Graphs:
    from ptxkit.analyses.drawing import CannotDraw, draw
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.view import Graphs

    chosen: list[str] = []
    left = MOST_INSTRUCTIONS
    for routine in routines(module):
        if names and routine.name not in names:
            continue
        left -= len(routine.instructions)
        if left >= 0:
            chosen.append(routine.name)
    if not chosen:
        return Graphs(reason="the functions are too large for this page; `ptxkit cfg FILE -k NAME -o OUT.html` draws one")
    try:
        heat = _heat.by_instruction(module, counts) if counts is not None else None
        return Graphs(draw(module, chosen, heat=heat).html(), tuple(chosen))
    except CannotDraw as why:
        return Graphs(reason=str(why))


def _why(found: tuple[Diagnostic, ...]) -> dict[str, str]:
    from ptxkit.analyses.framework.rule import all_rules

    named = {one.rule for one in found}
    return {rule.id: rule.why for rule in all_rules() if rule.id in named}
