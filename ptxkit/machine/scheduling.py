"""Decides which group of lanes runs next.

The group at the lowest block runs first, so that others catch up and lanes reconverge at control-flow merges. A group runs until it
diverges, waits, ends, or reaches another group. Lanes wait in three states:

* `parked`: at an instruction that a warp executes together, until all required lanes have arrived;
* `blocked`: at a barrier or for an asynchronous operation, until that reports them ready;
* `deferred`: a group that iterates a loop while others could run lets them run first, since it may wait for one of them.

If no group can run, asynchronous operations complete, then further CTAs become resident, then lanes with a time limit give up; otherwise it
is a deadlock.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine import calling
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import Body
from ptxkit.machine.ending import check_budget, deadlock, fault_of, late_fault
from ptxkit.machine.fault import Stop
from ptxkit.machine.groups import WARP, Group, Lanes, joined
from ptxkit.machine.monitoring import overrides
from ptxkit.machine.plans import TOP
from ptxkit.machine.residents import Residents
from ptxkit.machine.sides import execute_both, may_execute_both
from ptxkit.machine.standstill import Standstill
from ptxkit.machine.values.distinct import distinct_numbers
from ptxkit.machine.waiting import Blocked, arrive, give_up, go_without_others, meet, wake

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.loading import Program

Array = np.ndarray[Any, Any]
FAR = 1 << 60
LOOK_LANES, LOOK_WORK, LOOK_WATCHED = 1024, 1 << 16, 1 << 13
"""An instruction of n lanes counts as (n + LOOK_LANES) / LOOK_WORK blocks towards the next check of the budget, or / LOOK_WATCHED under
monitors."""
PATIENCE = 4096
"""Number of backward branches that a group may take while others could run."""
FEW = 1024
"""With more threads than this, dead registers are too large to be kept."""


class Scheduler:
    """Runs the resident threads of a launch to completion."""

    def __init__(self, program: Program, launch: Launch, residents: Residents) -> None:
        self.program = program
        self.launch = launch
        self.residents = residents
        self.ready: dict[tuple[int, ...], list[Group]] = {}
        self.parked: dict[tuple[int, ...], Group] = {}
        self.blocked: list[Blocked] = []
        self.deferred: set[tuple[int, ...]] = set()
        self.patience: dict[tuple[int, ...], int] = {}
        self.executed = 0
        self.counting = tuple([monitor for monitor in launch.monitors if overrides(monitor, "block")])
        self.branching = tuple([monitor for monitor in launch.monitors if overrides(monitor, "branch")])
        """The monitors that receive each block."""
        self.current: Group | None = None
        """The group that runs, or ran last."""
        self.steps = 0
        self.operations = 0
        self.next_look = 0
        self.look_work = LOOK_WATCHED if launch.monitors else LOOK_WORK
        self.blanks: dict[int, list[Any]] = {}
        self.exits_seen = -1
        """Exits of threads until lanes that wait for their warp were last looked at."""
        self.standstill = Standstill(launch, residents)
        schedule = launch.schedule
        self.lot = random.Random(schedule) if isinstance(schedule, int) else None
        self.policy = schedule

    # --- from the first to the last thread

    def start(self, lanes: Lanes) -> None:
        """Starts threads at the beginning of the kernel."""
        body = self.program.entry
        registers = list(self.blank(body))
        registers[TOP] = np.uint64(self.program.frames[id(body)])
        if not body.blocks:
            self.residents.exit(lanes)
            return
        self.put(Group(body, 0, lanes, registers, None))

    def run(self) -> None:
        """Runs until all threads have exited. Raises `Fault`."""
        while True:
            group, limit = self.choose()
            if group is None:
                return
            self.advance(group, limit)

    def blank(self, body: Body) -> list[Any]:
        """The initial registers of a function: zeros."""
        found = self.blanks.get(id(body))
        if found is None:
            if self.residents.count > FEW:
                body.liveness.settle()
            zeros = {dtype: np.zeros((), dtype)[()] for dtype in set(body.dtypes)}
            found = self.blanks[id(body)] = [zeros[dtype] for dtype in body.dtypes]
        return found

    def put(self, group: Group) -> None:
        """Adds a runnable group. Groups at the same position are joined when they run."""
        path = group.path
        parked = self.parked.pop(path, None)
        here = self.ready.get(path)
        if here is None:
            self.ready[path] = here = []
        if parked is not None:
            here.append(parked)
        here.append(group)
        self.deferred.discard(path)

    def taken(self, path: tuple[int, ...]) -> Group:
        """Removes and joins the groups at a position."""
        groups = self.ready.pop(path)
        if len(groups) == 1:
            return groups[0]
        first = groups[0]
        return joined(groups, first.body.blocks[first.block].kept, self.blank(first.body))

    def choose(self) -> tuple[Group | None, int]:
        """The next group to run, and the block at which it reaches another group."""
        while True:
            ready = self.ready
            if not ready:
                if not self.unblock():
                    return None, 0
                continue
            if self.lot is not None:
                return self.drawn()
            waiting = [path for path in ready if path not in self.deferred] if self.deferred else ready
            if not waiting:
                self.deferred.clear()
                self.unblock_while_others_spin()
                continue
            path = min(waiting)
            group = self.taken(path)
            limit = FAR
            if len(waiting) > 1 or (waiting is ready and ready):
                depth = len(path) - 1
                rest = [other for other in waiting if other is not path and other[:depth] == path[:depth]]
                if rest:
                    lowest = min(rest)
                    limit = lowest[depth] + (len(lowest) > depth + 1)
            return group, limit

    def drawn(self) -> tuple[Group | None, int]:
        """A random group, sometimes only some of its warps."""
        assert self.lot is not None
        if len(self.ready) < 2 or self.steps % 64 == 0:
            self.unblock_while_others_spin()
        paths = sorted(self.ready)
        path = self.lot.choice(paths)
        group = self.taken(path)
        lanes = group.lanes
        if lanes.count > WARP and self.lot.random() < 0.5:
            warps = lanes.warp
            seed = self.lot.getrandbits(32)
            chosen = ((warps * 0x9E3779B1 + seed) >> 7 & 1).astype(bool)
            if chosen.any() and not chosen.all():
                live, blank = group.body.blocks[group.block].kept, self.blank(group.body)
                self.ready[path] = [group.part(np.flatnonzero(~chosen), None, live, blank)]
                group = group.part(np.flatnonzero(chosen), None, live, blank)
        self.quantum = self.lot.randrange(1, 16)
        return group, -1

    # --- a group

    def advance(self, group: Group, limit: int) -> None:
        """Runs a group until it diverges, waits, ends, or reaches block `limit` or beyond."""
        self.current = group
        body, lanes, registers, b = group.body, group.lanes, group.held, group.block
        blocks = body.blocks
        count = lanes.count
        back = 0
        patience = 0
        while True:
            if b < 0:
                self.finish(group)
                return
            block = blocks[b]
            run = block.run
            try:
                if run is None:
                    run = self.compile(body, block)
                if group.split is not None:
                    group.take(run.loads)
                value = run(registers, lanes)
            except Exception as error:
                group.block = b
                raise fault_of(self, error, group, run) from error
            length = block.end - block.start + (block.last >= 0)
            self.executed += count * length
            if self.counting:
                for monitor in self.counting:
                    monitor.block(lanes, body, block, value)
            self.operations += length
            self.steps += 1
            # check the budget sooner after long blocks and blocks with many lanes
            self.next_look -= length * (count + LOOK_LANES) // self.look_work
            if self.steps >= self.next_look:
                check_budget(self, group, b)
            kind = block.kind
            if kind == "branch":
                if block.guard < 0:
                    n = block.taken
                else:
                    for monitor in self.branching:
                        monitor.branch(lanes, body, block, value)
                    if not value.ndim:
                        n = block.taken if value else block.fall
                    else:
                        n = self.branch(group, block, value)
                        if n == -2:
                            return
            elif kind == "fall":
                n = block.fall
            else:
                group.block = b
                n = self.special(group, block, value)
                if n == -2:
                    return
            if 0 <= n <= b:
                back += 1 + self.residents.polls
                self.residents.polls = 0
                if not patience:
                    patience = self.patience.get(group.path, PATIENCE) if limit >= 0 else FAR
                if back > patience:
                    group.block = n
                    self.defer(group, patience)
                    return
            if n >= 0 and (n >= limit if limit >= 0 else self.exhausted()):
                group.block = n
                self.put(group)
                return
            b = n

    def defer(self, group: Group, patience: int) -> None:
        """Runs other groups before one that has iterated a loop for long, and the next time sooner."""
        path = group.path
        if self.ready or self.blocked or self.parked:
            self.patience[path] = max(4, patience // 4)
        self.put(group)
        self.deferred.add(path)

    def branch(self, group: Group, block: BasicBlock, taken: Array) -> int:
        """Executes a branch that is taken where `taken` says. Returns the next block of the whole group, or -2 if it was split."""
        count = int(np.count_nonzero(taken))
        if count == group.lanes.count:
            return block.taken
        if count == 0:
            return block.fall
        n = execute_both(self, group, block, taken, count) if may_execute_both(self, block) else -2
        if n == -2:
            self.split(group, [(block.fall, np.flatnonzero(~taken)), (block.taken, np.flatnonzero(taken))])
        return n

    def exhausted(self) -> bool:
        self.quantum -= 1
        return self.quantum <= 0

    def split(self, group: Group, parts: list[tuple[int, Array]]) -> None:
        """Sends parts of a group to different blocks."""
        blocks = group.body.blocks
        ends = iter([group.part(positions) for target, positions in parts if target < 0])
        going = [(target, positions) for target, positions in parts if target >= 0]
        each = iter(group.parts(going, [blocks[target].kept for target, _ in going], self.blank(group.body)))
        for target, _ in parts:
            self.go(next(ends if target < 0 else each), target)

    def compile(self, body: Body, block: BasicBlock) -> Any:
        return self.program.compiler(body).block(block)

    def finish(self, group: Group) -> None:
        """A group has reached the end of its function."""
        if group.frame is None:
            self.exit(group.lanes)
        else:
            calling.leave(self, group)

    def exit(self, lanes: Lanes) -> None:
        self.launch.exited(lanes)
        self.residents.exit(lanes)

    def special(self, group: Group, block: BasicBlock, value: Any) -> int:
        """Executes the end of a block that is not a branch. Returns the next block, or -2 if the group does not continue and has been
        handled."""
        kind = block.kind
        if kind == "sync":
            return arrive(self, group, block)
        if kind == "exit":
            self.exit(group.lanes)
            return -2
        if kind == "return":
            self.finish(group)
            return -2
        if kind == "call":
            try:
                calling.call(self, group, block)
            except Exception as error:
                raise fault_of(self, error, group, None, block.last) from error
            return -2
        if kind == "indexed":
            targets = block.targets
            wrong = value >= len(targets)
            if np.any(wrong):
                raise fault_of(
                    self, Stop("branch", "an index beyond the list of targets", wrong if wrong.ndim else None), group, None, block.last
                )
            if not value.ndim:
                return targets[int(value)]
            places = np.array(targets)[value]
            self.split(group, [(int(target), np.flatnonzero(places == target)) for target in distinct_numbers(places)])
            return -2
        raise fault_of(self, Stop("trap", "trap"), group, None, block.last)

    def go(self, group: Group, n: int) -> None:
        """Sends a group to a block."""
        group.block = n
        if n < 0:
            self.finish(group)
        else:
            self.put(group)

    def step_agents(self) -> bool:
        """Lets asynchronous operations progress. Returns whether any did."""
        agents = self.residents.agents
        if agents is None:
            return False
        try:
            return bool(agents.step())
        except Stop as error:
            raise late_fault(self, error) from error

    def finish_agents(self) -> None:
        """Completes all asynchronous operations after the last thread has exited. Raises `Fault`."""
        if self.residents.agents is None:
            return
        try:
            self.residents.agents.finish()
        except Stop as error:
            raise late_fault(self, error) from error

    def unblock_while_others_spin(self) -> None:
        """All runnable groups iterate loops; what they wait for may come from elsewhere. Raises `Fault` if nothing can ever change."""
        self.launch.turns += 1
        if wake(self):
            return
        if self.step_agents():
            wake(self)
            return
        registers = self.snapshot()
        may_wait = self.standstill.loops_wait(registers)
        if self.launch.more_ctas:
            if may_wait:
                self.launch.admit(self)
            return
        self.standstill.watch_clock()
        self.check_progress(registers)

    def check_progress(self, registers: int) -> None:
        """Raises `Fault` if the runnable groups iterate without end."""
        if self.standstill.is_reached(registers):
            raise deadlock(self, "standstill", "the remaining threads iterate forever: nothing that they read changes")

    def snapshot(self) -> int:
        """A hash of everything that the loops of runnable groups depend on: registers and program counters."""
        found = []
        for path in list(self.ready):
            group = self.taken(path)
            self.ready[path] = [group]
            live = group.body.blocks[group.block].registers
            found.append((path, group.lanes.place.tobytes(), tuple([group.registers[i].tobytes() for i in live])))
        return hash(tuple(sorted(found)))

    def unblock(self) -> bool:
        """Called if no group can run. Returns whether one can now, or False if no threads are left. Raises `Fault` for a deadlock."""
        self.launch.turns += 1
        if (self.blocked or self.parked) and wake(self):
            self.standstill.watch_clock()
            if self.standstill.is_idle and not self.launch.more_ctas and not self.step_agents():
                # they only sleep and poll
                self.check_progress(self.snapshot())
            return True
        while self.step_agents():
            if wake(self):
                return True
        if not self.blocked and not self.parked:
            return False
        if self.launch.more_ctas:
            self.launch.admit(self)
            return True
        if go_without_others(self) or meet(self) or give_up(self):
            return True
        raise deadlock(self)
