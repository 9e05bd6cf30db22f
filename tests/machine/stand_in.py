"""Lanes without a launch, for tests of what lanes do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ptxkit.machine.asynchronous import Agents
from ptxkit.machine.memory import Memory


class Stopped(Exception):
    """A fault: which lanes, and why."""

    def __init__(self, mask: Any, reason: str) -> None:
        super().__init__(reason)
        self.mask = mask


class Lanes:
    def __init__(self, memory: Memory, cta: Any, thread: Any, state: dict[Any, Any] | None = None) -> None:
        self.memory = memory
        self.cta, self.thread = np.asarray(cta, np.int64), np.asarray(thread, np.int64)
        self.count = len(self.cta)
        self.index = self.cta * memory.threads + self.thread
        self.state = {} if state is None else state
        self.agents = self.state.setdefault("agents", Agents(memory))

        self.place = self.index
        self.residents = SimpleNamespace(polls=0, writes=0)

    def subset(self, mask: Any) -> Lanes:
        return self.at(np.flatnonzero(np.broadcast_to(mask, self.count)))

    def at(self, positions: Any) -> Lanes:
        return Lanes(self.memory, self.cta[positions], self.thread[positions], self.state)

    def broadcast(self, x: Any) -> Any:
        return x if getattr(x, "ndim", 0) else np.full(self.count, x, getattr(x, "dtype", None))

    def fault(self, mask: Any, reason: str, kind: str = "undefined", why: str = "") -> None:
        raise Stopped(mask, reason)

    def load(self, space: str, address: Any, dtype: Any, width: int = 1) -> Any:
        return self.memory.load(self, space, address, dtype, width)

    def store(self, space: str, address: Any, values: Any) -> None:
        self.memory.store(self, space, address, values)

    def update(self, space: str, address: Any, function: Any, dtype: Any = None, *more: Any) -> Any:
        return self.memory.update(self, space, address, function, dtype, *more)


def all_lanes(memory: Memory) -> Lanes:
    """Every resident thread of a memory."""
    number = np.arange(memory.ctas * memory.threads)
    return Lanes(memory, number // memory.threads, number % memory.threads)
