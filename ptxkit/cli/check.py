"""`ptxkit check`."""

from __future__ import annotations

import click

from ptxkit.cli import _checking, _input
from ptxkit.cli._job import OF_TEXT, Job


@click.command()
@_checking.options
def command(
    paths: tuple[str, ...],
    format_: str,
    report_at: str | None,
    statistics: bool,
    exit_zero: bool,
    jobs: int | None,
    no_cache: bool,
    output_file: str | None,
    quiet: bool,
    target: str | None,
    version: str | None,
) -> None:
    """Report what an assembler would refuse, and nothing else.

    PATH is a file, a folder (all *.ptx under it), or - for standard input. Settings and `// ptxkit: ignore` comments are not
    considered.
    """
    job = Job(OF_TEXT, target=target, version=_checking.parse_version(version), only_errors=True, ignores=False)
    output = _checking.Output(
        format_, statistics, exit_zero, jobs=jobs, cached=not no_cache, report_at=report_at, file=output_file, quiet=quiet
    )
    _checking.run(_input.paths(paths), lambda name: job, output)
