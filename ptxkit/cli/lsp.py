"""`ptxkit lsp`."""

from __future__ import annotations

import sys

import click


@click.command()
def command() -> None:
    """Serve an editor: the Language Server Protocol over standard input and output.

    Findings as you type, hover, definitions, references, renaming, outline, folding, formatting, colours and completion. How to start it
    from an editor: docs/editors.md.
    """
    try:
        from ptxkit.lsp.server import server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        click.echo("ptxkit: the server needs pygls: pip install 'ptxkit[lsp]'", err=True)
        sys.exit(2)
    server().start_io()
