"""`ptxkit reduce`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ptxkit import files
from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.rewriters.reduction import Progress
    from ptxkit.syntax import Module


@click.command()
@click.argument("path", metavar="FILE")
@click.option(
    "--test",
    "command_",
    required=True,
    metavar="CMD",
    help="The command, which succeeds while the file still shows the problem; {} is the file.",
)
@click.option("-o", "--output", metavar="OUT", help="Where the smallest text so far is written; by default, FILE with .reduced.ptx.")
@click.option("--jobs", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="How many tests run at a time.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A test that takes longer counts as failed.",
)
@click.option("--no-filter", is_flag=True, help="Also try candidates that an assembler would refuse.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(path: str, command_: str, output: str | None, jobs: int, timeout: float, no_filter: bool, format_: str) -> None:
    """Find the smallest PTX on which a command still succeeds.

    A bug in 5,000 lines becomes one in ten. The shell runs CMD on each candidate, as in `--test 'ptxas -arch=sm_90a {} -o /dev/null 2>&1 |
    grep -q "internal error"'`. Functions are removed first, then blocks, instructions, parts of instructions and declarations. If FILE is
    valid, only valid candidates are tried, by `ptxkit check` and by the parser of ptxas, if it is installed.

    OUT always holds the smallest text so far. OUT.journal records what was tried: the same command continues from there.

    Exit codes: 0 done, 1 CMD fails on FILE itself, 2 could not run.
    """
    from ptxkit.rewriters.reduction import Command, Journal, Validity, reduced
    from ptxkit.syntax import parse

    try:
        text = files.read(path)
    except files.CannotRead as error:
        _input.fail(str(error))
    out = output or ("stdin" if path == "-" else str(Path(path).with_suffix(""))) + ".reduced.ptx"
    test = Command(command_, timeout)
    module = start = parse(text, path)
    validity = Validity(module if not no_filter else parse("}"), timeout)
    show = _Show(out)
    try:
        journal = Journal(f"{out}.journal", f"{command_}\0{timeout}\0{no_filter}\0{text}")
        if journal.resumed:
            start = parse(files.read(out), path) if Path(out).is_file() else module
            _input.say(f"goes on from {out} and {len(journal.known)} texts that were tried")
        found = reduced(start, test.succeeds, validity, journal, jobs, show)
        files.write(out, found.module.text)
        journal.close()
    except ValueError:
        journal.close()
        _input.say(f"{path}: the command fails on the file itself: {command_}")
        sys.exit(1)
    except KeyboardInterrupt:
        show.end()
        _input.fail(f"interrupted; {out} is the smallest so far, and the same command goes on from there")
    except OSError as error:
        _input.fail(f"{error.filename or out}: {error.strerror or error}")
    show.end()
    before = attrs.evolve(found.before, bytes=len(text), instructions=_instructions(module))
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "output": out, "before": attrs.asdict(before), "after": attrs.asdict(found.after)}, indent=1))
        return
    after = found.after
    click.echo(
        f"{out}: {before.instructions} → {after.instructions} instructions, {before.bytes} → {after.bytes} bytes,"
        f" {after.tests} tests, {after.seconds:.1f} s"
    )


class _Show:
    """Writes the best text, and shows progress as a line on a terminal."""

    def __init__(self, out: str) -> None:
        self.out = out
        self.is_terminal = sys.stderr.isatty()

    def __call__(self, progress: Progress, best: Module | None) -> None:
        if best is not None:
            files.write(self.out, best.text)
        if self.is_terminal:
            line = f"{progress.step}: {progress.instructions} instructions, {progress.bytes} bytes, {progress.tests} tests"
            click.echo(f"\r\033[K{line}, {progress.seconds:.0f} s", err=True, nl=False)

    def end(self) -> None:
        if self.is_terminal:
            click.echo("\r\033[K", err=True, nl=False)


def _instructions(module: Module) -> int:
    return sum([len(function.instructions) for function in module.functions])
