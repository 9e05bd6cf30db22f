"""`ptxkit parse`."""

from __future__ import annotations

import sys

import click

from ptxkit import files


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-f", "--function", metavar="NAME", help="Only this function.")
@click.option("--depth", type=click.IntRange(0), default=100, help="How deep to show the tree.")
def command(path: str, function: str | None, depth: int) -> None:
    """Print the tree of a PTX file (- for standard input), a node a line."""
    from ptxkit.syntax import Node, parse

    try:
        module = parse(files.read(path), path)
    except files.CannotRead as error:
        click.echo(f"ptxkit: {error}", err=True)
        sys.exit(2)
    node: Node = module
    if function is not None:
        try:
            node = module.function(function)
        except KeyError:
            click.echo(f"ptxkit: no function {function!r}; there are {', '.join(f.name for f in module.functions) or 'none'}", err=True)
            sys.exit(2)
    click.echo(node.dump(depth))
    for diagnostic in module.diagnostics:
        click.echo(f"{path}:{diagnostic.span.line}:{diagnostic.span.column}: {diagnostic.severity} {diagnostic.message}", err=True)
    sys.exit(1 if module.diagnostics else 0)
