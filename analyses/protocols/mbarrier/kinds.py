"""Kinds of findings about mbarriers, and about data races shown by a run."""

from __future__ import annotations

import enum


class RaceFault(enum.StrEnum):
    """Kinds of data races, by the threads involved."""

    DSMEM_ACCESS_UNSYNCHRONISED = enum.auto()
    SMEM_RACE = enum.auto()
    IMPLICIT_WARP_SYNCHRONY = enum.auto()


class MbarrierFault(enum.StrEnum):
    """Errors in the use of an mbarrier."""

    MBARRIER_USE_BEFORE_INIT = enum.auto()
    MBARRIER_INIT_NOT_PUBLISHED = enum.auto()
    MBARRIER_INIT_FENCE = enum.auto()
    MBARRIER_DOUBLE_INIT = enum.auto()
    MBARRIER_ARRIVE_COUNT = enum.auto()
    EXPECT_TX_VS_BYTES = enum.auto()
    TX_WITHOUT_EXPECT = enum.auto()
    MBARRIER_PARITY = enum.auto()
    WAIT_NEVER_ARRIVED = enum.auto()
    TRY_WAIT_NOT_RETRIED = enum.auto()
    MBARRIER_STORAGE_REUSE = enum.auto()
    MBARRIER_ALIGNMENT = enum.auto()
    MBARRIER_COUNT_RANGE = enum.auto()
    MBARRIER_REMOTE_FORM = enum.auto()
    NO_COMPLETE_COMPLETES_PHASE = enum.auto()
    MBARRIER_PARITY_RANGE = enum.auto()
    SLOT_RELEASED_BEFORE_LAST_READ = enum.auto()
    ASYNC_DATA_READ_WITHOUT_WAIT = enum.auto()
    MBARRIER_SCOPE_TOO_NARROW = enum.auto()
