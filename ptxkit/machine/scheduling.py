"""Decides which group of lanes runs next.

The group at the lowest block runs first, so that others catch up and lanes reconverge at control-flow merges. A group runs until it
diverges, waits, ends, or reaches another group. Lanes wait in three states:

* `parked`: at an instruction that a warp executes together, until all required lanes have arrived; * `blocked`: at a barrier or for an
asynchronous operation, until that reports them ready; * `deferred`: a group that iterates a loop while others could run lets them run
first, since it may wait for one of them.

If no group can run, asynchronous operations complete, then further CTAs become resident, then lanes with a time limit give up; otherwise it
is a deadlock.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine import calling
from ptxkit.machine.barriers import ClusterBarriers, CtaBarriers
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import FIRST, STACK, TOP, Body, Site
from ptxkit.machine.compiling import FILE, Waiting
from ptxkit.machine.fault import SHOWN, Fault, Stop, Thread, Wait
from ptxkit.machine.groups import WARP, Frame, Group, Lanes, joined, take
from ptxkit.machine.monitoring import overrides, used
from ptxkit.machine.values.distinct import are_among, distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.loading import Program

Array = np.ndarray[Any, Any]
FAR = 1 << 60
LOOK_EVERY = 64
"""The budget is checked after this many blocks, or sooner: an instruction of n lanes counts as (n + LOOK_LANES) / LOOK_WORK blocks, or
/ LOOK_WATCHED under monitors."""
LOOK_LANES, LOOK_WORK, LOOK_WATCHED = 1024, 1 << 16, 1 << 13
PATIENCE = 4096
"""Number of backward branches that a group may take while others could run."""
LONG = 64
"""After this many rounds in which all groups iterated and no thread exited, further CTAs become resident, in case the loops wait for
them."""
HASTE = 0.25
"""Under random schedules, the probability that a time-limited wait gives up at once (9.7.14.15.16)."""
ROUNDS = 20_000
"""How often all groups may give up waiting without any change before this is a standstill."""
IDLE = 16
"""After this many rounds without a write, the clock is stopped to find out whether threads wait for anything but time."""
LEAPS = (1 << 40) + (1 << 31) - 1, (1 << 40) + 2_000_000
"""Cycles by which the clock is then advanced: many, both for the 32 bits of `%clock` and for those of `%globaltimer`."""
FEW = 1024
"""With more threads than this, dead registers are too large to be kept."""

SHORT = 16
"""Maximum number of instructions that are executed on both sides of a branch rather than splitting the group."""


class Residents:
    """The resident CTAs, a range of the launch's CTAs. Data of their threads is in columns, indexed by the thread's position among them."""

    def __init__(self, launch: Launch, memory: Any) -> None:
        self.launch = launch
        self.memory = memory
        self.agents: Any = None
        self.elects_last = launch.schedule == "early" or isinstance(launch.schedule, int)
        """Whether `elect.sync` elects the last lane: the ISA does not say which one it is (9.7.14.14)."""
        self.threads = launch.threads
        self.warps_per_cta = -(-launch.threads // WARP)
        self.writes = 0
        self.polls = 0
        """Iterations that an unsuccessful poll counts for, so that other groups run soon."""
        self.exits = 0

    def begin(self, first_cta: int, ctas: int) -> None:
        """Makes CTAs resident, replacing the previous ones."""
        self.first_cta, self.ctas = first_cta, ctas
        self.first = first_cta * self.threads
        self.count = ctas * self.threads
        self._columns: dict[str, Any] = {}
        self._kept: dict[Any, Any] = {}
        self.alive = np.ones(self.count, bool)
        self.alive_count = self.count
        self.alive_of_cta = np.full(ctas, self.threads)
        self.alive_mask = self._masks(ctas)
        self.barriers = CtaBarriers(self)
        self.barriers.grow(ctas)
        self.cluster_barriers = ClusterBarriers(self)
        self.cluster_barriers.grow(ctas, self.count)
        self.all = self.launch.lanes_type(self, np.arange(self.count))
        self.launch.lay_out(self.memory, ctas)

    def grow(self, more: int) -> Lanes:
        """Makes further CTAs resident and returns their lanes."""
        before, threads = self.count, self.threads
        self.ctas += more
        self.count = self.ctas * threads
        self._columns = {}
        new = self.count - before
        self.alive = np.concatenate([self.alive, np.ones(new, bool)])
        self.alive_count += new
        self.alive_of_cta = np.concatenate([self.alive_of_cta, np.full(more, threads)])
        self.alive_mask = np.concatenate([self.alive_mask, self._masks(more)])
        self.barriers.grow(self.ctas)
        self.cluster_barriers.grow(self.ctas, self.count)
        self.exits += 1
        self.all = self.launch.lanes_type(self, np.arange(self.count))
        self.memory.grow(self.ctas)
        new_lanes: Lanes = self.launch.lanes_type(self, np.arange(before, self.count))
        return new_lanes

    def _masks(self, ctas: int) -> Array:
        of_cta = np.full(self.warps_per_cta, 0xFFFFFFFF, np.uint32)
        rest = self.threads % WARP
        if rest:
            of_cta[-1] = (1 << rest) - 1
        return np.tile(of_cta, ctas)

    def groups_per_cta(self, width: int) -> int:
        return int(-(-self.threads // width))

    def exit(self, lanes: Lanes) -> None:
        """These threads have exited."""
        self.exits += 1
        self.alive_count -= lanes.count
        if not self.alive_count:
            return
        self.alive[lanes.place] = False
        self.alive_of_cta -= np.bincount(lanes.cta, minlength=self.ctas)
        self.alive_mask[lanes.warps] &= ~lanes.warp_mask

    def kept(self, key: Any, factory: Callable[[], Any]) -> Any:
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = defaultdict(factory)
        return found

    # --- columns

    def column(self, name: str) -> Array:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._column(name)
        return found

    def _column(self, name: str) -> Array:
        if name == "cta":
            return np.repeat(np.arange(self.ctas), self.threads)
        if name == "thread":
            return np.tile(np.arange(self.threads), self.ctas)
        if name == "lane":
            return self.column("thread") & 31
        if name == "warp":
            return self.column("cta") * self.warps_per_cta + (self.column("thread") >> 5)  # type: ignore[no-any-return]
        raise KeyError(name)

    def special(self, name: str) -> Any:
        """A special register in each thread; a scalar if it is the same in all."""
        found = self._columns.get(name)
        if found is None:
            column = np.asarray(self._special(name)).astype(np.uint32)
            found = column if column.ndim and (column != column[0]).any() else np.uint32(column.flat[0])
            self._columns[name] = found
        return found

    def _special(self, name: str) -> Any:
        launch = self.launch
        stem, _, component = name.partition(".")
        at = "xyz".find(component)
        if stem == "tid":
            thread = self.column("thread")
            x, y, _ = launch.block
            return (thread % x, thread // x % y, thread // (x * y))[at]
        if stem in ("ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank"):
            number = self.first_cta + np.arange(self.ctas)
            per_cta: Any
            if stem == "cluster_ctarank":
                per_cta = number % launch.cluster_size
            else:
                per_cta = launch.places(number)[("ctaid", "clusterid", "cluster_ctaid").index(stem)][at]
            return np.repeat(per_cta, self.threads)
        lane = self.column("lane")
        if name == "laneid":
            return lane
        if name == "warpid":
            return self.column("thread") >> 5
        if name == "smid":
            return (self.first_cta + self.column("cta")) % launch.multiprocessors
        one = np.uint64(1) << lane.astype(np.uint64)
        masks = {"eq": one, "lt": one - 1, "le": 2 * one - 1, "ge": 2**32 - one, "gt": 2**32 - 2 * one}
        return masks[name.removeprefix("lanemask_")]

    def thread_of(self, place: int) -> Thread:
        """The index of the CTA in the grid and of the thread in the CTA."""
        launch = self.launch
        cta, thread = divmod(int(place), self.threads)
        found = launch.places(np.array([self.first_cta + cta]))[0]
        x, y, _ = launch.block
        return (int(found[0][0]), int(found[1][0]), int(found[2][0])), (thread % x, thread // x % y, thread // (x * y))


@attrs.define(eq=False)
class Blocked:
    """Lanes that wait at a barrier or for an asynchronous operation."""

    group: Group
    block: BasicBlock
    wait: Waiting
    arguments: tuple[Any, ...]
    token: Any


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
        """The monitors that receive each block."""
        self.current: Group | None = None
        """The group that runs, or ran last."""
        self.steps = 0
        self.operations = 0
        self.next_look = 0
        self.look_work = LOOK_WATCHED if launch.monitors else LOOK_WORK
        self.blanks: dict[int, list[Any]] = {}
        self.given_up = (0, -1)
        self.given_up_with: Any = None
        self.repeated = 0
        self.exits_seen = -1
        self.spinning: tuple[int, int, int] = (0, 0, -1)
        self.state: Any = None
        self.standing = 0
        self.unchanged = (-1, -1)
        self.idle = 0
        self.leaps = 0
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
                body.settle()
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
        body, lanes, registers, b = group.body, group.lanes, group.registers, group.block
        blocks = body.blocks
        count = lanes.count
        back = 0
        patience = 0
        while True:
            if b < 0:
                group.registers = registers
                self.finish(group)
                return
            block = blocks[b]
            run = block.run
            try:
                if run is None:
                    run = self.compile(body, block)
                value = run(registers, lanes)
            except Exception as error:
                group.block = b
                raise self.fault(error, group, run) from error
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
                self.look(group, b)
            kind = block.kind
            if kind == "branch":
                if block.guard < 0:
                    n = block.taken
                elif not value.ndim:
                    n = block.taken if value else block.fall
                else:
                    true = int(np.count_nonzero(value))
                    if true == count:
                        n = block.taken
                    elif true == 0:
                        n = block.fall
                    elif self.parts_not(block) and (n := self.both_ways(group, block, registers, value, true)) != -2:
                        pass
                    else:
                        group.registers = registers
                        self.split(group, [(block.fall, np.flatnonzero(~value)), (block.taken, np.flatnonzero(value))])
                        return
            elif kind == "fall":
                n = block.fall
            else:
                group.registers = registers
                group.block = b
                n = self.special(group, block, value)
                if n == -2:
                    return
                registers = group.registers
            if n <= b and n >= 0:
                back += 1 + self.residents.polls
                self.residents.polls = 0
                if not patience:
                    patience = self.patience.get(group.path, PATIENCE) if limit >= 0 else FAR
                if back > patience:
                    group.block, group.registers = n, registers
                    path = group.path
                    if self.ready or self.blocked or self.parked:
                        self.patience[path] = max(4, patience // 4)
                    self.put(group)
                    self.deferred.add(path)
                    return
            if n >= limit or limit < 0:
                if limit >= 0 or self.exhausted():
                    if n < 0:
                        b = n
                        continue
                    group.block, group.registers = n, registers
                    self.put(group)
                    return
            b = n

    def exhausted(self) -> bool:
        self.quantum -= 1
        return self.quantum <= 0

    def parts_not(self, block: BasicBlock) -> bool:
        """Whether a group may execute both sides of a branch as a whole, since no monitor counts blocks or steps."""
        return block.both is not False and not self.counting and not self.program.is_stepped

    def both_ways(self, group: Group, block: BasicBlock, registers: list[Any], value: Any, true: int) -> int:
        """If the sides of a branch are short and only compute, all lanes compute both and select their own result, which is cheaper than
        splitting the group.

        Returns the block where the sides merge, or -2 if the sides do not qualify.
        """
        both = block.both
        if both is None:
            both = block.both = self.sides(group.body, block)
            if both is False:
                return -2
        taken, fall, meet, written = both
        lanes = group.lanes
        one = other = registers
        if taken is not None:
            one = list(registers)
            taken.run(one, lanes)
            self.executed += true * (taken.end - taken.start)
        if fall is not None:
            other = list(registers)
            fall.run(other, lanes)
            self.executed += (lanes.count - true) * (fall.end - fall.start)
        for i in written:
            if one[i] is not other[i]:
                registers[i] = np.where(value, one[i], other[i])
        return int(meet)

    def sides(self, body: Body, block: BasicBlock) -> Any:
        """The sides of a branch that only compute, the block where they merge, and the registers needed there; False if the branch does
        not qualify."""
        blocks = body.blocks
        if block.taken < 0 or block.fall < 0:
            return False
        taken, fall = blocks[block.taken], blocks[block.fall]
        if taken.kind == "fall" and taken.fall == block.fall:
            pair: tuple[BasicBlock | None, BasicBlock | None] = (taken, None)
            meet = block.fall
        elif fall.kind == "fall" and fall.fall == block.taken:
            pair, meet = (None, fall), block.taken
        elif taken.kind == fall.kind == "fall" and taken.fall == fall.fall >= 0:
            pair, meet = (taken, fall), taken.fall
        else:
            return False
        written: set[int] = set()
        for side in pair:
            if side is None:
                continue
            if side.end - side.start > SHORT:
                return False
            try:
                run = side.run or self.compile(body, side)
            except Exception:
                return False
            if not run.is_pure:
                return False
            written.update(run.written)
        live = blocks[meet].live
        kept = [i for i in written if i in live]
        if any(body.dtypes[i].kind == "V" for i in kept):
            return False
        return (*pair, meet, kept)

    def split(self, group: Group, parts: list[tuple[int, Array]]) -> None:
        """Sends parts of a group to different blocks."""
        blank = self.blank(group.body)
        blocks = group.body.blocks
        for target, positions in parts:
            if target < 0:
                part = group.part(positions)
                part.block = target
                self.finish(part)
                continue
            part = group.part(positions, None, blocks[target].kept, blank)
            part.block = target
            self.put(part)

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
        """Executes the end of a block that is no branch. Returns the next block, or -2 if the group does not continue and has been
        handled."""
        kind = block.kind
        if kind == "sync":
            return self.arrive(group, block)
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
                raise self.fault(error, group, None, block.last) from error
            return -2
        if kind == "indexed":
            targets = block.targets
            wrong = value >= len(targets)
            if np.any(wrong):
                raise self.fault(
                    Stop("branch", "an index beyond the list of targets", wrong if wrong.ndim else None), group, None, block.last
                )
            if not value.ndim:
                return targets[int(value)]
            places = np.array(targets)[value]
            self.split(group, [(int(target), np.flatnonzero(places == target)) for target in distinct_numbers(places)])
            return -2
        raise self.fault(Stop("trap", "trap"), group, None, block.last)

    # --- waiting

    def arrive(self, group: Group, block: BasicBlock, forced: bool = False) -> int:
        """A group arrives at an instruction at which lanes may wait. Returns the next block, or -2 if some lanes wait."""
        wait: Waiting = block.wait
        lanes = group.lanes
        try:
            arguments = wait.arguments(group.registers, lanes)
            if wait.level and not forced and not self.is_complete(lanes, wait, arguments):
                return self.park(group, wait, arguments)
            semantics = wait.semantics
            if self.program.is_watched:
                lanes = self.watched(group, block, wait, arguments)
            token = None
            if semantics.enter is not None:
                token = semantics.enter(lanes, *arguments)
            if semantics.ready is not None:
                ok = semantics.ready(lanes, token, *arguments)
                if ok is not True and not np.all(ok):
                    return self.block(group, block, wait, arguments, token, ok)
            self.perform(group, wait, arguments, token)
        except Fault:
            raise
        except Exception as error:
            raise self.fault(error, group, None, block.last) from error
        return block.fall

    def watched(self, group: Group, block: BasicBlock, wait: Waiting, arguments: tuple[Any, ...]) -> Lanes:
        """Notifies monitors of an instruction at which lanes may wait. Returns the lanes with their instruction."""
        lanes = group.lanes.on(group.body.sites[block.last])  # type: ignore[attr-defined]
        held = group.body.held
        if held:
            reads, writes = group.body.reads_writes(block.last)
            if (reads | writes) & held and not any(group.body.holds(lanes.site)):
                used(lanes, (reads & held, writes & held))
        for monitor in self.launch.monitors:
            monitor.instruction(lanes, arguments)
        if wait.level and not lanes.is_whole and not self.is_complete(lanes, wait, arguments):
            missing = self.residents.alive_mask[lanes.warps] & ~lanes.warp_mask
            for monitor in self.launch.monitors:
                monitor.partial(lanes, missing)
        return lanes  # type: ignore[no-any-return]

    def perform(self, group: Group, wait: Waiting, arguments: tuple[Any, ...], token: Any) -> None:
        """Executes the instruction and stores its result."""
        semantics = wait.semantics
        extra = (token,) if semantics.takes_token else ()
        lanes = group.lanes
        if self.program.is_watched:
            lanes = lanes.on(group.body.sites[group.body.blocks[group.block].last])  # type: ignore[attr-defined]
            for monitor in self.launch.monitors:
                monitor.passed(lanes, arguments, token)
        result = semantics.run(lanes, *extra, *arguments) if wait.lanes else semantics.run(*extra, *arguments)
        wait.put(group.registers, group.lanes, result)

    def is_complete(self, lanes: Lanes, wait: Waiting, arguments: tuple[Any, ...]) -> bool:
        if wait.level == "warpgroup":
            return lanes.count == self.residents.alive_count or bool(self.present(lanes, wait, arguments).all())
        return lanes.is_whole or bool(self.present(lanes, wait, arguments).all())

    def present(self, lanes: Lanes, wait: Waiting, arguments: tuple[Any, ...]) -> Array:
        """For each lane, whether all lanes that execute the instruction with it have arrived."""
        residents = self.residents
        if wait.level == "warpgroup":
            per_cta = residents.groups_per_cta(4 * WARP)
            group_of = lanes.cta * per_cta + lanes.thread // (4 * WARP)
            here = np.bincount(group_of, minlength=residents.ctas * per_cta)
            everyone = residents.column("cta") * per_cta + residents.column("thread") // (4 * WARP)
            alive = np.bincount(everyone[residents.alive], minlength=residents.ctas * per_cta)
            return (here == alive)[group_of]  # type: ignore[no-any-return]
        missing = residents.alive_mask[lanes.warps] & ~lanes.warp_mask
        missing = lanes.from_warp(missing)
        if wait.members >= 0:
            mask = arguments[wait.members]
            missing = missing & mask.astype(np.uint32)
        return missing == 0  # type: ignore[no-any-return]

    def park(self, group: Group, wait: Waiting, arguments: tuple[Any, ...]) -> int:
        """Parks lanes until others of their warp arrive; complete warps continue."""
        there = self.present(group.lanes, wait, arguments)
        block = group.body.blocks[group.block]
        if there.any():
            part = group.part(np.flatnonzero(there), None, block.kept, self.blank(group.body))
            part.block = group.block
            group = group.part(np.flatnonzero(~there), None, block.kept, self.blank(group.body))
            n = self.arrive(part, block, forced=True)
            if n != -2:
                self.go(part, n)
        if group.path in self.parked:
            # together with lanes that are already parked here, they may be complete
            self.put(group)
        else:
            self.parked[group.path] = group
        return -2

    def go(self, group: Group, n: int) -> None:
        """Sends a group to a block."""
        group.block = n
        if n < 0:
            self.finish(group)
        else:
            self.put(group)

    def block(self, group: Group, block: BasicBlock, wait: Waiting, arguments: tuple[Any, ...], token: Any, ok: Any) -> int:
        """Blocks lanes; those that are ready continue."""
        here = Blocked(group, block, wait, arguments, token)
        if np.any(ok):
            done, here = self.divide(here, ok)
            self.perform(done.group, wait, done.arguments, done.token)
            self.blocked.append(here)
            self.go(done.group, block.fall)
            return -2
        if self.lot is not None and wait.semantics.gives_up and self.lot.random() < HASTE:
            # a time-limited wait may end at any time
            self.perform(here.group, wait, here.arguments, here.token)
            self.go(here.group, block.fall)
            return -2
        self.blocked.append(here)
        return -2

    def divide(self, one: Blocked, ok: Array) -> tuple[Blocked, Blocked]:
        """Separates the lanes that are ready from the others."""
        parts = []
        for positions in (np.flatnonzero(ok), np.flatnonzero(~ok)):
            group = one.group.part(positions)
            arguments = tuple([_part(x, positions) for x in one.arguments])
            parts.append(Blocked(group, one.block, one.wait, arguments, _part(one.token, positions, one.group.lanes.count)))
        return parts[0], parts[1]

    def wake(self) -> bool:
        """Resumes lanes that have become ready. Returns whether there were any."""
        woken = False
        if self.parked and self.exits_seen != self.residents.exits:
            # a lane that they wait for may have exited
            self.exits_seen = self.residents.exits
            for group in list(self.parked.values()):
                wait = group.body.blocks[group.block].wait
                if self.present(group.lanes, wait, wait.arguments(group.registers, group.lanes)).any():
                    del self.parked[group.path]
                    self.put(group)
                    woken = True
        for here in list(self.blocked):
            try:
                ok = here.wait.semantics.ready(here.group.lanes, here.token, *here.arguments)  # type: ignore[misc]
                if ok is False or not np.any(ok):
                    continue
                woken = True
                self.blocked.remove(here)
                if ok is not True and not np.all(ok):
                    here, rest = self.divide(here, np.broadcast_to(ok, here.group.lanes.count))
                    self.blocked.append(rest)
                self.perform(here.group, here.wait, here.arguments, here.token)
            except Fault:
                raise
            except Exception as error:
                raise self.fault(error, here.group, None, here.block.last) from error
            self.go(here.group, here.block.fall)
        return woken

    def step_agents(self) -> bool:
        """Lets asynchronous operations progress. Returns whether any did."""
        agents = self.residents.agents
        if agents is None:
            return False
        try:
            return bool(agents.step())
        except Stop as error:
            raise self.late_fault(error) from error

    def finish_agents(self) -> None:
        """Completes all asynchronous operations after the last thread has exited. Raises `Fault`."""
        if self.residents.agents is None:
            return
        try:
            self.residents.agents.finish()
        except Stop as error:
            raise self.late_fault(error) from error

    def late_fault(self, error: Stop) -> Fault:
        """The fault of an asynchronous operation, with the threads that started it."""
        places = error.lanes.place if error.lanes is not None else np.zeros(0, np.int64)
        site = getattr(error.lanes, "site", None)
        found = Fault(
            error.kind,
            str(error),
            threads=[self.residents.thread_of(place) for place in places[:SHOWN]],
            count=len(places),
            span=self.placed(site) if site is not None else None,
            path=self.program.code.path,
            function=self.program.kernel,
        )
        found.stop = error
        return found

    def unblock_while_others_spin(self) -> None:
        """All runnable groups iterate loops; what they wait for may come from elsewhere. Raises `Fault` if nothing can ever change."""
        self.launch.turns += 1
        if self.wake():
            return
        if self.step_agents():
            self.wake()
            return
        registers, rounds, exits = self.spinning
        now = self.snapshot()
        residents = self.residents
        rounds = rounds + 1 if exits == residents.exits else 0
        self.spinning = (now, rounds, residents.exits)
        if self.launch.more_ctas:
            # with unchanged registers they certainly wait; a loop that counts or backs off may just be long
            if now == registers or rounds % LONG == LONG - 1:
                self.launch.admit(self)
            return
        self.watch_clock()
        self.stand(now)

    def stand(self, now: int) -> None:
        """Raises `Fault` if all groups have returned to the same state, and nothing that they read can change."""
        residents = self.residents
        state = (now, residents.writes, residents.exits, self.clock_reads)
        self.standing = self.standing + 1 if state == self.state else 0
        self.state = state
        if self.standing > 2 and not residents.memory.host and not self.let_time_pass():
            raise self.deadlock("standstill", "the threads that are left iterate without end: nothing that they read changes")

    @property
    def clock_reads(self) -> int:
        """How often the clock was read; constant while the clock is stopped."""
        return self.launch.reads if self.launch.stopped is None else -1

    def watch_clock(self) -> None:
        """Stops the clock after a long time without writes, and restarts it after a write."""
        changed = self.residents.writes, self.residents.exits
        if changed != self.unchanged:
            self.unchanged, self.idle, self.leaps = changed, 0, 0
            self.launch.start_clock()
        self.idle += 1
        if self.idle == IDLE:
            self.launch.stop_clock()

    def let_time_pass(self) -> bool:
        """Advances the stopped clock, in case threads wait for a time. Returns whether they should look again."""
        if self.launch.stopped is None or self.leaps == len(LEAPS):
            return False
        self.launch.leap(LEAPS[self.leaps])
        self.leaps += 1
        self.standing = self.repeated = 0
        return True

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
        if (self.blocked or self.parked) and self.wake():
            self.watch_clock()
            if self.idle > IDLE and not self.launch.more_ctas and not self.step_agents():
                # they only sleep and poll
                self.stand(self.snapshot())
            return True
        while self.step_agents():
            if self.wake():
                return True
        if not self.blocked and not self.parked:
            return False
        if self.launch.more_ctas:
            self.launch.admit(self)
            return True
        for path, group in list(self.parked.items()):
            wait: Waiting = group.body.blocks[group.block].wait
            if wait.members < 0:
                # no mask requires the missing lanes: execute with those that are present
                del self.parked[path]
                n = self.arrive(group, group.body.blocks[group.block], forced=True)
                if n != -2:
                    self.go(group, n)
                return True
        if self.meet() or self.give_up():
            return True
        raise self.deadlock()

    def meet(self) -> bool:
        """The lanes of a mask may execute an operation at several instructions (9.7.10.6, 9.7.14.9). Lanes whose masks are complete
        continue."""
        by_opcode: dict[str, list[Group]] = {}
        for group in self.parked.values():
            block = group.body.blocks[group.block]
            if block.wait.members >= 0 and not block.wait.semantics.enter:
                by_opcode.setdefault(group.body.sites[block.last].bound.opcode, []).append(group)  # type: ignore[union-attr]
        return any(self.met(groups) for groups in by_opcode.values() if len(groups) > 1)

    def met(self, groups: list[Group]) -> bool:
        """Executes an operation for the lanes of several groups whose masks are complete. Returns whether there were any."""
        blocks = [group.body.blocks[group.block] for group in groups]
        places = np.concatenate([group.lanes.place for group in groups])
        order = places.argsort(kind="stable")
        lanes: Any = type(groups[0].lanes)(self.residents, places[order])
        given = [block.wait.arguments(group.registers, group.lanes) for group, block in zip(groups, blocks, strict=True)]
        if any(len(one) != len(given[0]) or None in [x if x is None else 0 for x in one] for one in given):
            return False
        arguments = tuple(
            [
                np.concatenate([group.lanes.broadcast(one[i]) for group, one in zip(groups, given, strict=True)])[order]
                for i in range(len(given[0]))
            ]
        )
        wait: Waiting = blocks[0].wait
        there = self.present(lanes, wait, arguments)
        if not there.any():
            return False
        chosen = np.flatnonzero(there)
        lanes = lanes.at(chosen)
        arguments = tuple([x.take(chosen) for x in arguments])
        seen = lanes
        if self.program.is_watched:
            seen = lanes.on(groups[0].body.sites[blocks[0].last])
            sites = [group.body.sites[block.last] for group, block in zip(groups, blocks, strict=True) for _ in range(group.lanes.count)]
            seen.sites = tuple([sites[position] for position in order[chosen].tolist()])
            for monitor in self.launch.monitors:
                monitor.instruction(seen, arguments)
                monitor.passed(seen, arguments, None)
        results: dict[int, Any] = {}
        going = []
        for group, block in zip(groups, blocks, strict=True):
            mine = are_among(group.lanes.place, lanes.place)
            if not mine.any():
                continue
            del self.parked[group.path]
            part = group.part(np.flatnonzero(mine))
            if not mine.all():
                rest = group.part(np.flatnonzero(~mine))
                self.parked[rest.path] = rest
            try:
                # the same opcode may have several forms, such as `match.all.sync` with and without a predicate
                semantics = block.wait.semantics
                if id(semantics) not in results:
                    results[id(semantics)] = semantics.run(seen, *arguments) if wait.lanes else semantics.run(*arguments)
                result = _part(results[id(semantics)], np.searchsorted(lanes.place, part.lanes.place))
                block.wait.put(part.registers, part.lanes, result)
            except Exception as error:
                raise self.fault(error, part, None, block.last) from error
            going.append((part, block.fall))
        # only now, since one may reach the position of another
        for part, fall in going:
            self.go(part, fall)
        return True

    def give_up(self) -> bool:
        """Lanes with a time-limited wait give up."""
        tired = [here for here in self.blocked if here.wait.semantics.gives_up]
        if not tired:
            return False
        rounds, writes = self.given_up
        rounds = rounds + 1 if writes == self.residents.writes else 1
        self.given_up = (rounds, self.residents.writes)
        self.watch_clock()
        if rounds > ROUNDS or (self.repeats() and not self.let_time_pass()):
            return False
        for here in tired:
            self.blocked.remove(here)
            try:
                self.perform(here.group, here.wait, here.arguments, here.token)
            except Exception as error:
                raise self.fault(error, here.group, None, here.block.last) from error
            self.go(here.group, here.block.fall)
        return True

    def repeats(self) -> bool:
        """Whether all lanes that gave up have returned with the same registers, and nothing else has changed, so that this repeats
        forever."""
        residents = self.residents
        found = []
        for here in self.blocked:
            live = here.block.registers
            found.append((here.group.path, here.group.lanes.place.tobytes(), tuple([here.group.registers[i].tobytes() for i in live])))
        now = (hash(tuple(sorted(found))), residents.writes, residents.exits, self.clock_reads)
        self.repeated = self.repeated + 1 if now == self.given_up_with else 0
        self.given_up_with = now
        return self.repeated > 2 and self.lot is None and not residents.memory.host

    # --- what ends a launch

    def look(self, group: Group, b: int) -> None:
        """Checks the budget."""
        self.next_look = self.steps + LOOK_EVERY
        launch = self.launch
        if launch.progress is not None:
            launch.progress(self)
        budget = launch.budget
        over = ""
        if budget.instructions is not None and self.executed + launch.executed > budget.instructions:
            over = f"more than {budget.instructions} instructions of threads are executed"
        elif budget.operations is not None and self.operations + launch.operations > budget.operations:
            over = f"more than {budget.operations} operations are executed"
        elif budget.seconds is not None and time.thread_time() - launch.started > budget.seconds:
            over = f"it takes more than {budget.seconds:g} seconds"
        if over:
            group.block = b
            raise self.fault(Stop("budget", f"{over}: the budget of the launch is used up"), group, None, group.body.blocks[b].start)

    def deadlock(self, kind: str = "deadlock", reason: str = "deadlock: no thread can continue") -> Fault:
        notes = []
        threads: list[Thread] = []
        total = 0
        first = None
        waits = [(here.group, here.block.last) for here in self.blocked]
        waits += [(group, group.body.blocks[group.block].last) for group in self.parked.values()]
        spinning = len(waits)
        for groups in self.ready.values():
            waits += [(group, group.body.blocks[group.block].start) for group in groups]
        for number, (group, at) in enumerate(waits):
            site = group.body.sites[at]
            line = self.launch.span(site).line
            count = group.lanes.count
            total += count
            few = [self.residents.thread_of(place) for place in group.lanes.place[:SHOWN]]
            threads += few[: max(0, SHOWN - len(threads))]
            first = first or (group, at)
            text = " ".join(site.instruction.body.split()) if hasattr(site.instruction, "body") else site.instruction.opcode.text
            does = "wait" if number < spinning else "iterate"
            notes.append(f"{count} thread{'s' if count > 1 else ''} {does}{'s' if count == 1 else ''} on line {line}: `{text}`")
        assert first is not None
        group, at = first
        exited = self.residents.count - self.residents.alive_count
        if exited:
            notes.append(f"{exited} thread{'s' if exited > 1 else ''} of the resident CTAs have exited")
        found = Fault(
            kind,
            reason,
            threads=threads,
            count=total,
            span=self.placed(group.body.sites[at]),
            path=self.program.codes[id(group.body)].path,
            function=group.body.name,
            notes=notes,
        )
        found.waits = self.waits()
        return found

    def waits(self) -> tuple[Wait, ...]:
        """Where threads wait, and where they iterate."""
        found = [Wait(one.group.lanes, one.group.body.sites[one.block.last], one.arguments, one.token) for one in self.blocked]
        for group in self.parked.values():
            block = group.body.blocks[group.block]
            found.append(Wait(group.lanes, group.body.sites[block.last], block.wait.arguments(group.registers, group.lanes)))
        for groups in self.ready.values():
            for group in groups:
                block = group.body.blocks[group.block]
                sites = group.body.sites
                found.append(Wait(group.lanes, sites[min(block.start, len(sites) - 1)], (), iterates=True))
        return tuple(found)

    def placed(self, site: Site) -> Callable[[], Any]:
        """A function that gives the location of an instruction, without keeping the launch alive."""
        return partial(self.program.codes[id(site.body)].span, site.path)

    def fault(self, error: Exception, group: Group, run: Any, at: int = -1) -> Fault:
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
                at = self.program.compiler(body).first_failing(block, at)
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
            threads=[self.residents.thread_of(place) for place in places[:SHOWN]],
            count=len(places),
            span=self.placed(body.sites[at]) if body.sites else None,
            path=self.program.codes[id(body)].path,
            function=body.name,
            notes=getattr(error, "notes", ()),
        )
        found.stop = error if isinstance(error, Stop) else None
        return found


def _part(x: Any, positions: Array, count: int = -1) -> Any:
    if isinstance(x, tuple):
        return tuple([_part(one, positions, count) for one in x])
    if isinstance(x, np.ndarray) and x.ndim and (count < 0 or len(x) == count):
        return x.take(positions)
    return x


__all__ = ["FIRST", "STACK", "Blocked", "Bound", "Frame", "Residents", "Scheduler", "take"]
