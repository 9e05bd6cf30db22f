"""`ptxkit tokens`."""

from __future__ import annotations

import html
import json

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.syntax import Module


@click.command()
@click.argument("path", metavar="FILE")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "terminal", "html"]),
    default="text",
    help="One token a line, JSON, or the file as it is in colors: for a terminal or as a page.",
)
@click.option("--dark", is_flag=True, help="Colors for a dark background.")
def command(path: str, format_: str, dark: bool) -> None:
    """Print the tokens of a PTX file, or the file in colors.

    FILE may be - for standard input.
    """
    module = _input.module(path)
    if format_ in ("terminal", "html"):
        click.echo(files.encode(_colored(module, format_, dark)), nl=False)
    elif format_ == "json":
        click.echo(json.dumps(_list(module), indent=1))
    else:
        for token in _list(module):
            click.echo(f"{token['line']}:{token['column']}\t{token['kind']}\t{_quoted(str(token['text']))}")


def _quoted(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _list(module: Module) -> list[dict[str, str | int]]:
    """The tokens without white space; lines and columns count from 1."""
    from ptxkit.syntax import Index
    from ptxkit.tokens import Kind, tokens

    position = Index(module).line_column
    found: list[dict[str, str | int]] = []
    for token in tokens(module):
        if token.kind is not Kind.SPACE:
            line, column = position(token.start)
            found.append({"line": line, "column": column, "kind": token.kind.value, "text": token.text})
    return found


def _colored(module: Module, format_: str, dark: bool) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter, TerminalTrueColorFormatter

    from ptxkit.highlighting import DARK, LIGHT, PtxDarkStyle, PtxLexer, PtxStyle

    style = PtxDarkStyle if dark else PtxStyle
    if format_ == "html":
        formatter = HtmlFormatter(style=style, linenos="inline", lineanchors="line")
        body = highlight(module.text, PtxLexer(stripnl=False), formatter)
        return _PAGE.format(
            title=html.escape(module.path or "PTX"), rules=formatter.get_style_defs(), body=body, **(DARK if dark else LIGHT)
        )
    text: str = highlight(module.text, PtxLexer(stripnl=False), TerminalTrueColorFormatter(style=style))
    return text


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{rules}
body {{ margin: 1em; background: {paper}; color: {ink}; font: 14px system-ui, sans-serif; }}
h1 {{ font-size: 1.2em; overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; font: 13px/1.4 "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; }}
span.linenos {{ color: {comment}; background: none; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}</body>
</html>
"""
