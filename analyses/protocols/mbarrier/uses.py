"""What was done to an mbarrier in a launch, phase by phase."""

from __future__ import annotations

import attrs


@attrs.define
class Phase:
    """What came in one phase: `arrivals` of threads, `expected` bytes."""

    parity: int
    arrivals: int = 0
    expected: int = 0


@attrs.define
class Use:
    """An mbarrier of the first cluster: where it lies, what was done to it, by instruction of the kernel."""

    cta: int
    name: str
    init: int
    count: int
    arrives: dict[int, set[int]] = attrs.field(factory=dict)
    waits: dict[int, set[int]] = attrs.field(factory=dict)
    phases: list[Phase] = attrs.field(factory=list)
    """The last one has not completed."""
    waited: dict[int, int] = attrs.field(factory=dict)
    """By thread, the parity of the phase for which it waited last."""
    stale: dict[int, int] = attrs.field(factory=dict)
    """By thread, a wait for the same parity as the one before."""
    seen: dict[int, int] = attrs.field(factory=dict)
    """By thread, the last phase that it has waited for."""
    blocked: dict[int, set[int]] = attrs.field(factory=dict)
    """By instruction, the threads that have come to wait there last."""

    @property
    def completed(self) -> int:
        """How many phases have completed."""
        return len(self.phases) - 1
