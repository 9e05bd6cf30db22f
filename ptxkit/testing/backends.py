"""Backends for kernel tests: the machine, under all monitors, or a GPU. Loaded on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.frozen import define

if TYPE_CHECKING:
    from ptxkit.rewriters.profiling.device import Device
    from ptxkit.syntax import Module

Size = int | tuple[int, ...]
BACKENDS = ("auto", "machine", "gpu")
SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1)
"""The schedules, of threads and of operations in flight, under which `assert_equal_on` runs a kernel on the machine."""
SHOWN = 5
"""Maximum number of findings in the message."""


class FindingsError(AssertionError):
    """Monitors reported `findings` in a launch."""

    def __init__(self, kernel: str, findings: Sequence[Any]) -> None:
        said = [
            f"  line {one.diagnostic.span.line}: {one.diagnostic.severity}[{one.diagnostic.name}] {one.diagnostic.message}"
            for one in findings[:SHOWN]
        ]
        more = [f"  and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
        super().__init__("\n".join([f"{kernel}:", *said, *more]))
        self.findings = tuple(findings)


@define
class Backend:
    """Runs kernels on the `machine` or a `gpu`. On the machine, `checks` are the monitors, and any finding fails the launch."""

    on: str
    target: str | None = None
    """The GPU that the machine emulates; None for the target of each module."""
    checks: str | tuple[str, ...] = "all"
    schedule: str | int | None = None
    budget: float = 60.0
    """Time limit for one launch on the machine, in seconds."""
    _device: Device | None = None

    def launch(
        self,
        module: str | Module,
        kernel: str,
        *arguments: Any,
        grid: Size = 1,
        block: Size = 32,
        cluster: Size | None = None,
        shared: int = 0,
    ) -> None:
        """Launches a kernel and waits for it.

        Arrays (NumPy, or anything with the buffer protocol) are copied in and, if writable, back; numbers are converted to the declared
        type of their parameter.

        Raises FindingsError for findings of monitors; `ptxkit.machine.Fault`, or on a GPU DeviceError, for a kernel that faults; ValueError
        for a module with errors.
        """
        __tracebackhide__ = True
        found = _module(module)
        if self.on == "gpu":
            from ptxkit.rewriters.running import launched

            launched(self.device, found, kernel, *arguments, grid=grid, block=block, cluster=cluster, shared=shared)
            return
        from ptxkit.diagnostics import Severity
        from ptxkit.machine import Machine

        machine = Machine(self.target or next((word for word in found.targets if word.startswith("sm_")), "sm_90a"))
        shape = {"grid": grid, "block": block, "cluster": cluster, "shared": shared}
        how = {"schedule": self.schedule, "budget": self.budget, "checks": self.checks}
        run = machine.launch(machine.load(found), kernel, *arguments, **shape, **how)  # type: ignore[arg-type]
        wrong = [one for one in run.findings if one.diagnostic.severity is not Severity.INFO]
        if wrong:
            raise FindingsError(kernel, wrong)

    @property
    def device(self) -> Device:
        """The GPU. Raises NoDevice."""
        from ptxkit.rewriters.profiling.device import Device

        self._device = self._device or Device()
        return self._device

    def __str__(self) -> str:
        words = [self.on, *([self.target] if self.target else []), *([f"schedule {self.schedule}"] if self.schedule is not None else [])]
        return " ".join(words)


def backend(on: str = "auto", target: str | None = None, checks: str | tuple[str, ...] = "all") -> Backend:
    """The backend of a name: `machine`, `gpu`, or `auto` for a GPU if there is one. Raises ValueError for other names; NoDevice for
    `gpu` without a GPU."""
    if on not in BACKENDS:
        raise ValueError(f"{on!r} is none of {', '.join(BACKENDS)}")
    if on == "machine":
        return Backend("machine", target, checks)
    from ptxkit.rewriters.profiling.device import NoDevice

    found = Backend("gpu", target, checks)
    try:
        _ = found.device
    except NoDevice:
        if on == "gpu":
            raise
        return Backend("machine", target, checks)
    return found


def assert_equal_on(
    backends: Sequence[Backend | str],
    module: str | Module,
    kernel: str,
    *arguments: Any,
    expected: Mapping[int, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    schedules: Sequence[str | int] = SCHEDULES,
    grid: Size = 1,
    block: Size = 32,
    cluster: Size | None = None,
    shared: int = 0,
) -> None:
    """Asserts that a kernel leaves the same array contents on all backends, and under all `schedules` of the machine.

    Each launch starts from the same arguments, which are not modified.

    `expected` are the expected arrays, by index of the argument. Floats may differ by `atol + rtol * |x|`, where x is the expected value,
    or that of the first backend. Raises AssertionError with the backends, the argument and the first element that differs, and the
    exceptions of `Backend.launch`.
    """
    import numpy as np

    __tracebackhide__ = True
    shape = {"grid": grid, "block": block, "cluster": cluster, "shared": shared}
    first: tuple[str, dict[int, Any]] | None = None
    for one in _each(backends, schedules):
        given = [np.array(argument, copy=True) if isinstance(argument, np.ndarray) else argument for argument in arguments]
        one.launch(module, kernel, *given, **shape)  # type: ignore[arg-type]
        left = {i: argument for i, argument in enumerate(given) if isinstance(argument, np.ndarray)}
        if expected is not None:
            _same("expected", {i: np.asarray(array) for i, array in expected.items()}, str(one), left, rtol, atol)
        if first is None:
            first = (str(one), left)
        else:
            _same(*first, str(one), left, rtol, atol)


def _each(backends: Sequence[Backend | str], schedules: Sequence[str | int]) -> list[Backend]:
    """The backends, with the machine once for each schedule."""
    found: list[Backend] = []
    for one in backends:
        where = backend(one) if isinstance(one, str) else one
        found += [where] if where.on == "gpu" else [attrs.evolve(where, schedule=schedule) for schedule in schedules]
    if not found:
        raise ValueError("no backend was given")
    return found


def _same(name: str, wanted: Mapping[int, Any], other: str, left: Mapping[int, Any], rtol: float, atol: float) -> None:
    """Raises AssertionError with the first element that differs."""
    import numpy as np

    __tracebackhide__ = True
    for i, array in wanted.items():
        if i not in left:
            raise ValueError(f"argument {i} is not an array")
        found = left[i]
        if array.shape != found.shape:
            raise AssertionError(f"argument {i}: {name} has shape {array.shape}, {other} {found.shape}")
        is_float = found.dtype.kind == "f"
        # without tolerance, bits are compared: NaN equals itself
        same = (
            np.isclose(found, array, rtol, atol, equal_nan=True)
            if is_float and (rtol or atol)
            else (found == array) | _both_nan(array, found)
        )
        if not same.all():
            at = np.unravel_index(int(np.argmin(same)), same.shape)
            where = ", ".join(map(str, at))
            differs = f"argument {i}: {int((~same).sum())} of {same.size} elements differ"
            raise AssertionError(f"{differs}; [{where}] is {array[at]} ({name}) and {found[at]} ({other})")


def _both_nan(array: Any, found: Any) -> Any:
    return (array != array) & (found != found)


def _module(subject: str | Module) -> Module:
    from ptxkit.syntax import parse

    return parse(subject) if isinstance(subject, str) else subject
