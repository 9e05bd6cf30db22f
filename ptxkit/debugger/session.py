"""A debugged launch: started, stopped, resumed, and restarted to step back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

import numpy as np

from ptxkit.debugger.controller import Abandoned, Breakpoint, Controller, Dimensions, Plan, Stop
from ptxkit.debugger.program import Text
from ptxkit.debugger.state import State
from ptxkit.frozen import frozen
from ptxkit.machine.fault import Fault


@frozen(eq=False)
class Debuggee:
    """What is debugged: a module, and a function that runs one launch of it, repeatedly, under some monitors and those of `checks`.

    `run` returns the number of instructions that threads executed, and the output of the kernel. It raises `Fault`, and any other error
    that prevents the run.
    """

    text: Text
    kernel: str
    run: Callable[[tuple[Any, ...], tuple[str, ...]], tuple[int, str]]
    what: str = ""
    """A description of the launch, such as `scale <<<3, 50>>>`."""


class Session:
    """Controls a launch that runs in a separate thread. Between a stop and `resume` it is suspended, and `state` may be inspected."""

    def __init__(self, debuggee: Debuggee, checks: tuple[str, ...] = (), cta: Dimensions = (0, 0, 0)) -> None:
        """`cta` is the index of the CTA to inspect first."""
        self.debuggee = debuggee
        self.text = debuggee.text
        self.checks = checks
        self.cta = cta
        self.stops_on = frozenset(("findings", "faults"))
        self.breakpoints: list[Breakpoint] = []
        self.stops: SimpleQueue[Stop] = SimpleQueue()
        """The stops, in order; the code that resumes takes the next one."""
        self.output = ""
        """The output of the kernel, once the launch has ended."""
        self.could_not_run = False
        self.problems = 0
        """The number of findings and faults at which it has stopped or ended."""
        self.controller: Controller = self._made(Plan())
        self._plans: SimpleQueue[Plan | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_stopped = False
        self.last: Stop | None = None

    # --- running

    def start(self, plan: Plan | None = None) -> None:
        """Starts the launch; without a plan, it stops at the first statement of the chosen CTA."""
        self.end()
        for one in self.breakpoints:
            one.hits = 0
        self.controller = self._made(plan or Plan("entry"))
        self._plans = SimpleQueue()
        self.is_stopped = False
        self._thread = threading.Thread(target=self._run, args=(self.controller, self._plans), daemon=True, name="launch")
        self._thread.start()

    def wait(self, timeout: float | None = None) -> Stop:
        """The next stop. Raises queue.Empty after `timeout` seconds."""
        self.last = stop = self.stops.get(timeout=timeout)
        self.cta = self.controller.index
        return stop

    def resume(self, plan: Plan) -> None:
        """Continues until the next stop."""
        self.is_stopped = False
        self._plans.put(plan)

    def interrupt(self) -> None:
        """Stops at the next statement."""
        self.controller.interrupted = True

    def end(self) -> None:
        """Ends the launch, in any state."""
        if self._thread is None or not self._thread.is_alive():
            return
        self.controller.breakpoints, self.controller.stops_on = [], frozenset()
        self.controller.changed()
        self.controller.wait = _abandon
        self.controller.interrupted = True
        self._plans.put(None)
        self._thread.join(timeout=30)

    def _made(self, plan: Plan) -> Controller:
        return Controller(self.text, self.cta, plan, self.breakpoints, self.stops_on, self._stopped)

    def _stopped(self, stop: Stop) -> Plan:
        """Waits for a plan, in the launch's thread."""
        if stop.reason in ("finding", "fault"):
            self.problems += 1
        plans = self._plans
        self.is_stopped = True
        self.stops.put(stop)
        plan = plans.get()
        if plan is None:
            raise Abandoned
        return plan

    def _run(self, controller: Controller, plans: SimpleQueue[Plan | None]) -> None:
        try:
            instructions, printed = self.debuggee.run((controller,), self.checks)
        except Abandoned:
            return
        except Fault as fault:
            self.problems += "faults" not in controller.stops_on
            self.could_not_run |= controller.launch is None
            stop = Stop("end", str(fault), fault=fault.detached())
        except Exception as error:
            self.could_not_run = True
            stop = Stop("end", f"the launch cannot run: {error}")
        else:
            self.output = printed
            stop = Stop("end", f"{instructions:,} instructions of threads")
        controller.is_over = True
        self.stops.put(stop)

    # --- plans

    @property
    def is_over(self) -> bool:
        """Whether the launch has ended: only its past can be inspected."""
        return self.controller.is_over

    @property
    def state(self) -> State:
        """The state at the current stop."""
        return State(self.controller)

    def step(self, how: str, warp: int, by_source: bool = False) -> None:
        """Resumes until the converged threads of a warp have made a step: `into`, `over`, `out`."""
        state = self.state
        parts = state.parts(warp)
        if not parts:
            self.resume(Plan("continue"))
            return
        part = parts[0]
        depth = part.frame.depth if part.frame is not None else 0
        line = None
        if by_source and how != "out":
            origin = state.statement(part.body, part.i).origin
            line = (origin.path, origin.line) if origin is not None else None
        self.resume(Plan(how, part.threads, depth, line))

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> None:
        """Replaces all breakpoints."""
        self.breakpoints = list(breakpoints)
        self.controller.breakpoints = self.breakpoints
        self.controller.changed()

    def stop_on(self, what: frozenset[str]) -> None:
        """What it stops at besides breakpoints: `findings`, `faults`."""
        self.stops_on = self.controller.stops_on = what

    def choose(self, cta: Dimensions) -> None:
        """Selects another CTA."""
        self.cta = cta
        self.controller.choose(cta)

    # --- backwards

    def back(self, warp: int) -> int:
        """Restarts up to the previous statement of a warp, at the current call depth or a lower one; returns its number.

        0, without any effect, if there is none.
        """
        controller = self.controller
        numbers, _, warps, depths = self._traced()
        earlier = np.flatnonzero((numbers < self._now()) & (warps >> warp & 1).astype(bool))
        if not controller.is_over and len(earlier):
            parts = self.state.parts(warp)
            depth = (parts[0].frame.depth if parts[0].frame is not None else 0) if parts else 0
            shallow = earlier[depths[earlier] <= depth]
            earlier = shallow if len(shallow) else earlier
        if not len(earlier):
            return 0
        number = int(numbers[earlier[-1]])
        self.go_to(number)
        return number

    def back_to_breakpoint(self) -> int:
        """Restarts up to the last breakpoint before the current statement, or to the first statement if there is none; returns its
        number."""
        now = self._now()
        numbers, paths, _, _ = self._traced()
        wanted = {path for one in self.breakpoints for path in one.paths}
        known = [number for number, path in enumerate(self.controller.paths) if path in wanted]
        there = numbers[np.isin(paths, known) & (numbers < now)]
        if len(there) and any(one.condition is not None for one in self.breakpoints):
            there = self._holding(there)
        number = int(there[-1]) if len(there) else int(numbers[0]) if len(numbers) else 1
        self.go_to(number)
        return number

    def _holding(self, numbers: Any) -> Any:
        """Those of the numbered statements at which a breakpoint's condition holds, determined by a separate run."""
        wanted = set(numbers.tolist())
        last = int(numbers[-1])
        found: list[int] = []

        def wait(stop: Stop) -> Plan:
            here = controller.number
            if here in wanted and any(
                controller.body is not None
                and controller.body.sites[controller.i].path in one.paths
                and (one.condition is None or one.condition(controller))
                for one in self.breakpoints
            ):
                found.append(here)
            later = [number for number in numbers.tolist() if number > here]
            if here >= last or not later:
                raise Abandoned
            return Plan("to", number=later[0])

        self.end()
        controller = Controller(self.text, self.cta, Plan("to", number=int(numbers[0])), [], frozenset(), wait)
        try:
            self.debuggee.run((controller,), self.checks)
        except (Abandoned, Fault):
            pass
        return np.array(found, np.int64)

    def go_to(self, number: int) -> None:
        """Restarts up to the statement of a number."""
        self.start(Plan("to", number=max(1, number)))

    def _now(self) -> int:
        """The number of the current statement; for a launch that has ended, one more than that of the last."""
        return self.controller.number + (1 if self.controller.is_over else 0)

    def _traced(self) -> tuple[Any, Any, Any, Any]:
        trace = self.controller.trace
        return (
            np.array(trace.numbers, np.int64),
            np.array(trace.paths, np.int64),
            np.array(trace.warps, np.int64),
            np.array(trace.depths, np.int64),
        )


def _abandon(stop: Stop) -> Plan:
    raise Abandoned
