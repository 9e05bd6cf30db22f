"""Kinds of findings about grids and thread blocks."""

from __future__ import annotations

import enum


class GridFault(enum.StrEnum):
    """Errors between grids, or between thread blocks of a cluster."""

    GRIDDEPCONTROL_MISSING_WAIT = enum.auto()
    GRIDDEPCONTROL_ACCESS_BEFORE_WAIT = enum.auto()
    DSMEM_OWNER_MAY_EXIT = enum.auto()
