"""What happened to an mbarrier in a launch, phase by phase."""

from __future__ import annotations

import attrs

from ptxkit.frozen import define


@define
class Phase:
    """What arrived in one phase: `arrivals` of threads, `expected` bytes."""

    parity: int
    arrivals: int = 0
    expected: int = 0


@define
class Use:
    """An mbarrier of the first cluster: its location, and the operations on it by instruction of the kernel."""

    cta: int
    name: str
    init: int
    count: int
    arrives: dict[int, set[int]] = attrs.field(factory=dict)
    waits: dict[int, set[int]] = attrs.field(factory=dict)
    phases: list[Phase] = attrs.field(factory=list)
    """The last one is incomplete."""
    waited: dict[int, int] = attrs.field(factory=dict)
    """By thread, the parity of the phase that it last waited for."""
    stale: dict[int, int] = attrs.field(factory=dict)
    """By thread, a wait for the same parity as the previous one."""
    seen: dict[int, int] = attrs.field(factory=dict)
    """By thread, the last phase that it has waited for."""
    blocked: dict[int, set[int]] = attrs.field(factory=dict)
    """By instruction, the threads that last arrived to wait there."""

    @property
    def completed(self) -> int:
        """Number of completed phases."""
        return len(self.phases) - 1
