"""Error recovery: diagnoses statements that the grammar rejects, and skips as little text as possible."""

from __future__ import annotations

from ptxkit.memo import expression
from ptxkit.syntax import lexical
from ptxkit.syntax.lexical import END, MALFORMED, TOKEN, UNCLOSED
from ptxkit.syntax.nodes import Error
from ptxkit.syntax.shapes import Cutter, Failure

_LINE_REST = expression(
    rf'(?:[^;\n{{}}/"]++|{{[^{{}};\n"/]*+}}(?=[^\n{{}}]*;)|{lexical.STRING}|{lexical.COMMENT}|/(?![/*])|{lexical.NOT})*+;?'
)
_STATEMENT_REST = expression(rf'(?:[^;/"]++|{lexical.TRIVIA}|{lexical.STRING}|["/]|{lexical.NOT})*+;?')
BYTE_ORDER_MARK = "\ufeff"
_LONG = 10_000
"""A longer statement extends to its semicolon, over any number of lines."""


def missing_semicolon(leading: str, body: str) -> Error:
    """The error node for a statement that lacks only its semicolon."""
    return Error(leading, body, "missing `;`", len(body), "E002")


def rest_of_statement(text: str, at: int, end: int) -> str:
    """The text to skip for a statement that begins at `at` and was scanned to `end` in vain."""
    if end - at > _LONG:
        match = _STATEMENT_REST.match(text, end)
        assert match is not None
        return text[at : match.end()]
    line_end = text.find("\n", end)
    semicolon = text.find(";", end, line_end if line_end >= 0 else len(text))
    return text[at : semicolon + 1 if semicolon >= 0 else line_end if line_end >= 0 else len(text)]


def refused(leading: str, text: str, at: int, cutter: Cutter, failure: Failure | None) -> Error:
    """The error node for a statement that begins at `at`; `cutter` has taken its tokens up to the next one.

    Without a failure, the tokens taken are valid, and the next one is the error.
    """
    message, where, rule = _trouble(at, text, cutter, failure)
    end = cutter.at + len(cutter.token) if cutter.kind == UNCLOSED or cutter.end == at else cutter.end
    newline = text.find("\n", where, end)
    if newline >= 0 and cutter.kind != UNCLOSED:
        end = at + len(_without_trailing_trivia(text[at:newline])) or newline
    elif text[end - 1] != ";" and (cutter.end == at or "\n" not in cutter.trivia):
        match = _LINE_REST.match(text, end)
        assert match is not None
        end = at + len(_without_trailing_trivia(text[at : match.end()]))
    return Error(leading, text[at:end], message, min(where - at, end - at), rule)


def _trouble(at: int, text: str, cutter: Cutter, failure: Failure | None) -> tuple[str, int, str]:
    """Message, position and rule."""
    kind, token = cutter.kind, cutter.token
    where = cutter.at if failure is None else at + _offset(cutter, failure)
    at_end = where >= cutter.end - (1 if text[cutter.end - 1] == ";" else 0)
    if kind == UNCLOSED:
        return f"{'comment' if token[0] == '/' else 'string'} that is never closed", cutter.at, "E005"
    if cutter.unmatched is not None and (cutter.unmatched[1] <= where or at_end):
        return f"`{cutter.unmatched[0]}` closes nothing", cutter.unmatched[1], "E003"
    if kind == MALFORMED and at_end:
        return f"malformed number {_quoted(token)}", cutter.at, "E001"
    if cutter.brackets and at_end:
        opener, position = cutter.brackets[-1]
        return f"`{opener}` is never closed", position, "E003"
    if failure is None:
        return f"expected `,` or `;` before {_quoted(token)}", cutter.at, "E001"
    match = TOKEN.match(text, where)
    assert match is not None
    found = match.lastindex or END
    if found == END:
        return "the file ends in the middle of a statement", where, "E001"
    position = match.start(found)
    before = text[at:where].rstrip()[-1:]
    if match[found] == BYTE_ORDER_MARK:
        return "a byte order mark (U+FEFF), which ptxas does not accept: save the file as UTF-8 without it", position, "E001"
    if match[found] in (",", ";", ")", "]") and (before == "," or (match[found] == "," and before in ("(", "["))):
        return f"an operand is missing before {_quoted(match[found])}", position, "E001"
    return f"syntax error at {_quoted(match[found])}", position, "E001"


def _quoted(token: str) -> str:
    if len(token) > 30:
        token = token[:27] + "..."
    return f"`{token}`" if token.isprintable() else f"character {token!a}"


def _offset(cutter: Cutter, failure: Failure) -> int:
    """The offset in the statement of a failure in its shape."""
    before = 2 * (failure.slot + 1)
    slots = [slot if isinstance(slot, str) else slot.text for slot in cutter.slots[: failure.slot + 1]]
    return sum(map(len, cutter.shape()[:before:2])) + sum(map(len, slots)) + failure.offset


def _without_trailing_trivia(text: str) -> str:
    """The text up to its last token."""
    end = at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match is not None
        at = match.end()
        if match.lastindex != END:
            end = at
    return text[:end]
