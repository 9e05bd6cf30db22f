"""PTX for Pygments: a lexer and a style, for colored listings in the terminal, in HTML and in any other format that Pygments writes.

pygmentize -l ptxkit -O style=ptxkit kernel.ptx
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments import token as pygments
from pygments.lexer import Lexer
from pygments.style import Style

from ptxkit.syntax import parse
from ptxkit.tokens import Kind, tokens

TYPES = {
    Kind.SPACE: pygments.Whitespace,
    Kind.COMMENT: pygments.Comment,
    Kind.DIRECTIVE: pygments.Keyword.Declaration,
    Kind.TYPE: pygments.Keyword.Type,
    Kind.OPCODE: pygments.Keyword,
    Kind.MODIFIER: pygments.Name.Attribute,
    Kind.REGISTER: pygments.Name.Variable,
    Kind.SPECIAL: pygments.Name.Builtin,
    Kind.NUMBER: pygments.Number,
    Kind.STRING: pygments.String,
    Kind.LABEL: pygments.Name.Label,
    Kind.FUNCTION: pygments.Name.Function,
    Kind.VARIABLE: pygments.Name.Constant,
    Kind.NAME: pygments.Name,
    Kind.PUNCTUATION: pygments.Punctuation,
    Kind.ERROR: pygments.Error,
}


class PtxLexer(Lexer):  # type: ignore[misc]
    """PTX as ptxkit's parser sees it: registers, labels, functions and variables are distinguished by their declarations."""

    name = "PTX (ptxkit)"
    url = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
    aliases: ClassVar[list[str]] = ["ptxkit"]
    filenames: ClassVar[list[str]] = ["*.ptx"]
    mimetypes: ClassVar[list[str]] = ["text/x-ptx"]
    priority = 1.0

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """The tokens for Pygments: offset, type and text of each."""
        for token in tokens(parse(text)):
            yield token.start, TYPES[token.kind], token.text


LIGHT = {
    "paper": "#fefefe",
    "ink": "#1f2933",
    "opcode": "#1b4b8f",
    "modifier": "#4d647c",
    "register": "#964b00",
    "special": "#735c0f",
    "number": "#0d726a",
    "label": "#6a3d9a",
    "symbol": "#3b4754",
    "comment": "#56616e",
    "wrong": "#c44f00",
}
DARK = {
    "paper": "#14181d",
    "ink": "#dbe2ea",
    "opcode": "#8fbcff",
    "modifier": "#9db1c6",
    "register": "#f2b173",
    "special": "#e3cf7a",
    "number": "#67d6c8",
    "label": "#cda8f5",
    "symbol": "#c0cad5",
    "comment": "#a3aeba",
    "wrong": "#ff9a52",
}


def _styles(colors: dict[str, str]) -> dict[Any, str]:
    return {
        pygments.Comment: f"italic {colors['comment']}",
        pygments.Keyword: f"bold {colors['opcode']}",
        pygments.Keyword.Declaration: f"nobold {colors['label']}",
        pygments.Keyword.Type: f"nobold {colors['number']}",
        pygments.Name: colors["ink"],
        pygments.Name.Attribute: colors["modifier"],
        pygments.Name.Builtin: colors["special"],
        pygments.Name.Constant: colors["symbol"],
        pygments.Name.Function: f"bold {colors['symbol']}",
        pygments.Name.Label: colors["label"],
        pygments.Name.Variable: colors["register"],
        pygments.Number: colors["number"],
        pygments.String: colors["number"],
        pygments.Punctuation: colors["ink"],
        pygments.Error: f"border:{colors['wrong']}",
    }


class PtxStyle(Style):  # type: ignore[misc]
    """The colors of ptxkit's pictures, on a light background."""

    name = "ptxkit"
    background_color = LIGHT["paper"]
    styles: ClassVar[dict[Any, str]] = _styles(LIGHT)


class PtxDarkStyle(Style):  # type: ignore[misc]
    """The colors of ptxkit's pictures, on a dark background, for terminals."""

    name = "ptxkit-dark"
    background_color = DARK["paper"]
    styles: ClassVar[dict[Any, str]] = _styles(DARK)


def as_html(text: str) -> str:
    """The highlighted text, for a notebook."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter

    return str(highlight(text, PtxLexer(stripnl=False), HtmlFormatter(style=PtxStyle, noclasses=True)))
