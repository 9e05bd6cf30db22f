"""Kinds of findings about memory ordering."""

from __future__ import annotations

import enum


class FlagFault(enum.StrEnum):
    """Errors in the use of a flag in memory."""

    MISSING_BOUNDS_GUARD = enum.auto()
    WEAK_POLLING = enum.auto()
    PUBLISH_WITHOUT_RELEASE = enum.auto()
