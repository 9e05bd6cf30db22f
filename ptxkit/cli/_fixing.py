"""`ptxkit lint --fix`: applies fixes in place; `--diff` shows them instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

import attrs
import click

from ptxkit import files, fixing
from ptxkit.cli import _checking, _input, _job, _many
from ptxkit.cli._job import Job
from ptxkit.diagnostics import Diagnostic
from ptxkit.fixing import Fixed


def run(names: list[str], job_of: Callable[[str], Job], output: _checking.Output, *, unsafe: bool, only_show: bool) -> list[str]:
    """Fixes the files and returns the names of all of them. With `only_show`, prints the diff and exits: with 1 if there is one.

    Standard input is printed after fixing, and the program exits: with 1 if an error or warning remains.
    """
    if "-" in names and len(names) > 1:
        raise click.UsageError("fix standard input by itself")
    if names == ["-"] and not only_show:
        _filter(job_of("-"), unsafe)
    changed = fixed = refused = 0
    failed = False
    for name, before, done in _fixed(names, job_of, output, unsafe):
        refused += len(done.refused)
        if done.text == before:
            continue
        changed += 1
        fixed += len(done.applied)
        if only_show:
            click.echo(files.encode("".join(_difference(before, done.text, name))), nl=False)
            continue
        try:
            files.write(name, done.text)
        except OSError as error:
            click.echo(f"ptxkit: {name}: {error.strerror or error}", err=True)
            failed = True
    click.echo(f"ptxkit: {_summary(fixed, changed, refused, only_show)}", err=True)
    if failed or only_show:
        raise SystemExit(2 if failed else 1 if changed else 0)
    return names


def _look(job: Job) -> Callable[[str], tuple[Diagnostic, ...]]:
    """The findings of the job, and what an assembler would reject, which must not increase."""
    from ptxkit.analyses.framework.linting import lint
    from ptxkit.analyses.framework.rule import select
    from ptxkit.syntax import parse

    wanted = _job.rules_of(job)
    names = {rule.id for rule in wanted}
    rules = (*wanted, *[rule for rule in select(["E", "V"]) if rule.id not in names])

    def look(text: str) -> tuple[Diagnostic, ...]:
        found = lint(parse(text), rules, job.target, job.version, ignores=job.ignores)
        return tuple([one if one.rule in names else attrs.evolve(one, fix=None) for one in found])

    return look


def _fixed(names: list[str], job_of: Callable[[str], Job], output: _checking.Output, unsafe: bool) -> Iterator[tuple[str, str, Fixed]]:
    """The files with fixable findings, each with its original text and the result."""
    for examined in _many.examined(names, job_of, output.jobs, output.cached, output.executor) if names != ["-"] else [_job.Examined("-")]:
        if examined.name == "-" or fixing.fixable(examined.diagnostics, unsafe) or (unsafe and examined.diagnostics):
            try:
                before = files.read(examined.name)
            except files.CannotRead:
                continue
            yield examined.name, before, _cured(before, examined.name, job_of(examined.name), unsafe)


def _cured(text: str, name: str, job: Job, unsafe: bool) -> Fixed:
    """A text with the fixes of its findings, and with `unsafe` also with proved repairs."""
    done = fixing.fix(text, _look(job), unsafe)
    if not unsafe or not job.run:
        return done
    from ptxkit.rewriters.repairs import repair
    from ptxkit.syntax import parse

    made = repair(parse(done.text, name), _job.rules_of(job), target=job.target, version=job.version, ignores=job.ignores)
    applied = (*done.applied, *[one.finding for one in made.repairs])
    return Fixed(made.text, applied, done.refused, made.found)


def _filter(job: Job, unsafe: bool) -> None:
    done = _cured(_input.text("-"), "-", job, unsafe)
    click.echo(files.encode(done.text), nl=False)
    click.echo(f"ptxkit: {_summary(len(done.applied), int(bool(done.applied)), len(done.refused), False)}", err=True)
    raise SystemExit(1 if any(one.severity != "info" for one in done.left) else 0)


def _summary(fixed: int, changed: int, refused: int, only_show: bool) -> str:
    text = f"{fixed} {'would be ' if only_show else ''}fixed in {changed} file{'' if changed == 1 else 's'}"
    return text + (f"; {refused} left alone, as the fix would make something worse" if refused else "")


def _difference(before: str, after: str, name: str) -> Iterator[str]:
    """The lines of a unified diff."""
    for line in difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, f"{name} (fixed)"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
