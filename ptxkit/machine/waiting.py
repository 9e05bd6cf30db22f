"""Lanes that wait: for the rest of their warp, at a barrier, or for an asynchronous operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.compiling import Waiting
from ptxkit.machine.ending import fault_of
from ptxkit.machine.fault import Fault
from ptxkit.machine.groups import WARP, Group, Lanes, taken
from ptxkit.machine.monitoring import used
from ptxkit.machine.values.distinct import are_among

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Scheduler

Array = np.ndarray[Any, Any]
HASTE = 0.25
"""Under random schedules, the probability that a time-limited wait gives up at once (9.7.14.15.16)."""


@define(eq=False)
class Blocked:
    """Lanes that wait at a barrier or for an asynchronous operation."""

    group: Group
    block: BasicBlock
    wait: Waiting
    arguments: tuple[Any, ...]
    token: Any


def arrive(scheduler: Scheduler, group: Group, block: BasicBlock, forced: bool = False) -> int:
    """A group arrives at an instruction at which lanes may wait. Returns the next block, or -2 if some lanes wait."""
    wait: Waiting = block.wait
    lanes = group.lanes
    try:
        arguments = wait.arguments(group.registers, lanes)
        if wait.level and not forced and not _is_complete(scheduler, lanes, wait, arguments):
            return _park(scheduler, group, wait, arguments)
        semantics = wait.semantics
        if scheduler.program.is_watched:
            lanes = _watched(scheduler, group, block, wait, arguments)
        token = None
        if semantics.enter is not None:
            token = semantics.enter(lanes, *arguments)
        if semantics.ready is not None:
            ok = semantics.ready(lanes, token, *arguments)
            if ok is not True and not np.all(ok):
                return _block(scheduler, group, block, wait, arguments, token, ok)
        _perform(scheduler, group, wait, arguments, token)
    except Fault:
        raise
    except Exception as error:
        raise fault_of(scheduler, error, group, None, block.last) from error
    return block.fall


def _watched(scheduler: Scheduler, group: Group, block: BasicBlock, wait: Waiting, arguments: tuple[Any, ...]) -> Lanes:
    """Notifies monitors of an instruction at which lanes may wait. Returns the lanes with their instruction."""
    lanes = group.lanes.on(group.body.sites[block.last])  # type: ignore[attr-defined]
    if wait.held is not None:
        used(lanes, wait.held)
    for monitor in scheduler.launch.monitors:
        monitor.instruction(lanes, arguments)
    if wait.level and not lanes.is_whole and not _is_complete(scheduler, lanes, wait, arguments):
        missing = scheduler.residents.alive_mask[lanes.warps] & ~lanes.warp_mask
        for monitor in scheduler.launch.monitors:
            monitor.partial(lanes, missing)
    return lanes  # type: ignore[no-any-return]


def _perform(scheduler: Scheduler, group: Group, wait: Waiting, arguments: tuple[Any, ...], token: Any) -> None:
    """Executes the instruction and stores its result."""
    semantics = wait.semantics
    extra = (token,) if semantics.takes_token else ()
    lanes = group.lanes
    if scheduler.program.is_watched:
        lanes = lanes.on(group.body.sites[group.body.blocks[group.block].last])  # type: ignore[attr-defined]
        for monitor in scheduler.launch.monitors:
            monitor.passed(lanes, arguments, token)
    result = semantics.run(lanes, *extra, *arguments) if wait.lanes else semantics.run(*extra, *arguments)
    wait.put(group.registers, group.lanes, result)


def _is_complete(scheduler: Scheduler, lanes: Lanes, wait: Waiting, arguments: tuple[Any, ...]) -> bool:
    if wait.level == "warpgroup":
        return lanes.count == scheduler.residents.alive_count or bool(_present(scheduler, lanes, wait, arguments).all())
    return lanes.is_whole or bool(_present(scheduler, lanes, wait, arguments).all())


def _present(scheduler: Scheduler, lanes: Lanes, wait: Waiting, arguments: tuple[Any, ...]) -> Array:
    """For each lane, whether all lanes that execute the instruction with it have arrived."""
    residents = scheduler.residents
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


def _park(scheduler: Scheduler, group: Group, wait: Waiting, arguments: tuple[Any, ...]) -> int:
    """Parks lanes until others of their warp arrive; complete warps continue."""
    there = _present(scheduler, group.lanes, wait, arguments)
    block = group.body.blocks[group.block]
    if there.any():
        part = group.part(np.flatnonzero(there), None, block.kept, scheduler.blank(group.body))
        part.block = group.block
        group = group.part(np.flatnonzero(~there), None, block.kept, scheduler.blank(group.body))
        n = arrive(scheduler, part, block, forced=True)
        if n != -2:
            scheduler.go(part, n)
    if group.path in scheduler.parked:
        # together with lanes that are already parked here, they may be complete
        scheduler.put(group)
    else:
        scheduler.parked[group.path] = group
    return -2


def _block(scheduler: Scheduler, group: Group, block: BasicBlock, wait: Waiting, arguments: tuple[Any, ...], token: Any, ok: Any) -> int:
    """Blocks lanes; those that are ready continue."""
    here = Blocked(group, block, wait, arguments, token)
    if np.any(ok):
        done, here = _divide(scheduler, here, ok)
        _perform(scheduler, done.group, wait, done.arguments, done.token)
        scheduler.blocked.append(here)
        scheduler.go(done.group, block.fall)
        return -2
    if scheduler.lot is not None and wait.semantics.gives_up and scheduler.lot.random() < HASTE:
        # a time-limited wait may end at any time
        _perform(scheduler, here.group, wait, here.arguments, here.token)
        scheduler.go(here.group, block.fall)
        return -2
    scheduler.blocked.append(here)
    return -2


def _divide(scheduler: Scheduler, one: Blocked, ok: Array) -> tuple[Blocked, Blocked]:
    """Separates the lanes that are ready from the others."""
    parts = []
    for positions in (np.flatnonzero(ok), np.flatnonzero(~ok)):
        group = one.group.part(positions)
        arguments = tuple([taken(x, positions) for x in one.arguments])
        parts.append(Blocked(group, one.block, one.wait, arguments, _of_token(one.token, positions, one.group.lanes.count)))
    return parts[0], parts[1]


def wake(scheduler: Scheduler) -> bool:
    """Resumes lanes that have become ready. Returns whether there were any."""
    woken = False
    if scheduler.parked and scheduler.exits_seen != scheduler.residents.exits:
        # a lane that they wait for may have exited
        scheduler.exits_seen = scheduler.residents.exits
        for group in list(scheduler.parked.values()):
            wait = group.body.blocks[group.block].wait
            if _present(scheduler, group.lanes, wait, wait.arguments(group.registers, group.lanes)).any():
                del scheduler.parked[group.path]
                scheduler.put(group)
                woken = True
    for here in list(scheduler.blocked):
        try:
            ok = here.wait.semantics.ready(here.group.lanes, here.token, *here.arguments)
            if ok is False or not np.any(ok):
                continue
            woken = True
            scheduler.blocked.remove(here)
            if ok is not True and not np.all(ok):
                here, rest = _divide(scheduler, here, np.broadcast_to(ok, here.group.lanes.count))
                scheduler.blocked.append(rest)
            _perform(scheduler, here.group, here.wait, here.arguments, here.token)
        except Fault:
            raise
        except Exception as error:
            raise fault_of(scheduler, error, here.group, None, here.block.last) from error
        scheduler.go(here.group, here.block.fall)
    return woken


def go_without_others(scheduler: Scheduler) -> bool:
    """Executes an instruction with the lanes that are present if no mask requires the missing ones. Returns whether there is one."""
    for path, group in list(scheduler.parked.items()):
        block = group.body.blocks[group.block]
        if block.wait.members < 0:
            del scheduler.parked[path]
            n = arrive(scheduler, group, block, forced=True)
            if n != -2:
                scheduler.go(group, n)
            return True
    return False


def meet(scheduler: Scheduler) -> bool:
    """The lanes of a mask may execute an operation at several instructions (9.7.10.6, 9.7.14.9). Lanes whose masks are complete
    continue."""
    by_opcode: dict[str, list[Group]] = {}
    for group in scheduler.parked.values():
        block = group.body.blocks[group.block]
        if block.wait.members >= 0 and not block.wait.semantics.enter:
            by_opcode.setdefault(group.body.sites[block.last].bound.opcode, []).append(group)
    return any(_execute_complete(scheduler, groups) for groups in by_opcode.values() if len(groups) > 1)


def _execute_complete(scheduler: Scheduler, groups: list[Group]) -> bool:
    """Executes an operation for the lanes of several groups whose masks are complete. Returns whether there were any."""
    blocks = [group.body.blocks[group.block] for group in groups]
    places = np.concatenate([group.lanes.place for group in groups])
    order = places.argsort(kind="stable")
    lanes: Any = type(groups[0].lanes)(scheduler.residents, places[order])
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
    there = _present(scheduler, lanes, wait, arguments)
    if not there.any():
        return False
    chosen = np.flatnonzero(there)
    lanes = lanes.at(chosen)
    arguments = tuple([x.take(chosen) for x in arguments])
    seen = lanes
    if scheduler.program.is_watched:
        seen = lanes.on(groups[0].body.sites[blocks[0].last])
        sites = [group.body.sites[block.last] for group, block in zip(groups, blocks, strict=True) for _ in range(group.lanes.count)]
        seen.sites = tuple([sites[position] for position in order[chosen].tolist()])
        for monitor in scheduler.launch.monitors:
            monitor.instruction(seen, arguments)
            monitor.passed(seen, arguments, None)
    results: dict[int, Any] = {}
    going = []
    for group, block in zip(groups, blocks, strict=True):
        mine = are_among(group.lanes.place, lanes.place)
        if not mine.any():
            continue
        del scheduler.parked[group.path]
        part = group.part(np.flatnonzero(mine))
        if not mine.all():
            rest = group.part(np.flatnonzero(~mine))
            scheduler.parked[rest.path] = rest
        try:
            # the same opcode may have several forms, such as `match.all.sync` with and without a predicate
            semantics = block.wait.semantics
            if id(semantics) not in results:
                results[id(semantics)] = semantics.run(seen, *arguments) if wait.lanes else semantics.run(*arguments)
            result = taken(results[id(semantics)], np.searchsorted(lanes.place, part.lanes.place))
            block.wait.put(part.registers, part.lanes, result)
        except Exception as error:
            raise fault_of(scheduler, error, part, None, block.last) from error
        going.append((part, block.fall))
    # only now, since one may reach the position of another
    for part, fall in going:
        scheduler.go(part, fall)
    return True


def give_up(scheduler: Scheduler) -> bool:
    """Lanes with a time-limited wait give up."""
    tired = [here for here in scheduler.blocked if here.wait.semantics.gives_up]
    if not tired:
        return False
    if not scheduler.standstill.gives_up(_registers_of_blocked(scheduler), is_random=scheduler.lot is not None):
        return False
    for here in tired:
        scheduler.blocked.remove(here)
        try:
            _perform(scheduler, here.group, here.wait, here.arguments, here.token)
        except Exception as error:
            raise fault_of(scheduler, error, here.group, None, here.block.last) from error
        scheduler.go(here.group, here.block.fall)
    return True


def _registers_of_blocked(scheduler: Scheduler) -> int:
    """A hash of the registers with which lanes are blocked."""
    found = []
    for here in scheduler.blocked:
        live = here.block.registers
        found.append((here.group.path, here.group.lanes.place.tobytes(), tuple([here.group.registers[i].tobytes() for i in live])))
    return hash(tuple(sorted(found)))


def _of_token(token: Any, positions: Array, count: int) -> Any:
    """The part of a token for the lanes at these positions: of arrays with an element for each of `count` lanes."""
    if isinstance(token, tuple):
        return tuple([_of_token(one, positions, count) for one in token])
    return token.take(positions) if isinstance(token, np.ndarray) and token.ndim and len(token) == count else token
