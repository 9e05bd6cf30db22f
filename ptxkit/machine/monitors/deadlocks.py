"""Reports a deadlock in words and as data: each group of waiting threads, what it waits for, and which threads could still arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import arguments
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.fault import Fault, Wait
from ptxkit.machine.monitors.collected import Collected, Rule, do, threads
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    pass

Array = np.ndarray[Any, Any]
BARRIERS = 16
CHANGE = "what its loop reads to change"
"""What threads that iterate wait for."""
KINDS = ("deadlock", "standstill")
NO_ONE: Rule = ("deadlock", "deadlock")
CTA_BARRIER: Rule = ("C001", "aligned-barrier-divergent")
COUNTED_BARRIER: Rule = ("B003", "barrier-count-vs-participants")
CLUSTER_BARRIER: Rule = ("C010", "cluster-barrier-unpaired")
ABSENT_LANES: Rule = ("C005", "membermask-names-absent-lanes")
WHOLE_WARP: Rule = ("C002", "warp-aligned-divergent")
NEVER_ARRIVED: Rule = ("M009", "wait-never-arrived")
TOO_FEW: Rule = ("M005", "mbarrier-arrive-count")
TOO_FEW_BYTES: Rule = ("M006", "expect-tx-vs-bytes")


@frozen
class Waiting:
    """Threads that wait for the same thing at the same instruction."""

    wait: Wait
    index: Array
    """The threads, by their index in the launch."""
    what: str
    rule: Rule
    missing: str = ""
    state: Mapping[str, int] = attrs.field(factory=dict)
    """For an mbarrier, how many threads have `arrived` in its phase, and how many `bytes` are expected; negative if too many have
    arrived."""


def is_mbarrier_wait(wait: Wait) -> bool:
    """Whether lanes wait for a phase of an mbarrier."""
    bound = wait.site.bound
    return isinstance(bound, Bound) and bound.form.mnemonic == "mbarrier"


def given(wait: Wait) -> dict[str, Any]:
    """The operands of an instruction by name."""
    bound = wait.site.bound
    return arguments.named(bound, wait.arguments) if isinstance(bound, Bound) else {}


def waiting(collected: Collected, waits: tuple[Wait, ...]) -> list[Waiting]:
    """What each group waits for."""
    found: list[Waiting] = []
    for wait in waits:
        found += _waiting(collected, wait)
    return found


def _waiting(collected: Collected, wait: Wait) -> list[Waiting]:
    lanes, bound = wait.lanes, wait.site.bound
    index = lanes.index
    if wait.iterates or not isinstance(bound, Bound):
        return [Waiting(wait, index, CHANGE, NO_ONE)]
    if is_mbarrier_wait(wait):
        return _at_mbarriers(collected, wait)
    if bound.barrier and bound.has(".cluster"):
        return [Waiting(wait, index, "the cluster barrier", CLUSTER_BARRIER)]
    if bound.members is not None:
        mask = np.broadcast_to(np.asarray(given(wait).get(bound.members.name, 0)).astype(np.uint32), lanes.count)
        lacking = lanes.residents.alive_mask[lanes.warp] & mask & ~lanes.from_warp(lanes.warp_mask)
        some = int(lacking[np.flatnonzero(lacking)[0]]) if lacking.any() else 0
        return [Waiting(wait, index, f"lanes {spoken_lanes(some)} of the warp", ABSENT_LANES)]
    if bound.barrier:
        return _at_barriers(wait)
    if bound.converges is not None:
        return [Waiting(wait, index, f"the rest of the {bound.converges.level}", WHOLE_WARP)]
    return [Waiting(wait, index, f"`{bound.opcode}`", NO_ONE)]


def _at_barriers(wait: Wait) -> list[Waiting]:
    """Threads at barriers of their CTAs, by barrier."""
    lanes = wait.lanes
    barriers = lanes.residents.barriers
    number = np.broadcast_to(np.asarray(wait.arguments[0]).astype(np.int64), lanes.count)
    found = []
    for one in distinct_numbers(number).tolist():
        mine = number == one
        key = int(lanes.cta[mine][0]) * BARRIERS + one
        expected, arrived = int(barriers.expected[key]), int(barriers.arrived[key])
        awaited = expected or int(lanes.residents.alive_of_cta[key // BARRIERS])
        exited = lanes.residents.threads - int(lanes.residents.alive_of_cta[key // BARRIERS])
        missing = f"{arrived} of {awaited} threads have reached barrier {one}"
        missing += f"; {threads(exited)} of the CTA {'have' if exited != 1 else 'has'} exited" if exited else ""
        found.append(Waiting(wait, lanes.index[mine], f"barrier {one}", COUNTED_BARRIER if expected else CTA_BARRIER, missing))
    return found


def _at_mbarriers(collected: Collected, wait: Wait) -> list[Waiting]:
    """Threads that wait for phases of mbarriers, by mbarrier."""
    lanes, launch = wait.lanes, collected.launch
    assert isinstance(wait.site.bound, Bound)
    where = arguments.located(lanes, wait.site.bound, given(wait)["m"], "m")
    words = launch.machine.memory.shared.view(np.dtype(np.uint64))[where >> 3]
    found = []
    for at in distinct_numbers(where).tolist():
        mine = where == at
        word = words[mine][0]
        pending, expected = int(objects.pending(word)), int(objects.expected(word))
        tx = int(objects.transactions(word))
        name = spoken_mbarrier(collected, at)
        missing = [f"{pending} of {expected} arrivals"] if pending else []
        missing += [f"{tx} bytes of those expected"] if tx > 0 else []
        said = [f"lacks {' and '.join(missing)}"] if missing else []
        said += [f"has received {-tx} bytes more than expected"] if tx < 0 else []
        rule = TOO_FEW_BYTES if tx and not pending else TOO_FEW if 0 < pending < expected else NEVER_ARRIVED
        text = f"{name} {' and '.join(said)}" if said else ""
        state = {"arrived": expected - pending, "bytes": tx}
        found.append(Waiting(wait, lanes.index[mine], f"mbarrier {name}", rule, text, state))
    return found


def spoken_mbarrier(collected: Collected, at: int) -> str:
    """An mbarrier, named by the variable that contains it."""
    variable, offset = collected.names.variable(".shared", at)
    return f"{variable}[{offset}]" if variable else f"at {offset:#x} of shared memory"


def spoken_lanes(mask: int) -> str:
    """A lane mask in words: `0..15, 20`."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][-1] + 1:
            runs[-1].append(lane)
        else:
            runs.append([lane])
    return ", ".join([f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]) or "that are not there"


