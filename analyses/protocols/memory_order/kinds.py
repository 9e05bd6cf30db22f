"""Kinds of findings about the order of accesses to memory."""

from __future__ import annotations

import enum


class FlagFault(enum.StrEnum):
    """What goes wrong with a flag in memory."""

    MISSING_BOUNDS_GUARD = enum.auto()
    WEAK_POLLING = enum.auto()
    PUBLISH_WITHOUT_RELEASE = enum.auto()
