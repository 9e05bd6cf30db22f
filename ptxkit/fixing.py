"""Applies the fixes of findings to a text, as far as they introduce no new findings.

A rule makes its edits with `remove`, `replace` and `insert`. `fix` applies those of all findings that do not conflict, analyzes the result,
and accepts it only if no error or warning is new; otherwise it determines which fix is the cause, and omits it. The findings of the result
may have fixes as well.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ptxkit.diagnostics import Diagnostic, Edit, Fix, Severity
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.syntax import Declaration, Declarator, Index, Path

Look = Callable[[str], Sequence[Diagnostic]]
"""Returns the findings of a text: those to be fixed, and all that would show that a fix has broken something."""

MOST_LOOKS = 60
"""Maximum number of times that a text is analyzed."""

_COMMA_AFTER = expression(r"\s*,\s*")
_BLANK = expression(r"[ \t\r]*\n")
_COMMA_BEFORE = expression(r"\s*,\s*\Z")


@frozen
class Fixed:
    """The result of fixing a text."""

    text: str
    applied: tuple[Diagnostic, ...]
    """The findings whose fixes were applied; their locations refer to the text in which they were found."""
    refused: tuple[Diagnostic, ...]
    """The findings whose fixes would have introduced new findings."""
    left: tuple[Diagnostic, ...]
    """The remaining findings."""


# --- making edits


def remove(index: Index, path: Path) -> Edit:
    """Removes a statement, with its line if nothing else is on it; or one of several declarators of a declaration."""
    span = index.span(path)
    text = index.text
    holder = index.module.at(path[:-1])
    if isinstance(holder, Declaration) and isinstance(holder.at(path[-1:]), Declarator):
        if len(holder.declarators) == 1:
            return remove(index, path[:-1])
        following = _COMMA_AFTER.match(text, span.end)
        if following is not None:
            return Edit(span.start, following.end(), "")
        start = index.span(path[:-1]).start
        before = _COMMA_BEFORE.search(text[start : span.start])
        return Edit(start + before.start() if before is not None else span.start, span.end, "")
    line = line_of(text, span.start, span.end)
    return Edit(*line, "") if line is not None else Edit(span.start, span.end, "")


def line_of(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The start and end (line end included) of the line around a range, if it contains nothing else but white space; otherwise None."""
    while start and text[start - 1] in " \t":
        start -= 1
    following = _BLANK.match(text, end)
    if following is None or (start and text[start - 1] != "\n"):
        return None
    return start, following.end()


def replace(index: Index, path: Path, text: str) -> Edit:
    """Replaces the text of a node."""
    span = index.span(path)
    return Edit(span.start, span.end, text)


def insert_after(index: Index, path: Path, statement: str) -> Edit:
    """Inserts a statement on a new line after another, with the same indentation."""
    span = index.span(path)
    start = index.text.rfind("\n", 0, span.start) + 1
    margin = index.text[start : span.start]
    margin = margin[: len(margin) - len(margin.lstrip(" \t"))]
    return Edit(span.end, span.end, f"\n{margin}{statement}")


# --- applying them


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Applies edits, which must not overlap; duplicates count once."""
    pieces = []
    at = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end)):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join(pieces) + text[at:]


def fixable(diagnostics: Iterable[Diagnostic], unsafe: bool = False) -> tuple[Diagnostic, ...]:
    """The findings that have a fix; with `unsafe`, also those whose fix may change the behavior of the program."""
    return tuple([one for one in diagnostics if one.fix is not None and (unsafe or one.fix.is_safe)])


def fix(text: str, look: Look, unsafe: bool = False) -> Fixed:
    """Applies the fixes of all findings, repeatedly as long as some can be applied.

    A fix is accepted only if no rule reports more errors or warnings than before.
    """
    found = look(text)
    applied: list[Diagnostic] = []
    refused: dict[tuple[str, str, str], Diagnostic] = {}
    looks = 0
    most = None
    while looks < MOST_LOOKS:
        candidates = [one for one in fixable(found, unsafe) if _identity(one, text) not in refused]
        batch = _compatible(candidates)[:most]
        if not batch:
            break
        after = apply(text, [edit for one in batch for edit in _edits(one)])
        looks += 1
        again = look(after)
        if after != text and not _is_worse(found, again):
            text, found = after, again
            applied += batch
            most = None
        elif len(batch) == 1:
            refused[_identity(batch[0], text)] = batch[0]
            most = None
        else:
            most = len(batch) // 2
    return Fixed(text, tuple(applied), tuple(refused.values()), tuple(found))


def _edits(diagnostic: Diagnostic) -> tuple[Edit, ...]:
    assert isinstance(diagnostic.fix, Fix)
    return diagnostic.fix.edits


def _identity(diagnostic: Diagnostic, text: str) -> tuple[str, str, str]:
    """The identity of a finding, unaffected by fixes that move it."""
    span = diagnostic.span
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    return diagnostic.rule, diagnostic.message, text[start : end if end >= 0 else len(text)]


def _compatible(candidates: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Findings in the order of their edits, without those whose edits conflict with earlier ones."""
    chosen: list[Diagnostic] = []
    taken: list[tuple[int, int, str]] = []
    for one in sorted(candidates, key=lambda one: min([edit.start for edit in _edits(one)], default=0)):
        edits = [(edit.start, edit.end, edit.text) for edit in _edits(one)]
        if all(_fits(edit, taken) for edit in edits):
            chosen.append(one)
            for edit in edits:
                position = bisect.bisect_left(taken, edit)
                if taken[position : position + 1] != [edit]:
                    taken.insert(position, edit)
    return chosen


def _fits(edit: tuple[int, int, str], taken: list[tuple[int, int, str]]) -> bool:
    """Whether an edit is equal to an accepted one, or disjoint from all of them."""
    position = bisect.bisect_left(taken, edit)
    around = taken[max(0, position - 1) : position + 1]
    return edit in around or not any(_meet(edit, other) for other in around)


def _meet(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]


def _is_worse(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> bool:
    """Whether some rule reports more errors or warnings than before."""
    then, now = _counts(before), _counts(after)
    return any(now[key] > then[key] for key in now)


def _counts(diagnostics: Iterable[Diagnostic]) -> Counter[tuple[str, Severity]]:
    return Counter([(one.rule, one.severity) for one in diagnostics if one.severity is not Severity.INFO])
