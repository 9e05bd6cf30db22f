"""Range formatting: the formatter changes only white space, so a part of the old text corresponds to a part of the new one."""

from __future__ import annotations

from ptxkit.memo import expression

_WORD = expression(r"\S")


def formatted_part(old: str, new: str, start: int, end: int) -> tuple[int, int, str] | None:
    """The range of the old text, in whole lines, and its replacement; None if nothing changes, or if the texts differ otherwise."""
    if "".join(old.split()) != "".join(new.split()):
        return None
    start = old.rfind("\n", 0, start) + 1
    end = old.find("\n", max(end - 1, start))
    end = len(old) if end < 0 else end
    before, inside = len("".join(old[:start].split())), len("".join(old[start:end].split()))
    if not inside:
        return None
    offsets = [match.start() for match in _WORD.finditer(new)]
    first, last = offsets[before], offsets[before + inside - 1]
    if "\n" in new[offsets[before - 1] + 1 if before else 0 : first]:
        first = new.rfind("\n", 0, first) + 1
    text = new[first : last + 1]
    return None if text == old[start:end] else (start, end, text)
