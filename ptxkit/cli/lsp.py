"""`ptxkit lsp`."""

from __future__ import annotations

import sys

import click


@click.command()
def command() -> None:
    """Serve an editor, by the Language Server Protocol.

    The server shows findings while you type, hover, definitions, references, hints and code lenses; it completes, renames and formats. How
    to start it from an editor: docs/editors.md.
    """
    try:
        from ptxkit.lsp.server import server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        click.echo("ptxkit: the server needs pygls: pip install 'ptxkit[lsp]'", err=True)
        sys.exit(2)
    server().start_io()
