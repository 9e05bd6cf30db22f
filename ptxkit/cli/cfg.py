"""`ptxkit cfg`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ptxkit import files

if TYPE_CHECKING:
    from ptxkit.analyses.drawing import Drawing

COLORS = ("none", "liveness", "pressure", "divergence", "loops")
FORMATS = (".svg", ".png", ".pdf", ".dot", ".html")


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-f", "--function", "functions", multiple=True, metavar="NAME", help="Only this function; may be given several times.")
@click.option("-o", "--output", metavar="OUT", help="Where to write: a name ending in .svg, .png, .pdf, .dot or .html.")
@click.option("--color", type=click.Choice(COLORS), default="none", help="What blocks are coloured by.")
@click.option("--level", type=click.Choice(["blocks", "instructions"]), default="blocks", help="What a box is.")
def command(path: str, functions: tuple[str, ...], output: str | None, color: str, level: str) -> None:
    """Draw the control flow graphs of a PTX file (- for standard input).

    Without -o, prints them in the language of Graphviz. An .html is one page that needs nothing else: click a register to see where it is
    live. Where there is no program to draw with, the .dot is written instead.
    """
    if output is not None and Path(output).suffix.lower() not in FORMATS:
        raise click.BadParameter(f"{output!r} ends in none of {' '.join(FORMATS)}", param_hint="-o")
    drawing = _drawing(path, functions, color, level)
    if output is None:
        click.echo(drawing.dot.encode("utf-8"), nl=False)
        return
    _save(drawing, output)


def _drawing(path: str, functions: tuple[str, ...], color: str, level: str) -> Drawing:
    from ptxkit.analyses.drawing import CannotDraw, draw
    from ptxkit.syntax import parse

    try:
        module = parse(files.read(path), path)
    except files.CannotRead as error:
        _fail(str(error))
    bodies = [function.name for function in module.functions if function.body]
    for name in functions:
        if name not in bodies:
            _fail(f"no function {name!r} with a body; there are {', '.join(bodies) or 'none'}")
    if module.diagnostics:
        click.echo(f"ptxkit: {path} has {len(module.diagnostics)} syntax errors; what they spoil is not in the picture", err=True)
    try:
        return draw(module, functions, color=color, level=level)
    except CannotDraw as error:
        _fail(str(error))


def _save(drawing: Drawing, output: str) -> None:
    from ptxkit.analyses.drawing import CannotDraw

    try:
        drawing.save(output)
    except CannotDraw as error:
        instead = str(Path(output).with_suffix(".dot"))
        try:
            drawing.save(instead)
        except OSError as second:
            _fail(f"{error}; and {instead} cannot be written: {second.strerror or second}")
        click.echo(f"ptxkit: wrote {instead} instead of {output}: {error}", err=True)
    except OSError as error:
        _fail(f"{output}: {error.strerror or error}")


def _fail(reason: str) -> NoReturn:
    click.echo(f"ptxkit: {reason}", err=True)
    sys.exit(2)
