"""The common part of `lint` and `check`: from files to findings."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import click

from ptxkit import files
from ptxkit.cli import _input, _job, _many
from ptxkit.cli._job import Examined, Job
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.analyses.framework.rule import Rule
    from ptxkit.report.source import ReportAt

PROGRESS_AFTER = 1.0
"""Seconds until a progress bar appears, on a terminal."""

FORMATS = ("text", "json", "sarif", "github")


@frozen
class Output:
    """How findings are printed, and their effect on the exit code."""

    format_: str = "text"
    statistics: bool = False
    exit_zero: bool = False
    baseline: str | None = None
    update_baseline: bool = False
    jobs: int | None = None
    """The number of processes; None: as many as are worthwhile."""
    cached: bool = True
    executor: str | None = None
    """The executor for files, instead of local processes, such as `dask:tcp://host:8786`."""
    report_at: str | None = None
    """`source` or `ptx`; None: the source if its file is found, or, in annotating formats, if `.loc` names it."""
    file: str | None = None
    """The file for the output, instead of standard output."""
    quiet: bool = False
    """Whether to print findings only: no summary, no progress."""
    records: str | None = None
    """An additional file for findings, as JSON Lines or Parquet."""


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments of both commands."""
    for decorate in reversed(
        [
            click.argument("paths", nargs=-1, required=True, metavar="PATH…"),
            click.option("--format", "format_", type=click.Choice(FORMATS), default="text", help="The format of the output."),
            click.option(
                "--report-at",
                type=click.Choice(["source", "ptx"]),
                help="The location of a finding that is shown first. By default, the source if its file is found; for sarif and github, "
                "the source whenever .loc names it.",
            ),
            click.option("--statistics", is_flag=True, help="Print how often each rule found something (text and json)."),
            click.option("--output-file", metavar="FILE", help="Write the findings into FILE instead of printing them."),
            click.option("-q", "--quiet", is_flag=True, help="Print findings and nothing else."),
            click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings."),
            click.option(
                "--jobs", metavar="N", type=click.IntRange(1), help="How many processes to use; by default, one a core where that pays off."
            ),
            click.option("--no-cache", is_flag=True, help="Do not use the cache: check unchanged files again."),
            click.option(
                "--target", type=_input.Target(), metavar="TARGET", help="Check for this target instead of the file's, such as sm_90a."
            ),
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


def run(names: list[str], job_of: Callable[[str], Job], output: Output) -> NoReturn:
    """Applies the rules to all files, prints the findings, and exits with 0, 1 or 2."""
    if output.file is None:
        sys.exit(_run(names, job_of, output))
    printed = io.BytesIO()
    out = io.TextIOWrapper(printed, encoding="utf-8", errors="surrogateescape", write_through=True)
    with contextlib.redirect_stdout(out):
        code = _run(names, job_of, output)
    out.detach()
    _input.write(output.file, printed.getvalue())
    sys.exit(code)


def _run(names: list[str], job_of: Callable[[str], Job], output: Output) -> int:
    from ptxkit.report import baseline

    if output.statistics and output.format_ not in ("text", "json"):
        raise click.UsageError("--statistics is for the formats text and json")
    try:
        accepted = baseline.read(output.baseline) if output.baseline and not output.update_baseline else None
    except baseline.BadBaseline as error:
        _input.fail(str(error))
    folder = str(Path(output.baseline).parent) if output.baseline else "."
    old = 0
    done: list[Examined] = []
    with _recording(output.records) as record:
        for examined in _with_progress(names, job_of, output):
            if accepted is not None and examined.diagnostics:
                before = len(examined.diagnostics)
                examined = attrs.evolve(examined, diagnostics=_new(examined, accepted, folder))
                old += before - len(examined.diagnostics)
            record(examined.diagnostics)
            if output.format_ != "json" and not output.update_baseline:
                examined = attrs.evolve(examined, diagnostics=tuple(_merged(examined.diagnostics, output)))
            done.append(examined if output.format_ == "sarif" or output.update_baseline else attrs.evolve(examined, lines=[]))
            if not output.update_baseline and not output.statistics:
                _print_at_once(examined, output)
    if output.update_baseline:
        _write_baseline(done, output.baseline, folder)
    _print_at_last(done, list(map(job_of, names)), output, folder)
    everything = [diagnostic for examined in done for diagnostic in examined.diagnostics]
    unreadable = [examined.unreadable for examined in done if examined.unreadable]
    if output.format_ in ("text", "github") and not output.quiet and not (names and len(unreadable) == len(names)):
        from ptxkit.report.text import summary

        known = f", and {old} in the baseline" if old else ""
        click.echo(summary(everything, len(names) - len(unreadable)) + known, err=True)
    if accepted is not None and accepted.total():
        click.echo(f"ptxkit: {accepted.total()} of the baseline are no longer found; --update-baseline forgets them", err=True)
    for reason in unreadable:
        click.echo(f"ptxkit: {reason}", err=True)
    if unreadable:
        return 2
    is_bad = any(diagnostic.severity is not Severity.INFO for diagnostic in everything)
    return 1 if is_bad and not output.exit_zero else 0


@contextlib.contextmanager
def _recording(path: str | None) -> Iterator[Callable[[Iterable[Diagnostic]], None]]:
    """A function that writes findings to the records file, if there is one."""
    if path is None:
        yield lambda diagnostics: None
        return
    from ptxkit.report.records import CannotWrite, Records

    try:
        with Records(path) as records:
            yield records.add
    except CannotWrite as error:
        _input.fail(str(error))


def _new(examined: Examined, accepted: Counter[str], folder: str) -> tuple[Diagnostic, ...]:
    """The findings not in the baseline; those found there are removed from it."""
    from ptxkit.report.baseline import fingerprint

    new = []
    for diagnostic in examined.diagnostics:
        key = fingerprint(diagnostic, examined.lines, folder)
        if accepted[key]:
            accepted[key] -= 1
        else:
            new.append(diagnostic)
    return tuple(new)


def _write_baseline(done: list[Examined], path: str | None, folder: str) -> NoReturn:
    from ptxkit.report import baseline

    if path is None:
        raise click.UsageError("--update-baseline needs --baseline FILE, or `baseline` in the configuration")
    unreadable = [examined.unreadable for examined in done if examined.unreadable]
    if unreadable:
        _input.fail(unreadable[0])
    found = [(one, baseline.fingerprint(one, examined.lines, folder)) for examined in done for one in examined.diagnostics]
    try:
        files.write(path, baseline.written(found, folder))
    except OSError as error:
        _input.fail(f"{path}: {error.strerror or error}")
    click.echo(f"ptxkit: {len(found)} findings are accepted in {path}", err=True)
    sys.exit(0)


def _at(output: Output) -> ReportAt:
    """The locations to report."""
    from ptxkit.report.source import ReportAt

    if output.report_at is not None:
        return ReportAt(output.report_at)
    return ReportAt.SOURCE if output.format_ in ("sarif", "github") else ReportAt.AUTO


def _merged(diagnostics: tuple[Diagnostic, ...], output: Output) -> Iterable[Diagnostic]:
    """Merges findings that share a source line and a cause, if the source is shown."""
    if len(diagnostics) < 2:
        return diagnostics
    from ptxkit.report.source import merged

    return merged(diagnostics, _at(output))


def _print_at_once(examined: Examined, output: Output) -> None:
    """Prints what can be printed for each file."""
    if output.format_ == "text" and examined.diagnostics:
        from rich.console import Console

        from ptxkit.report.text import render

        console = Console(soft_wrap=True, highlight=False)
        for diagnostic in examined.diagnostics:
            console.print(render(diagnostic, examined.lines, _at(output)), end="\n")
    elif output.format_ == "github":
        from ptxkit.report.github import lines

        for line in lines(examined.diagnostics, _at(output)):
            click.echo(files.encode(line))


def _print_at_last(done: list[Examined], jobs: list[Job], output: Output, folder: str) -> None:
    """Prints what can only be printed for all files together."""
    everything = [diagnostic for examined in done for diagnostic in examined.diagnostics]
    if output.format_ == "json":
        from ptxkit.report import json_
        from ptxkit.report.statistics import counts

        document = json_.document(everything, sum(not examined.unreadable for examined in done))
        if output.statistics:
            document = {**document, "statistics": counts(everything)}
        click.echo(json.dumps(document, indent=1))
    elif output.format_ == "sarif":
        from ptxkit.report import sarif
        from ptxkit.report.baseline import fingerprint

        lines = {examined.name: examined.lines for examined in done}
        document = sarif.document(
            everything,
            _rules(jobs),
            lambda path: lines.get(path, []),
            lambda one, text: fingerprint(one, text, folder),
            _at(output),
        )
        click.echo(json.dumps(document, indent=1))
    elif output.statistics and everything:
        from rich.console import Console

        from ptxkit.report.statistics import table

        Console(soft_wrap=True, highlight=False).print(table(everything))


def _rules(jobs: list[Job]) -> list[Rule]:
    """The rules that any of the jobs applies."""
    by_id = {rule.id: rule for job in {repr(job): job for job in jobs}.values() for rule in _job.rules_of(job)}
    return [by_id[id_] for id_ in sorted(by_id)]


def _with_progress(names: list[str], job_of: Callable[[str], Job], output: Output) -> Iterator[Examined]:
    """The findings of each file, with a progress bar on a terminal after a while."""
    results = _many.examined(names, job_of, output.jobs, output.cached, output.executor)
    if not sys.stderr.isatty() or len(names) < 2 or output.quiet:
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as progress:
        task = progress.add_task("files", total=len(names), visible=False)
        for examined in results:
            yield examined
            progress.update(task, advance=1, visible=time.monotonic() - start > PROGRESS_AFTER)
