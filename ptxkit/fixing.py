"""Fixes: the edits that findings bring along, applied to a text as far as they leave nothing worse.

A rule makes its edits with `remove`, `replace` and `insert`. `fix` applies those of all findings that do not conflict, has
the result looked at again, and takes it only if no error or warning is new; else it finds out which fix is to blame, and leaves that out.
What is found then may have fixes as well.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ptxkit.diagnostics import Diagnostic, Edit, Fix, Severity
from ptxkit.frozen import frozen
from ptxkit.syntax import Declaration, Declarator, Index, Path

Look = Callable[[str], Sequence[Diagnostic]]
"""Gives the findings of a text: those to be fixed, and all that would show that a fix has broken something."""

MOST_LOOKS = 60
"""A text is not looked at again more often than this."""

_COMMA_AFTER = re.compile(r"\s*,\s*")
_BLANK = re.compile(r"[ \t\r]*\n")
_COMMA_BEFORE = re.compile(r"\s*,\s*\Z")


@frozen
class Fixed:
    """What came of fixing a text."""

    text: str
    applied: tuple[Diagnostic, ...]
    """The findings whose fixes are in it; their locations are those of the text as it was when they were found."""
    refused: tuple[Diagnostic, ...]
    """Those whose fixes would have made something worse."""
    left: tuple[Diagnostic, ...]
    """What is found in it now."""


# --- making edits


def remove(index: Index, path: Path) -> Edit:
    """Takes a statement away, with its line if nothing else stands there; of several declarators of a declaration, one."""
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
    """Where the line of a stretch begins and ends, its end included, if nothing but white space is around it; else None."""
    while start and text[start - 1] in " \t":
        start -= 1
    following = _BLANK.match(text, end)
    if following is None or (start and text[start - 1] != "\n"):
        return None
    return start, following.end()


def replace(index: Index, path: Path, text: str) -> Edit:
    """Puts other text in place of a node."""
    span = index.span(path)
    return Edit(span.start, span.end, text)


def insert_after(index: Index, path: Path, statement: str) -> Edit:
    """Puts a statement on a line of its own behind another, as far from the margin."""
    span = index.span(path)
    start = index.text.rfind("\n", 0, span.start) + 1
    margin = index.text[start : span.start]
    margin = margin[: len(margin) - len(margin.lstrip(" \t"))]
    return Edit(span.end, span.end, f"\n{margin}{statement}")


# --- applying them


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits, which do not overlap; equal ones count once."""
    pieces = []
    at = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end)):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join(pieces) + text[at:]


def fixable(diagnostics: Iterable[Diagnostic], unsafe: bool = False) -> tuple[Diagnostic, ...]:
    """The findings that have a fix; with `unsafe`, those too whose fix may change what the program does."""
    return tuple([one for one in diagnostics if one.fix is not None and (unsafe or one.fix.is_safe)])


def fix(text: str, look: Look, unsafe: bool = False) -> Fixed:
    """Applies the fixes of all that is found, again and again as long as some can be applied.

    A fix is taken only if no rule finds more errors or warnings afterwards than before.
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
    """What a finding is known by though other fixes move it."""
    span = diagnostic.span
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    return diagnostic.rule, diagnostic.message, text[start : end if end >= 0 else len(text)]


def _compatible(candidates: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Findings in the order of their edits, without those whose edits conflict with others'."""
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
    """Whether an edit is one of those that are taken, or apart from all of them."""
    position = bisect.bisect_left(taken, edit)
    around = taken[max(0, position - 1) : position + 1]
    return edit in around or not any(_meet(edit, other) for other in around)


def _meet(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]


def _is_worse(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> bool:
    """Whether some rule finds more errors or warnings than before."""
    then, now = _counts(before), _counts(after)
    return any(now[key] > then[key] for key in now)


def _counts(diagnostics: Iterable[Diagnostic]) -> Counter[tuple[str, Severity]]:
    return Counter([(one.rule, one.severity) for one in diagnostics if one.severity is not Severity.INFO])
