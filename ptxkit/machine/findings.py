"""Findings of a launch under monitors: a diagnostic, and the execution that shows it as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Diagnostic
from ptxkit.frozen import frozen
from ptxkit.machine.types import dtype_of

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch


@frozen
class Finding:
    """A finding of a monitor. `witness` describes the execution in JSON-compatible data; `count` says how often the same instructions
    showed it."""

    diagnostic: Diagnostic
    witness: Mapping[str, Any]
    count: int = 1

    def as_json(self) -> dict[str, Any]:
        """The finding as in the JSON output of `ptxkit lint`, with its witness and count."""
        return {**self.diagnostic.as_json(), "witness": dict(self.witness), "count": self.count}


def launch_as_json(launch: Launch) -> dict[str, Any]:
    """The launch in a witness: shape, scalar arguments by name, and schedule (`seed` if it is random)."""
    found: dict[str, Any] = {"kernel": launch.program.kernel, "grid": list(launch.grid), "block": list(launch.block)}
    if launch.is_cluster:
        found["cluster"] = list(launch.cluster)
    if launch.dynamic_shared:
        found["shared"] = launch.dynamic_shared
    found["arguments"] = _scalars(launch)
    found["seed" if isinstance(launch.schedule, int) else "schedule"] = launch.schedule
    return found


def _scalars(launch: Launch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    allocations = launch.machine.memory.allocations
    for name, at, size, symbol in launch.program.layout():
        raw = launch.parameters[at : at + size]
        kind = symbol.type or ".b64"
        if symbol.dimensions or size not in (1, 2, 4, 8):
            continue
        if size == 8 and allocations.containing(int.from_bytes(raw, "little")) is not None:
            continue
        dtype = dtype_of(kind) if kind != ".bf16" else np.dtype(np.uint16)
        found[name] = np.frombuffer(raw, dtype if dtype.itemsize == size else f"u{size}")[0].item()
    return found
