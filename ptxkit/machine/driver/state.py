"""The driver's state: its machine, contexts by thread, objects by handle, and errors."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from ptxkit.frozen import define
from ptxkit.isa.targets import split_target
from ptxkit.machine import Machine
from ptxkit.machine.driver import interface
from ptxkit.machine.driver.interface import Failure
from ptxkit.machine.fault import Fault

DEFAULT_TARGET = "sm_90a"

Thing = TypeVar("Thing")


@define(eq=False)
class Context:
    """A context. `launched` counts what was started in it."""

    device: int = 0
    flags: int = 0
    number: int = 0
    primary: bool = False


@define
class Settings:
    """How kernels run: the target, the schedule, the checks, and the time limit in seconds."""

    target: str = DEFAULT_TARGET
    checks: tuple[str, ...] = ()
    schedule: str | int | None = None
    seconds: float | None = None


class State:
    """The driver state of a process."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.clear()

    def clear(self) -> None:
        """Resets everything, with a new machine."""
        self._machine: Machine | None = None
        self._numbers = itertools.count(1)
        self._things: dict[int, Any] = {}
        self._threads = threading.local()
        self.is_ready = False
        self.primary = Context(primary=True)
        self.retained = 0
        self.memory: dict[int, Any] = {}
        """Allocations (`memory.Held`) by address."""
        self.reserved: dict[int, Any] = {}
        """Reserved address ranges (`virtual.Reserved`), by their start."""
        self.objects: dict[int, Any] = {}
        """Texture and surface objects (`arrays.Object`) by handle."""
        self.pools: dict[str, int] = {}
        """Handles of the predefined pools, and of the `current` one, if that is another."""
        interface.SPOILT.clear()
        self.faults: list[Fault] = []
        self.findings: list[Any] = []
        self.output: list[str] = []
        self.launches = 0
        self.graph_memory = [0, 0, 0, 0]
        """Memory allocated by graphs: bytes in use, their maximum, bytes reserved, their maximum."""
        self.absent: dict[str, int] = {}
        """Number of calls of unsupported functions."""

    @property
    def machine(self) -> Machine:
        """The GPU."""
        if self._machine is None:
            self._machine = Machine(self.settings.target, host_memory=True)
        return self._machine

    @property
    def architecture(self) -> int:
        """90 for sm_90a."""
        return split_target(self.settings.target)[0]

    # --- handles

    def handle(self, thing: Any) -> int:
        """A new handle of an object: the address of existing memory, for programs that read it."""
        room = ctypes.create_string_buffer(64)
        handle = ctypes.addressof(room)
        self._things[handle] = (thing, room)
        return handle

    def of(self, handle: int, kind: type[Thing]) -> Thing:
        """The object of a handle. Raises `Failure` if it is of another kind."""
        found = self._things.get(handle)
        if found is None or not isinstance(found[0], kind):
            raise Failure("INVALID_HANDLE", f"{handle:#x} is not a handle of the kind {kind.__name__}")
        return found[0]

    def find(self, handle: int) -> Any:
        """The object of a handle; None if there is none."""
        found = self._things.get(handle)
        return found[0] if found is not None else None

    def drop(self, handle: int, kind: type[Thing]) -> Thing:
        """Releases a handle. Raises `Failure` if it is of another kind."""
        thing = self.of(handle, kind)
        del self._things[handle]
        return thing

    def handles(self) -> list[int]:
        return list(self._things)

    def number(self) -> int:
        return next(self._numbers)

    # --- contexts

    @property
    def contexts(self) -> list[int]:
        """The handles of a thread's contexts; the last is current."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = []
        return self._threads.contexts  # type: ignore[no-any-return]

    def current(self) -> Context:
        """The current context. Raises `Failure` if there is none."""
        self.ready()
        if not self.contexts or not self.contexts[-1]:
            raise Failure("INVALID_CONTEXT")
        return self.of(self.contexts[-1], Context)

    def ready(self) -> None:
        if not self.is_ready:
            raise Failure("NOT_INITIALIZED")

    # --- what went wrong

    def spoil(self, fault: Fault) -> None:
        """Records a kernel fault: from then on, all calls of this process fail, except queries of the reason."""
        self.faults.append(fault)
        self.findings.extend(fault.findings)
        interface.SPOILT[:] = [result_of(fault)]

    def found(self, findings: Sequence[Any]) -> None:
        self.findings.extend(findings)


def result_of(fault: Fault) -> int:
    """The result code for a kernel that ended with a fault."""
    if fault.kind == "address":
        return Failure("MISALIGNED_ADDRESS" if fault.why == "misaligned" else "ILLEGAL_ADDRESS").code
    if fault.kind in ("budget", "deadlock"):
        return Failure("LAUNCH_TIMEOUT").code
    if fault.kind == "trap":
        return Failure("ILLEGAL_INSTRUCTION").code
    return Failure("LAUNCH_FAILED").code


STATE = State()
