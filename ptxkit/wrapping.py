"""Breaks marked text into lines."""

from __future__ import annotations

import re

from ptxkit.memo import expression

MAY_BREAK, STAYS = "\ud800", "\ud801"
"""Marks for a blank at which a line may end (`\\n` marks a required end), and for a line end within a string; they do not occur in
files."""

_SPACE = " \t\r\f\v"
_BRACKET = expression(r"[(\[{)\]}]")
_OPAQUE = expression(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/')
_CLOSING = frozenset(")]}")


def one_line(text: str) -> str:
    """The text with blanks in place of the marks; contains `\\n` where it cannot be on one line."""
    return text.replace(MAY_BREAK, " ")


def wrapped(text: str, first: str, base: int, width: int, step: int = 1) -> list[str]:
    """The lines of a marked text, following what is already on the first line.

    Other lines begin in column `base`, plus `step` for each open bracket. Bracketed text is kept on one line if it fits. A word that is too
    long for any line is not broken.
    """
    pieces = re.split(f"([{MAY_BREAK}\n])", text)
    words = [word.strip(_SPACE) for word in pieces[::2]]
    forced = [False, *[mark == "\n" for mark in pieces[1::2]]]
    levels = [0]
    for word in words:
        levels.append(max(0, levels[-1] + _nesting(word)))
    lines: list[str] = []
    line, is_fresh = first, len(first) <= base
    for i, word in enumerate(words):
        if not word:
            is_broken = forced[i] and not is_fresh
        elif is_fresh:
            is_broken = forced[i] and len(line) < base
        else:
            reach = _reach(words, forced, levels, i, width - base)
            is_hopeless = (len(word) if levels[i + 1] > levels[i] else reach) > width - base
            is_broken = forced[i] or (len(line) + 1 + reach > width and not is_hopeless)
        if is_broken or (forced[i] and is_fresh and i):
            if not is_fresh:
                lines.append(line.rstrip())
            line, is_fresh = " " * (base + step * (levels[i] - (word[:1] in _CLOSING))), True
        if word:
            line += word if is_fresh or line[-1:] == " " else " " + word
            is_fresh = False
    if not is_fresh:
        lines.append(line.rstrip())
    return lines


def filled(words: str, margin: str, width: int) -> list[str]:
    """The lines of words separated by single blanks, without brackets or overlong words: like `wrapped`, for long tables."""
    return [margin + line for line in re.findall(rf"(.{{1,{width - len(margin)}}})(?: |$)", words)]


def _nesting(word: str) -> int:
    """The number of brackets that a word opens minus those that it closes."""
    if _BRACKET.search(word) is None:
        return 0
    brackets = _BRACKET.findall(_OPAQUE.sub("", word))
    return len(brackets) - 2 * sum([bracket in _CLOSING for bracket in brackets])


def _reach(words: list[str], forced: list[bool], levels: list[int], i: int, room: int) -> int:
    """The length of a word and all that follows up to its closing bracket, or as much of that as shows that it is too long."""
    length = len(words[i])
    end = i + 1
    while end < len(words) and levels[end] > levels[i] and not forced[end] and length <= room:
        length += 1 + len(words[end])
        end += 1
    return length
