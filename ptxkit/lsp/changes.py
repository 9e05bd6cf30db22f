"""Differences between two versions of a text."""

from __future__ import annotations

from ptxkit.frozen import frozen


class Outdated(Exception):
    """The text has changed: results for the old version are no longer wanted."""


@frozen
class Change:
    """A range of lines that changed; the text before and after it did not."""

    start: int
    old_end: int
    new_end: int

    def before(self, offset: int) -> int | None:
        """The old offset for an offset of the new text; None in a changed line."""
        if offset < self.start:
            return offset
        return offset - self.new_end + self.old_end if offset >= self.new_end else None

    def after(self, offset: int) -> int | None:
        """The new offset for an offset of the old text; None in a changed line."""
        if offset < self.start:
            return offset
        return offset - self.old_end + self.new_end if offset >= self.old_end else None


NONE = Change(0, 0, 0)
"""No change."""


def changed(old: str, new: str) -> Change:
    """The range of lines in which two texts differ."""
    start = _same(old, new)
    start = old.rfind("\n", 0, start) + 1
    end = _same(old, new, start)
    end = len(old) - old.find("\n", len(old) - end) if "\n" in old[len(old) - end :] else 0
    return Change(start, len(old) - end, len(new) - end)


def _same(old: str, new: str, start: int | None = None) -> int:
    """The length of the common prefix; with `start`, of the common suffix after it."""
    least, most = 0, min(len(old), len(new)) - (start or 0)
    while least < most:
        middle = (least + most + 1) // 2
        if start is None:
            are_same = old[least:middle] == new[least:middle]
        else:
            are_same = old[len(old) - middle : len(old) - least] == new[len(new) - middle : len(new) - least]
        least, most = (middle, most) if are_same else (least, middle - 1)
    return least
