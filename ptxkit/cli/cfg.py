"""`ptxkit cfg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ptxkit.cli import _heat, _input

if TYPE_CHECKING:
    from ptxkit.analyses.drawing import Drawing

COLORS = ("none", "liveness", "pressure", "divergence", "loops")
FORMATS = (".svg", ".png", ".pdf", ".dot", ".html")


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    callback=_input.ends_in(FORMATS),
    help="Where to write: a name ending in .svg, .png, .pdf, .dot or .html.",
)
@click.option("--color", type=click.Choice(COLORS), default="none", help="What the colors of blocks show.")
@_heat.option
@click.option(
    "--level", type=click.Choice(["blocks", "instructions"]), default="blocks", help="What a box shows: a basic block, or one instruction."
)
def command(path: str, kernels: tuple[str, ...], output: str | None, color: str, heat: str | None, level: str) -> None:
    """Draw the control flow graphs of a PTX file.

    Without -o, the graphs are printed as dot text. An .html is a page of its own: click a register to see where it is
    live. FILE may be - for standard input.
    """
    if heat is not None and color != "none":
        raise click.UsageError("--heat is a color of its own: leave out --color")
    drawing = _drawing(path, kernels, color, heat, level)
    if output is None:
        click.echo(drawing.dot.encode("utf-8"), nl=False)
        return
    _save(drawing, output)


def _drawing(path: str, kernels: tuple[str, ...], color: str, heat: str | None, level: str) -> Drawing:
    from ptxkit.analyses.drawing import CannotDraw, draw

    module = _input.module(path, warns=True)
    names = _input.chosen([function.name for function in module.functions if function.body], kernels) if kernels else ()
    counts = _heat.by_instruction(module, _heat.lines(path, module, heat)) if heat is not None else None
    try:
        return draw(module, names, color=color, level=level, heat=counts)
    except CannotDraw as error:
        _input.fail(str(error))


def _save(drawing: Drawing, output: str) -> None:
    from ptxkit.analyses.drawing import CannotDraw

    try:
        drawing.save(output)
    except CannotDraw as error:
        _input.fail(f"{output} is not written: {error}. A .dot file needs no program.")
    except OSError as error:
        _input.fail(f"{output}: {error.strerror or error}")
