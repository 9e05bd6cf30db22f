"""The tokens of the language as regular expressions: white space, comments, names, numbers, strings, opcodes (4.1 to 4.5)."""

from __future__ import annotations

import re

from ptxkit.memo import expression

NOT = "(?!)"
"""Never matches. Before Python 3.11.5, a possessive repetition continues where its last iteration failed instead of where that began;
this, as the last alternative of an iteration that can fail midway, restores the position."""
COMMENT = rf"/\*[^*]*+\*++(?:[^/*][^*]*+\*++|{NOT})*+/"
TRIVIA = rf"(?:[ \t\r\n\f\v]++|//[^\n]*+|{COMMENT}|{NOT})"
DIRECTIVES = (
    "version|target|address_size|file|loc|section|pragma|alias|branchtargets|calltargets|callprototype|entry|func|visible|extern|weak|common"
    "|reg|sreg|align"
)
"""The words, without their dots, that begin a statement and are not modifiers."""
NUMBER = (
    r"(?:0[xX][0-9a-fA-F]++U?|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[bB][01]++U?"
    r"|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?U?)(?![A-Za-z0-9_$])"
)
NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*+|[_$%][A-Za-z0-9_$]++|_)"
MOST_LINES = 100
"""Maximum number of line ends in a string. Without a bound, a text with many unclosed quotes would take quadratic time."""
STRING = rf'"[^"\n]*+(?:\n[^"\n]*+|{NOT}){{0,{MOST_LINES}}}+"'
"""As in the assembler: a backslash is an ordinary character."""
PARTS = rf"(?:::[A-Za-z0-9_]++|{NOT})*+"
"""What may follow a word of a directive or modifier: `::cta`."""
KEYWORD = rf"\.[A-Za-z_][A-Za-z0-9_]*+{PARTS}"
OPCODE = rf"[A-Za-z_][A-Za-z0-9_]*+(?:(?:[ \t]*+|(?>{TRIVIA}++)(?!\.(?:{DIRECTIVES})\b(?![.:]))|{NOT})\.[A-Za-z0-9_]++{PARTS}|{NOT})*+"
"""White space may precede each modifier, even on another line; words used only by directives are excluded."""
_ENTRY = r"-?(?:0[xX][0-9a-fA-F]++U?|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|[0-9]++(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?U?)"
RUN = rf"{_ENTRY}(?:[ \t\r\n]*+,[ \t\r\n]*+{_ENTRY}|{NOT}){{7,}}+(?=\s*+[}};])"
"""Eight or more plain numbers, up to the end of their list."""

END, RUN_TOKEN, STRING_TOKEN, NUMBER_TOKEN, NAME_TOKEN, KEYWORD_TOKEN, UNCLOSED, MALFORMED, OTHER = range(1, 10)
"""The kinds of tokens. The first four except END, and names, are slots."""


def _tokens(number: str, run: str) -> re.Pattern[str]:
    unclosed = r'"[^"\n]*+|/\*.*+'
    return expression(
        rf"({TRIVIA}*+)(?:({run})|({STRING})|({number})|({NAME})|({KEYWORD})|({unclosed})|([0-9][A-Za-z0-9_$.]*+)|(.)|{NOT})?+", re.S
    )


TOKEN = _tokens(f"-?{NUMBER}", NOT)
"""White space and comments, and the next token; the number of the last group is the token's kind."""
AFTER_VALUE = _tokens(NUMBER, NOT)
"""After a value, a sign is an operator."""
IN_LIST = _tokens(f"-?{NUMBER}", RUN)
"""Where a list may begin; only there, since searching in vain for the end of a run would take quadratic time."""

_TRIVIA, _OPCODE = expression(TRIVIA), expression(OPCODE)


def trivia(text: str) -> str:
    """The same text. Raises ValueError unless it consists of white space and comments."""
    match = TOKEN.match(text)
    if match is None or match.lastindex != END:
        raise ValueError(f"not white space and comments: {text!r}")
    return text


def without_trivia(text: str) -> str:
    """The text without white space and comments."""
    return _TRIVIA.sub("", text)


def is_opcode(text: str) -> bool:
    """Whether a text has the form of an opcode with modifiers."""
    return _OPCODE.fullmatch(text) is not None
