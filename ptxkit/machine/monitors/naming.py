"""Names in findings: threads by CTA and index, bytes by the variable or buffer that contains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch

Dimensions = tuple[int, int, int]


@frozen
class Side:
    """One of the accesses in a witness. `value` is what it wrote or read, None if unknown."""

    cta: Dimensions
    thread: Dimensions
    line: int
    kind: str
    value: str | None = None

    def as_json(self) -> dict[str, Any]:
        found = {"cta": list(self.cta), "thread": list(self.thread), "line": self.line, "kind": self.kind}
        return found if self.value is None else {**found, "value": self.value}


class Names:
    """The names in a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._parameters = _buffers_of(launch)
        self._shared = launch.program.shared_variables(launch.shared_bytes)

    def thread(self, thread: int) -> tuple[Dimensions, Dimensions]:
        """The CTA of a thread and its index there, from its index in the launch (`lanes.index`)."""
        cta, inside = divmod(thread, self.launch.threads)
        index = self.launch.places(np.array([cta]))[0]
        x, y, _ = self.launch.block
        return (int(index[0][0]), int(index[1][0]), int(index[2][0])), (inside % x, inside // x % y, inside // (x * y))

    def variable(self, space: str, at: int) -> tuple[str, int]:
        """The name of the variable or buffer at an address in the buffer of global or shared memory, and the offset in it; the name is
        empty if there is none."""
        memory = self.launch.machine.memory
        if space == ".global":
            found = memory.allocations.containing(at)
            name = self.buffer(found) if found is not None else ""
            return (name, at - found.start) if found is not None and name else ("", at)
        offset = memory.owner(space, at)[1]
        return next(((name, offset - start) for name, start, size in self._shared if start <= offset < start + size), ("", offset))

    def buffer(self, allocation: Any) -> str:
        """The name of an allocation: that of the parameter that points to it, or else its own."""
        return self._parameters.get(allocation.start, allocation.name)  # type: ignore[no-any-return]

    def bytes_at(self, space: str, start: int, end: int) -> str:
        """The bytes at an address as a hexadecimal number."""
        memory = self.launch.machine.memory
        buffer = memory.globals if space == ".global" else memory.shared
        return hex(int.from_bytes(buffer.span(start, end - start).tobytes(), "little"))


def _buffers_of(launch: Launch) -> dict[int, str]:
    """The kernel's parameters that point to the start of an allocation, by address."""
    found: dict[int, str] = {}
    for name, at, size, _ in launch.program.layout():
        address = int.from_bytes(launch.parameters[at : at + size], "little") if size == 8 else 0
        allocation = launch.machine.memory.allocations.containing(address) if address else None
        if allocation is not None and allocation.start == address:
            found.setdefault(address, name)
    return found
