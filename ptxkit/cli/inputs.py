"""`ptxkit inputs`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.cli.profile import _show

if TYPE_CHECKING:
    from ptxkit.analyses.inputs.shapes import Shape


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option("-o", "--output", metavar="TOML", help="Where to write; by default, standard output.")
@click.option("--block", metavar="X,Y,Z", help="Threads of a CTA, for kernels that do not declare them.")
@click.option("--loops", default=None, metavar="N", type=click.IntRange(1), help="Iterations of loops whose bound is a parameter.")
@click.option("--scale", default=1, show_default=True, metavar="N", type=click.IntRange(1), help="Multiply the other numbers by this.")
@click.option(
    "--enlarge", default=1, show_default=True, metavar="N", type=click.IntRange(1), help="Multiply the lengths of arrays by this."
)
@click.option("--shared", metavar="N", type=click.IntRange(0), help="Bytes of dynamic shared memory.")
@click.option("--less", default=0, metavar="N", type=click.IntRange(0), help="Subtract this from numbers that the kernel compares.")
@click.option("--small", default=0, metavar="N", type=click.IntRange(0), help="Set numbers that the kernel compares to this.")
@click.option("--empty", is_flag=True, help="Set numbers to 0, but for those that something is divided by.")
@click.option(
    "--fill",
    default="iota",
    show_default=True,
    type=click.Choice(["iota", "zeros", "random", "small"]),
    help="What memory holds: iota is 0, 1, 2, …; small is random numbers below 8.",
)
def command(
    path: str,
    kernels: tuple[str, ...],
    output: str | None,
    block: str | None,
    loops: int | None,
    scale: int,
    enlarge: int,
    shared: int | None,
    less: int,
    small: int,
    empty: bool,
    fill: str,
) -> None:
    """Synthesize launches for the kernels of a PTX file.

    Writes a launch file, which you can edit and give to `run`, `profile` and `verify`. Shapes follow from directives, from the special
    registers that a kernel reads, and from the sizes of its shared arrays; arguments follow from how it uses its parameters.
    FILE may be - for standard input.

    Exit codes: 0 done, 2 could not run.
    """
    import attrs

    import ptxkit

    try:
        module = ptxkit.parse(files.read(path), path)
    except files.CannotRead as error:
        _input.fail(str(error))
    errors = [one for one in module.diagnostics if one.severity.value == "error"]
    if errors:
        _show(errors, module.text)
        _input.fail("nothing is synthesized: the file has errors")
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.inputs import toml
    from ptxkit.analyses.inputs.launches import FEW, Sizes, example
    from ptxkit.analyses.inputs.shapes import shapes
    from ptxkit.debug_info import parameter_names

    found = {one.name: one for one in routines(module) if one.function.header.is_entry}
    if not found:
        _input.fail(f"{path} has no kernel")
    names = _input.chosen(found, kernels)
    sizes = Sizes(loops or FEW, scale, uneven=less, small=small, empty=empty)
    made = []
    for name, routine in found.items():
        if name in names:
            one = example(routine, _shape(shapes(routine)[0], block), sizes).with_larger_arrays(enlarge)
            made.append(one if shared is None else attrs.evolve(one, shared=shared))
    text = toml.text(made, path if path != "-" else "", parameter_names(module), fill)
    if output is None:
        click.echo(text, nl=False)
        sys.exit(0)
    try:
        files.write(output, text)
    except OSError as error:
        _input.fail(f"{output}: {error.strerror or error}")


def _shape(shape: Shape, block: str | None) -> Shape:
    import attrs

    if block is None:
        return shape
    numbers = [int(word) if word.strip().isdecimal() else 0 for word in block.split(",")]
    if not 1 <= len(numbers) <= 3 or not all(numbers):
        raise click.BadParameter(f"{block!r} is not one to three numbers, such as 128 or 16,16", param_hint="--block")
    x, y, z = [*numbers, 1, 1][:3]
    return attrs.evolve(shape, block=(x, y, z))
