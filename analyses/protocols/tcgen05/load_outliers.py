"""Loads from tensor memory of which registers are used without a wait, though that is no convention of the function (9.1:9.7.16.8).

Much that is in use leaves waits out, or has them only where tensor memory is handed on: that cannot be distinguished from a mistake. But
where one location alone lacks a wait, in a function that waits for registers elsewhere, or in a copy of code that waits, it is left out
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_without
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.registers_in_flight import RegisterAccess
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.outliers.unrolled_copies import CONTEXT
from ptxkit.analyses.protocols.tcgen05.tensor_memory import LOADS, tensor
from ptxkit.analyses.registers.registers import registers

EARLY = "registers are read while they are loaded from tensor memory"


def lone_loads(routine: Routine, accessed: Sequence[RegisterAccess]) -> tuple[Finding, ...]:
    """The loads that alone lack a wait, of all those of which registers are `touched` before one."""
    known = tensor(routine)
    if known is None or not accessed:
        return ()
    loads = set(known.starts[LOADS])
    named = registers(routine)
    loaded = Counter([register for i in loads for register in named.writes[i]])
    if any(count > 1 for count in loaded.values()):
        # of a register one access is known, whichever load it is of
        return ()
    waits = {i for i, own in effects(routine).items() if any(e.queue == LOADS and e.action is Action.WAIT for e in own)}
    early = {access.opener: access.instruction for access in accessed}
    copies = tuple(_copies(routine, early, loads, waits))
    if copies or not _is_one_gap(routine, early):
        return copies
    load, first = min(early.items())
    index = [(load, "started here")]
    if not waits and known.commits:
        # who signals to others what is done does more than show how the instruction is written
        return (Finding(first, f"{EARLY}: no tcgen05.wait::ld stands in this function", index, False),)
    is_moved = comes_without(routine, loads, first + 1)
    uses = loads | {i for i, own in enumerate(named.reads) if not loaded.keys().isdisjoint(own)}
    other = next((i for i in sorted(waits) if _is_for_registers(routine, i, uses)), None)
    if other is None or len(loads) == len(early) or any(is_moved(i) for i in waits):
        return ()
    return (Finding(first, f"{EARLY}: only here does no tcgen05.wait::ld come before", [*index, (other, "others are waited for")], False),)


def _is_one_gap(routine: Routine, early: dict[int, int]) -> bool:
    """Whether one wait would do for all: the loads stand in one block, with none of their registers read between."""
    block_of = control_flow(routine).block_of
    home = {block_of[load] for load in early}
    return len(home) == 1 and all(i > max(early) for i in early.values() if block_of[i] in home)


def _is_for_registers(routine: Routine, wait: int, uses: set[int]) -> bool:
    """Whether what comes after a wait reads what was loaded, or loads more, before anybody is signalled."""
    comes = comes_without(routine, uses, wait + 1)
    return not any(comes(i) for i, sync in syncs(routine).items() if sync.arrives and sync.reach >= Reach.MBARRIER)


def _copies(routine: Routine, early: dict[int, int], loads: set[int], waits: set[int]) -> Iterator[Finding]:
    """The one load of which no wait stands right after, as it does after the same load before the same code."""
    words = [one.opcode.text for one in routine.instructions]
    waited: dict[tuple[str, ...], int] = {}
    for i in sorted(waits):
        if i - 1 in loads and i + CONTEXT < len(words):
            waited.setdefault((words[i - 1], *words[i + 1 : i + 1 + CONTEXT]), i)
    bare: dict[tuple[str, ...], list[int]] = {}
    for load in early:
        bare.setdefault(tuple(words[load : load + 1 + CONTEXT]), []).append(load)
    for key, own in bare.items():
        if key in waited and len(own) == 1:
            steps = [(own[0], "started here"), (waited[key], "it stands here elsewhere")]
            yield Finding(early[own[0]], f"{EARLY}: in other copies of this code tcgen05.wait::ld lies between", steps, False)
