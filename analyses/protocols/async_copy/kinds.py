"""Kinds of findings about asynchronous copies."""

from __future__ import annotations

import enum

COPY, BULK = "cp.async", "bulk"
"""The queues of non-bulk copies, and of bulk copies."""


class CopyFault(enum.StrEnum):
    """Errors of asynchronous copies."""

    CPASYNC_READ_BEFORE_WAIT = enum.auto()
    WAIT_BEFORE_COMMIT = enum.auto()
    WAIT_GROUP_TOO_WEAK = enum.auto()
    COMMITTED_NEVER_WAITED = enum.auto()
    CPASYNC_MISSING_BARRIER_AFTER_WAIT = enum.auto()
    CPASYNC_OVERLAP_IN_GROUP = enum.auto()
    CPASYNC_OPERAND = enum.auto()
    GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE = enum.auto()
    SLOT_REFILL_WITHOUT_BARRIER = enum.auto()
    BULK_SOURCE_OVERWRITTEN = enum.auto()
    BULK_STORE_NOT_COMMITTED = enum.auto()
    BULK_WAIT_BY_NON_ISSUER = enum.auto()
    BULK_STORE_NOT_WAITED_BEFORE_EXIT = enum.auto()
    WRONG_ASYNC_GROUP_KIND = enum.auto()
    BULK_SIZE_ALIGN = enum.auto()
