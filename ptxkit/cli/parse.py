"""`ptxkit parse`."""

from __future__ import annotations

import sys

import click

from ptxkit.cli import _input


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option("--depth", metavar="N", type=click.IntRange(0), default=100, help="How many levels of the tree to show.")
def command(path: str, kernels: tuple[str, ...], depth: int) -> None:
    """Print the tree of a PTX file, one node a line.

    FILE may be - for standard input.
    """
    module = _input.module(path)
    names = _input.chosen([function.name for function in module.functions], kernels)
    for node in [module.function(name) for name in names] if kernels else [module]:
        click.echo(node.dump(depth))
    for diagnostic in module.diagnostics:
        click.echo(f"{path}:{diagnostic.span.line}:{diagnostic.span.column}: {diagnostic.severity} {diagnostic.message}", err=True)
    sys.exit(1 if module.diagnostics else 0)
