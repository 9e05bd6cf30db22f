"""One run of a launch, with freshly initialized memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptxkit.analyses.execution.contents import Contents
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.execution.representatives import Classes
from ptxkit.analyses.execution.sides import Side, Sides
from ptxkit.analyses.execution.unknown import UnknownFunctions
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.machine import Budget, Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code


@frozen(eq=False)
class Once:
    """Result of one run. `fault` is what ended it; None if all threads ran to completion."""

    observer: Observer
    fault: Fault | None
    findings: tuple[Finding, ...]
    instructions: int
    seconds: float
    """Processor time."""
    made: tuple[tuple[int, int], ...]
    """Address ranges (start, end) of synthesized memory."""
    starts: Mapping[int, int]
    """The index of the argument that each range belongs to, by its start; variables of the module follow the arguments."""
    not_covered: tuple[str, ...]
    """Descriptions of what the monitors did not check."""
    sides: frozenset[Side] = frozenset()
    """The sides of branches that were taken."""
    result: bytes = b""
    """A digest of the memory that the launch was given, at its end; empty if the order of threads does not matter, or may show in the
    results of a correct kernel."""


def once(
    code: Code,
    launch: Launch,
    schedule: str | int,
    contents: Contents,
    budget: Budget,
    checks: str | Sequence[str] = (),
    classes: Classes | None = None,
    progress: Callable[[Any], None] | None = None,
    first_lines: bool = False,
    most_ctas: int | None = None,
) -> Once:
    """Runs a launch under the monitors named in `checks`, and under an `Observer` with `classes`, `first_lines` and `most_ctas`."""
    from ptxkit.machine import Fault
    from ptxkit.machine.monitors import monitors_of, not_covered

    machine = code.machine
    machine.memory.reserve(launch.memory)
    arguments: list[Any] = []
    made: list[tuple[int, int]] = []
    starts: dict[int, int] = {}
    for number, argument in enumerate(launch.arguments):
        given, mine = argument.argument(machine, contents, number)
        arguments.append(given)
        made += mine
        starts.update([(start, number) for start, _ in mine])
    freed = list(made)
    for number, variable in enumerate(launch.variables, len(arguments)):
        written, mine = variable.placed(code, contents, number)
        made += [*written, *mine]
        freed += mine
        starts.update([(start, number) for start, _ in (*written, *mine)])
    held = tuple([one.write(code) for one in launch.held])
    observer = Observer(tuple(made), classes, UnknownFunctions(contents), first_lines, most_ctas, held)
    sides = Sides()
    monitors = (observer, sides, *(monitors_of(checks) if checks else ()))
    begun = time.thread_time()
    fault: Fault | None = None
    findings: tuple[Finding, ...] = ()
    instructions = 0
    result = b""
    try:
        run = machine.launch(
            code,
            launch.kernel,
            *arguments,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            shared=launch.shared,
            cooperative=launch.cooperative,
            schedule=schedule,
            budget=budget,
            monitors=monitors,
            progress=progress,
        )
        findings, instructions = run.findings, run.instructions
        if checks and observer.depends_on_order and not observer.updates and most_ctas is None:
            result = _digest(machine, freed, arguments)
    except Fault as error:
        fault, findings = error, error.findings
    finally:
        for start, _ in freed:
            machine.free_global(start)
        machine.memory.trim()
    seconds = time.thread_time() - begun
    left_out = tuple(not_covered(monitors))
    return Once(observer, fault, findings, instructions, seconds, tuple(made), starts, left_out, sides.taken, result)


def _digest(machine: Any, ranges: Sequence[tuple[int, int]], arguments: Sequence[Any]) -> bytes:
    """A digest of ranges of global memory, and of the arrays among the arguments, into which a launch writes."""
    import hashlib

    found = hashlib.blake2b(digest_size=16)
    for start, end in ranges:
        found.update(machine.memory.view(start, end - start))
    for one in arguments:
        if hasattr(one, "tobytes"):
            found.update(one.tobytes())
    return found.digest()