def lanes_of(mask: int, do: str = "") -> str:
    """A lane mask with what the lanes do: `lane 3 executes`, `lanes 0..15, 20 execute`; without a verb, `lane 3`."""
    is_one = bool(mask) and not mask & (mask - 1)
    verb = f" {do}{'s' if is_one else ''}" if do else ""
    return f"lane{'' if is_one else 's'} {spoken_lanes(mask)}{verb}"


def report(collected: Collected, fault: Fault, groups: list[Waiting], could: dict[str, list[int]], of_mbarriers: bool) -> None:
    """Reports a deadlock as one finding, with the rule of the first group that has one."""
    lines = [collected.line(one.wait.site) for one in groups]
    first = next((one for one in groups if is_mbarrier_wait(one.wait) == of_mbarriers and one.rule != NO_ONE), groups[0])
    parts: dict[tuple[int, str], int] = {}
    for one, line in zip(groups, lines, strict=True):
        parts[line, one.what] = parts.get((line, one.what), 0) + len(one.index)
    ordered = sorted(parts.items(), key=lambda item: item[0][1] != first.what)
    said = [f"{threads(count)} {do(count, 'wait')} on line {line} for {what}" for (line, what), count in ordered if count]
    shown = said if len(said) < 3 else [*said[:2], f"{len(said) - 2} more groups wait elsewhere"]
    waiting_ = []
    for one, line in zip(groups, lines, strict=True):
        arriving = {"could_arrive": could[one.what]} if could.get(one.what) else {}
        waiting_ += collected.groups(one.index, line, one.what, **one.state, **arriving)
    notes = list(dict.fromkeys([one.missing for one in groups if one.missing]))
    notes += [f"arrivals at {what.removeprefix('mbarrier ')} are on {_lines(at)}" for what, at in could.items() if at]
    collected.add(
        (fault.kind,),
        first.rule,
        f"deadlock: {'; '.join(shown)}",
        first.wait.site,
        {"waiting": waiting_, "ends": fault.kind},
        notes=[*notes, *said[2:]],
    )


def _lines(lines: list[int]) -> str:
    """`line 5`, `lines 5 and 7`."""
    *most, last = map(str, lines[:8])
    return f"lines {', '.join(most)} and {last}" if most else f"line {last}"
