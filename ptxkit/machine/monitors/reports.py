"""Races as findings: the sentence, the rule, and the witness as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.diagnostics import Diagnostic, Related, Severity
from ptxkit.machine.findings import Finding, launch_as_json
from ptxkit.machine.monitors.naming import Dimensions, Side

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.interfaces import Launch

WARP = 32
_DOES = {"read": "reads", "write": "writes", "update": "updates"}


@attrs.define
class Race:
    """The first of the races between two instructions, and how many pairs of accesses showed it."""

    space: str
    variable: str
    offset: int
    bytes: int
    accesses: tuple[Side, Side]
    sites: tuple[Site, Site] = attrs.field(repr=False)
    same_value: bool = False
    count: int = 1

    def witness(self) -> dict[str, Any]:
        """As JSON has it, without the launch."""
        return {
            "accesses": [side.as_json() for side in self.accesses],
            "space": self.space.removeprefix("."),
            "variable": self.variable,
            "offset": self.offset,
            "bytes": self.bytes,
        }


def reported(race: Race, launch: Launch) -> Finding:
    """A race as a finding: an error, or a note where both threads write the same value."""
    earlier = race.accesses[0]
    spans = [launch.span(site) for site in race.sites]
    rule, name = _rule(race, launch)
    diagnostic = Diagnostic(
        rule,
        name,
        Severity.INFO if race.same_value else Severity.ERROR,
        _message(race),
        spans[1],
        path=launch.program.code.path,
        function=launch.program.kernel,
        notes=() if race.count == 1 else (f"these instructions race {race.count} times in this launch",),
        related=(Related(spans[0], f"{_thread(earlier)} {_DOES[earlier.kind]} it here"),) if spans[0] != spans[1] else (),
    )
    return Finding(diagnostic, {**race.witness(), "launch": launch_as_json(launch)}, race.count)


def _rule(race: Race, launch: Launch) -> tuple[str, str]:
    if race.space == ".global":
        return "race", "race-global"
    warps = {_warp(side, launch) for side in race.accesses}
    return ("S009", "implicit-warp-synchrony") if len(warps) == 1 else ("S003", "smem-race")


def _warp(side: Side, launch: Launch) -> tuple[Dimensions, int]:
    x, y, _ = launch.block
    return side.cta, (side.thread[0] + x * (side.thread[1] + y * side.thread[2])) // WARP


def _message(race: Race) -> str:
    earlier, later = race.accesses
    what = _bytes(race)
    who = _thread(later) if later.cta != earlier.cta else f"thread {_index(later.thread)}"
    first = f"{_thread(earlier)} {_DOES[earlier.kind]} {what} (line {earlier.line})"
    second = f"{who} {_DOES[later.kind]} it (line {later.line})"
    kind = "data race between equal values" if race.same_value else "data race"
    return f"{kind}: {first}, {second}, and nothing orders them"


def _bytes(race: Race) -> str:
    last = race.offset + race.bytes - 1
    if not race.variable:
        where = f"{race.offset:#x}" if race.space == ".global" else str(race.offset)
        return f"{race.bytes} byte{'s' if race.bytes > 1 else ''} of {race.space.removeprefix('.')} memory at {where}"
    return f"{race.variable}[{race.offset}..{last}]" if race.bytes > 1 else f"{race.variable}[{race.offset}]"


def _thread(side: Side) -> str:
    return f"thread {_index(side.thread)} of CTA {_index(side.cta)}"


def _index(index: Dimensions) -> str:
    return f"({','.join(map(str, index))})"
