"""Kinds of findings between thread blocks."""

from __future__ import annotations

import enum


class GridFault(enum.StrEnum):
    """What goes wrong between grids, or between the thread blocks of a cluster."""

    GRIDDEPCONTROL_MISSING_WAIT = enum.auto()
    GRIDDEPCONTROL_ACCESS_BEFORE_WAIT = enum.auto()
    DSMEM_OWNER_MAY_EXIT = enum.auto()
