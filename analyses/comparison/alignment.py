"""Sequence alignment: which elements of two sequences correspond.

Elements that are unique in both sequences anchor the rest (patience diff); between anchors, Myers' greedy search is used, or, where that
would take long, elements that occur equally often in both.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]

MOST_EDITS = 400
"""Maximum number of insertions and deletions in Myers' search; its time and memory grow quadratically with it."""


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Pairs of indices of equal elements, ascending in both. O(n log n), except for large differences in elements that are never unique."""
    found: list[Pair] = []
    work = [(0, len(a), 0, len(b))]
    while work:
        a0, a1, b0, b1 = work.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            found.append((a0, b0))
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
            found.append((a1, b1))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, (a0, a1, b0, b1), 1)
        if not anchors:
            between = _myers(a[a0:a1], b[b0:b1])
            if between is not None:
                found += [(a0 + i, b0 + j) for i, j in between]
                continue
            anchors = _anchors(a, b, (a0, a1, b0, b1), len(a))
        for i, j in [*anchors, (a1, b1)] if anchors else ():
            work.append((a0, i, b0, j))
            a0, b0 = i + 1, j + 1
        found += anchors
    found.sort()
    return found


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], part: tuple[int, int, int, int], most: int) -> list[Pair]:
    """Pairs, ascending in both, of elements that occur equally often in both parts, and at most `most` times."""
    a0, a1, b0, b1 = part
    in_a, in_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    indices: dict[Hashable, list[int]] = {}
    for j in range(b0, b1):
        if in_a[b[j]] == in_b[b[j]] <= most:
            indices.setdefault(b[j], []).append(j)
    rest = {element: iter(where) for element, where in indices.items()}
    return _rising([(i, next(rest[a[i]])) for i in range(a0, a1) if a[i] in rest])


def _rising(pairs: list[Pair]) -> list[Pair]:
    """The longest subsequence of pairs, sorted by the first index, that also ascends in the second."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(pairs):
        at = bisect.bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(j)
            last.append(k)
        else:
            ends[at], last[at] = j, k
    found = []
    k = last[-1] if last else -1
    while k >= 0:
        found.append(pairs[k])
        k = before[k]
    return found[::-1]


def _myers(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair] | None:
    """The pairs of a longest common subsequence, or None if more than MOST_EDITS elements are in one only (Myers 1986)."""
    ends = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(MOST_EDITS, len(a) + len(b)) + 1):
        trace.append(dict(ends))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and ends[k - 1] < ends[k + 1])
            x = ends[k + 1] if down else ends[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            ends[k] = x
            if x >= len(a) and y >= len(b):
                return _backwards(trace, len(a), len(b))
    return None


def _backwards(trace: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    found = []
    for edits in range(len(trace) - 1, -1, -1):
        ends, k = trace[edits], x - y
        down = k == -edits or (k != edits and ends[k - 1] < ends[k + 1])
        earlier = k + 1 if down else k - 1
        from_x = ends[earlier]
        from_y = from_x - earlier
        while x > max(from_x, 0) and y > max(from_y, 0):
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = from_x, from_y
    return found[::-1]
