"""`ptxkit lint`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ptxkit import configuration
from ptxkit.cli import _checking, _input, _job, _many
from ptxkit.cli._settings import Settings
from ptxkit.configuration import BadConfiguration


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.replace(",", " ").split())


@click.command()
@_checking.options
@click.option(
    "--select", "wanted", multiple=True, metavar="RULES", help="Only these rules: ids, names, family letters or ALL, with commas."
)
@click.option("--ignore", "unwanted", multiple=True, metavar="RULES", help="All but these rules.")
@click.option(
    "--severity", "severities", multiple=True, metavar="RULE=SEVERITY", help="Report a rule as error, warning or info, or turn it off."
)
@_input.kernel_option
@click.option("--baseline", metavar="FILE", help="Accept the findings listed in this file; report only new ones.")
@click.option("--update-baseline", is_flag=True, help="Write the current findings into the baseline.")
@click.option("--no-ignores", is_flag=True, help="Also report what `// ptxkit: ignore[…]` accepts.")
@click.option(
    "--no-run", is_flag=True, help="Do not execute kernels to prove errors; what only an execution proves is then a warning at most."
)
@click.option("--explain-ptxas", "log", metavar="LOG", help="Instead of linting, explain the notes (C75…) in this log of ptxas.")
@click.option("--records", metavar="FILE", help="Also write the findings into FILE, .jsonl or .parquet, one record each.")
@click.option("--executor", metavar="dask:ADDRESS", help="Lint the files on the workers of a Dask cluster.")
@click.option("--fix", is_flag=True, help="Fix, in place, what can be fixed without changing what the program means.")
@click.option("--unsafe-fixes", "unsafe", is_flag=True, help="Also apply proved repairs that may change what the program means.")
@click.option("--repairs", is_flag=True, help="Look for a proved repair of each error and warning, and show it (docs/repair.md).")
@click.option("--diff", "only_show", is_flag=True, help="Print what --fix would change, and change nothing.")
@click.option("--config", "config", metavar="FILE", help="Read the settings from this TOML file instead of the nearest one.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--show-settings", is_flag=True, help="Print the settings of each file as JSON, and do nothing else.")
@click.option("--watch", is_flag=True, help="Lint again whenever a file changes, until Ctrl-C.")
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
    wanted: tuple[str, ...],
    unwanted: tuple[str, ...],
    severities: tuple[str, ...],
    kernels: tuple[str, ...],
    baseline: str | None,
    update_baseline: bool,
    no_ignores: bool,
    no_run: bool,
    log: str | None,
    records: str | None,
    executor: str | None,
    fix: bool,
    unsafe: bool,
    repairs: bool,
    only_show: bool,
    config: str | None,
    isolated: bool,
    show_settings: bool,
    watch: bool,
) -> None:
    """Report what is wrong with PTX files.

    PATH is a file, a folder (all *.ptx under it), or - for standard input. Without --select, the default rules
    are applied. Settings come from the nearest ptxkit.toml, or [tool.ptxkit] in pyproject.toml, in or above the folder of each file; the
    command line takes precedence.
    """
    if log is not None:
        from ptxkit.cli import _explaining

        _explaining.run(paths, log, format_)
    settings = Settings(config, isolated)
    try:
        own = dict(map(configuration.parse_severity, _words(severities)))
    except BadConfiguration as error:
        _input.fail(str(error))

    names = settings.included(paths)
    chosen = _input.functions_in(names, kernels) if kernels and not show_settings else None
    if chosen is not None:
        names = list(chosen)

    def job_of(name: str) -> _job.Job:
        settled = settings.of(name)
        in_file = configuration.ignored_in(Path(name.partition("!")[0]).resolve(), settled) if settled.per_file_ignores else ()
        return _job.Job(
            _words(wanted) or settled.select,
            (*_words(unwanted), *settled.ignore, *in_file),
            {**settled.severity, **own},
            target or settled.target,
            _checking.parse_version(version or settled.ptx),
            ignores=not no_ignores,
            run=not no_run,
            repairs=repairs,
            functions=None if chosen is None else chosen[name],
        )

    if show_settings:
        click.echo(settings.show(names))
        return
    _check_words({repr(job): job for job in map(job_of, names)}.values())
    if repairs and no_run:
        raise click.UsageError("a repair is proved by executions: --repairs cannot go with --no-run")
    if no_run:
        click.echo("ptxkit: no kernel is executed: what an execution would show as an error is a warning at most, or not found", err=True)
    accepted = baseline or next((found for name in names if (found := settings.of(name).baseline)), None)
    if executor is not None and not executor.startswith(_many.DASK):
        raise click.BadParameter(f"{executor!r} is not dask:ADDRESS, such as dask:tcp://localhost:8786", param_hint="--executor")
    output = _checking.Output(
        format_,
        statistics,
        exit_zero,
        accepted,
        update_baseline,
        jobs,
        not no_cache,
        executor=executor,
        records=records,
        report_at=report_at,
        file=output_file,
        quiet=quiet,
    )
    if fix or unsafe or only_show:
        from ptxkit.cli import _fixing

        names = _fixing.run(names, job_of, output, unsafe=unsafe, only_show=only_show)
    if watch:
        from ptxkit.cli import _watching

        _watching.run(lambda: names if chosen is not None else settings.included(paths), lambda names: _checking.run(names, job_of, output))
    _checking.run(names, job_of, output)


def _check_words(jobs: Iterable[_job.Job]) -> None:
    """Exits if a word names no rule."""
    for job in jobs:
        if job.select or job.ignore or job.severity:
            try:
                _job.rules_of(job)
            except ValueError as error:
                raise click.UsageError(str(error)) from None
