"""What ends a launch before all threads have exited: a fault, a deadlock, or the budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine.code import Site
from ptxkit.machine.fault import SHOWN, Fault, Stop, Thread, Wait
from ptxkit.machine.groups import Group
from ptxkit.machine.writing import FILE

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Scheduler

LOOK_EVERY = 64
"""The budget is checked after this many blocks, or sooner: see `scheduling.LOOK_LANES`."""


def check_budget(scheduler: Scheduler, group: Group, b: int) -> None:
    """Raises `Fault` if the budget of the launch is used up, and reports progress."""
    scheduler.next_look = scheduler.steps + LOOK_EVERY
    launch = scheduler.launch
    if launch.progress is not None:
        launch.progress(scheduler)
    budget = launch.budget
    over = ""
    if budget.instructions is not None and scheduler.executed + launch.executed > budget.instructions:
        over = f"more than {budget.instructions} thread instructions are executed"
    elif budget.operations is not None and scheduler.operations + launch.operations > budget.operations:
        over = f"more than {budget.operations} operations are executed"
    elif budget.seconds is not None and time.thread_time() - launch.started > budget.seconds:
        over = f"it takes more than {budget.seconds:g} seconds"
    if over:
        group.block = b
        raise fault_of(scheduler, Stop("budget", f"{over}: the budget of the launch is used up"), group, None, group.body.blocks[b].start)


def deadlock(scheduler: Scheduler, kind: str = "deadlock", reason: str = "deadlock: no thread can continue") -> Fault:
    """The fault of a launch whose remaining threads all wait, or iterate without end."""
    notes = []
    threads: list[Thread] = []
    total = 0
    first = None
    waits = [(here.group, here.block.last) for here in scheduler.blocked]
    waits += [(group, group.body.blocks[group.block].last) for group in scheduler.parked.values()]
    spinning = len(waits)
    for groups in scheduler.ready.values():
        waits += [(group, group.body.blocks[group.block].start) for group in groups]
    for number, (group, at) in enumerate(waits):
        site = group.body.sites[at]
        line = scheduler.launch.span(site).line
        count = group.lanes.count
        total += count
        few = [scheduler.residents.thread_of(place) for place in group.lanes.place[:SHOWN]]
        threads += few[: max(0, SHOWN - len(threads))]
        first = first or (group, at)
        text = " ".join(site.instruction.body_text.split())
        does = "wait" if number < spinning else "iterate"
        notes.append(f"{count} thread{'s' if count > 1 else ''} {does}{'s' if count == 1 else ''} on line {line}: `{text}`")
    assert first is not None
    group, at = first
    exited = scheduler.residents.count - scheduler.residents.alive_count
    if exited:
        notes.append(f"{exited} thread{'s' if exited > 1 else ''} of the resident CTAs have exited")
    found = Fault(
        kind,
        reason,
        threads=threads,
        count=total,
        span=_placed(scheduler, group.body.sites[at]),
        path=scheduler.program.codes[id(group.body)].path,
        function=group.body.name,
        notes=notes,
    )
    found.waits = _waits(scheduler)
    return found


def _waits(scheduler: Scheduler) -> tuple[Wait, ...]:
    """Where threads wait, and where they iterate."""
    found = [Wait(one.group.lanes, one.group.body.sites[one.block.last], one.arguments, one.token) for one in scheduler.blocked]
    for group in scheduler.parked.values():
        block = group.body.blocks[group.block]
        found.append(Wait(group.lanes, group.body.sites[block.last], block.wait.arguments(group.registers, group.lanes)))
    for groups in scheduler.ready.values():
        for group in groups:
            block = group.body.blocks[group.block]
            sites = group.body.sites
            found.append(Wait(group.lanes, sites[min(block.start, len(sites) - 1)], (), iterates=True))
    return tuple(found)


def _placed(scheduler: Scheduler, site: Site) -> Callable[[], Any]:
    """A function that gives the location of an instruction, without keeping the launch alive."""
    return partial(scheduler.program.codes[id(site.body)].span, site.path)


def fault_of(scheduler: Scheduler, error: Exception, group: Group, run: Any, at: int = -1) -> Fault:
    """Converts an error in compiled code or semantics to a fault with its instruction and threads."""
    if isinstance(error, Fault) and error.is_placed:
        return error
    body = group.body
    if at < 0 and run is not None:
        at = getattr(run, "at", at)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILE:
                at = run.places.get(trace.tb_lineno, at)
            trace = trace.tb_next
    if at < 0:
        block = body.blocks[group.block]
        at = min(block.start, len(body.sites) - 1)
        if run is None:
            # the block could not be compiled: report the first instruction that cannot be executed
            at = scheduler.program.compiler(body).first_failing(block, at)
    lanes = group.lanes
    mask = getattr(error, "mask", None)
    places = lanes.place
    if mask is not None and getattr(mask, "ndim", 0) and len(mask) == len(places):  # type: ignore[arg-type]
        places = places[mask]
    kind = getattr(error, "kind", "") or "internal"
    reason = getattr(error, "reason", "") or str(error)
    if isinstance(error, MemoryError):
        kind, reason = "memory", "there is not enough memory on this computer to go on"
    elif kind == "internal":
        opcode = body.sites[at].instruction.opcode.text if body.sites else ""
        reason = f"`{opcode}` failed inside the machine: {type(error).__name__}: {reason}"
    found = Fault(
        kind,
        reason,
        threads=[scheduler.residents.thread_of(place) for place in places[:SHOWN]],
        count=len(places),
        span=_placed(scheduler, body.sites[at]) if body.sites else None,
        path=scheduler.program.codes[id(body)].path,
        function=body.name,
        notes=getattr(error, "notes", ()),
    )
    found.stop = error if isinstance(error, Stop) else None
    return found


def late_fault(scheduler: Scheduler, error: Stop) -> Fault:
    """The fault of an asynchronous operation, with the threads that started it."""
    places = error.lanes.place if error.lanes is not None else np.zeros(0, np.int64)
    site = getattr(error.lanes, "site", None)
    found = Fault(
        error.kind,
        error.reason,
        threads=[scheduler.residents.thread_of(place) for place in places[:SHOWN]],
        count=len(places),
        span=_placed(scheduler, site) if site is not None else None,
        path=scheduler.program.code.path,
        function=scheduler.program.kernel,
    )
    found.stop = error
    return found
