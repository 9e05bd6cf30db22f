"""What `lint` and `check` have in common: files in, findings out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from ptxkit.analyses.rule import Rule

PROGRESS_AFTER = 1.0
"""Seconds after which a progress bar shows, on a terminal."""


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments that both commands take."""
    for decorate in reversed(
        [
            click.argument("paths", nargs=-1, required=True, metavar="PATH…"),
            click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How findings are printed."),
            click.option("--target", metavar="TARGET", help="Check for this target instead of the file's, such as sm_90a."),
            click.option("--ptx", "version", metavar="VERSION", help="Check for this PTX version instead of the file's, such as 8.7."),
        ]
    ):
        function = decorate(function)
    return function


def parse_version(text: str | None) -> tuple[int, int] | None:
    """The two numbers of `8.7`. Raises click.BadParameter for anything else."""
    if text is None:
        return None
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a version such as 8.7", param_hint="--ptx")
    return int(major), int(minor)


def run(paths: Iterable[str], rules: tuple[Rule, ...], format_: str, target: str | None, version: str | None) -> None:
    """Applies the rules to all files, prints what they find, and ends the program with 0, 1 or 2."""
    wanted_version = parse_version(version)
    try:
        names = list(files.find(paths))
    except files.CannotRead as error:
        _fail(str(error))
    if not names:
        _fail("no .ptx files there")
    everything: list[Diagnostic] = []
    unreadable = []
    for name in _with_progress(names):
        try:
            text = files.read(name)
        except files.CannotRead as error:
            unreadable.append(str(error))
            continue
        found = _lint(text, name, rules, target, wanted_version)
        everything += found
        if format_ == "text" and found:
            _print(found, text)
    if format_ == "json":
        from ptxkit.report import json_

        click.echo(json.dumps(json_.document(everything, len(names) - len(unreadable)), indent=1))
    else:
        from ptxkit.report.text import summary

        click.echo(summary(everything, len(names) - len(unreadable)), err=True)
    for reason in unreadable:
        click.echo(f"ptxkit: {reason}", err=True)
    if unreadable:
        sys.exit(2)
    sys.exit(1 if any(diagnostic.severity is not Severity.INFO for diagnostic in everything) else 0)


def _fail(reason: str) -> None:
    click.echo(f"ptxkit: {reason}", err=True)
    sys.exit(2)


def _lint(text: str, name: str, rules: tuple[Rule, ...], target: str | None, version: tuple[int, int] | None) -> tuple[Diagnostic, ...]:
    from ptxkit.analyses.linting import lint
    from ptxkit.syntax.parsing import parse

    return lint(parse(text, name), rules, target, version)


def _print(found: Iterable[Diagnostic], text: str) -> None:
    from rich.console import Console

    from ptxkit.report.text import render

    console = Console(soft_wrap=True, highlight=False)
    lines = text.replace("\r\n", "\n").split("\n")
    for diagnostic in found:
        console.print(render(diagnostic, lines), end="\n")


def _with_progress(names: list[str]) -> Iterator[str]:
    """The names, with a progress bar on a terminal once it has taken a while."""
    if not sys.stderr.isatty() or len(names) < 2:
        yield from names
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as progress:
        task = progress.add_task("files", total=len(names), visible=False)
        for name in names:
            yield name
            progress.update(task, advance=1, visible=time.monotonic() - start > PROGRESS_AFTER)
