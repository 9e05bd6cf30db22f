"""`ptxkit fmt`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator

import click

from ptxkit import files, formatter
from ptxkit.cli import _input
from ptxkit.cli._settings import Settings


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--check", is_flag=True, help="Write nothing; name the files that would change.")
@click.option("--diff", "differences", is_flag=True, help="Write nothing; print what would change.")
@click.option("--width", metavar="N", type=click.IntRange(min=40), help=f"Wrap longer lines at a comma; {formatter.WIDTH} by default.")
@click.option("--config", metavar="FILE", help="Read the settings from this TOML file instead of the nearest one.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
def command(paths: tuple[str, ...], check: bool, differences: bool, width: int | None, config: str | None, isolated: bool) -> None:
    """Format PTX files in place, in one canonical layout.

    PATH is a file, a folder (all *.ptx under it), or - for standard input, which goes to standard output. A file with a
    syntax error is left as it is. Tokens and comments are kept; modifiers are put into the order of the manual.

    Exit codes: 0 done, 1 a file would change (with --check or --diff), 2 a file could not be formatted.
    """
    settings = Settings(config, isolated)
    names = settings.included(paths)
    changed = failed = 0
    for name in names:
        try:
            before = files.read(name)
            after = _formatted(before, name, width or settings.of(name).width or formatter.WIDTH)
        except (files.CannotRead, formatter.CannotFormat) as error:
            _input.say(str(error))
            failed += 1
            continue
        changed += before != after
        if differences:
            _print("".join(_difference(before, after, name)))
        if check and before != after:
            _input.say(f"{name} would change")
        if check or differences:
            continue
        if name == "-":
            _print(after)
        elif before != after:
            try:
                files.write(name, after)
            except OSError as error:
                _input.say(f"{name}: {error.strerror or error}")
                changed -= 1
                failed += 1
    unchanged = len(names) - changed - failed
    verb = "would be reformatted" if check or differences else "reformatted"
    counts = ((changed, verb), (unchanged, "already formatted"), (failed, "could not be formatted"))
    _input.say(", ".join(f"{count} file{'s' * (count != 1)} {what}" for count, what in counts if count))
    sys.exit(2 if failed else 1 if changed and (check or differences) else 0)


def _formatted(text: str, name: str, width: int) -> str:
    """The text in canonical layout. Raises CannotFormat with the position of the first syntax error."""
    from ptxkit.syntax import parse

    module = parse(text, name)
    try:
        return formatter.format_module(module, width)
    except formatter.CannotFormat as error:
        troubles = [found for found in module.diagnostics if found.severity == "error"]
        if not troubles:
            raise formatter.CannotFormat(f"{name}: {error}") from None
        first = troubles[0]
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        raise formatter.CannotFormat(f"{name}:{first.span.line}:{first.span.column}: {first.message}{more}") from None


def _difference(before: str, after: str, name: str) -> Iterator[str]:
    """The lines of a unified diff."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for line in difflib.unified_diff(old, new, name, f"{name} (formatted)"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _print(text: str) -> None:
    click.echo(files.encode(text), nl=False)
