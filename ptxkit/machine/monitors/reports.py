"""Races as findings: message, rule and witness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.diagnostics import LONGEST_RELATED, Diagnostic, Related, Severity, brief
from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.fault import spoken_index
from ptxkit.machine.findings import Finding, launch_as_json
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.monitors import proxies, queues, tensor_waits
from ptxkit.machine.monitors.collected import spoken_range, spoken_thread
from ptxkit.machine.monitors.naming import Dimensions, Side

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.interfaces import Launch

WARP = 32
_DOES = {"read": "reads", "write": "writes", "update": "updates"}
_NAMES = {**queues.RULES, **proxies.RULES, tensor_waits.RULE: tensor_waits.NAME}
_SEVERITIES = {"P003": Severity.WARNING, "P004": Severity.INFO, "T006": Severity.INFO}
"""Severities of what the manual requires and widely used compilers omit; everything else is an error."""


@define
class Race:
    """The first race between two instructions, and how many pairs of accesses showed it."""

    space: str
    variable: str
    offset: int
    bytes: int
    accesses: tuple[Side, Side]
    sites: tuple[Site, Site] = attrs.field(repr=False)
    same_value: bool = False
    count: int = 1
    rule: str = ""
    """The rule for operations in flight or proxies; if empty, it follows from space and threads."""
    why: str = "nothing orders them"

    @property
    def families(self) -> frozenset[str]:
        """The checks that report it."""
        if self.rule in proxies.RULES:
            return frozenset({"proxies"})
        is_async = any(isinstance(site.bound, Bound) and queues.group_of(site.bound) for site in self.sites)
        return frozenset({"races", "async"} if is_async else {"races"})

    def is_of_a_warp(self, launch: Launch) -> bool:
        """Whether both accesses are by one warp."""
        return len({_warp(side, launch) for side in self.accesses}) == 1

    def witness(self) -> dict[str, Any]:
        """The witness in JSON-compatible data, without the launch."""
        return {
            "accesses": [side.as_json() for side in self.accesses],
            "space": self.space.removeprefix("."),
            "variable": self.variable,
            "offset": self.offset,
            "bytes": self.bytes,
        }


def reported(race: Race, launch: Launch) -> Finding:
    """A race as a finding: an error, or a note if both threads write the same value."""
    earlier = race.accesses[0]
    spans = [launch.span(site) for site in race.sites]
    rule, name = _rule(race, launch)
    before = Related(spans[0], brief(f"{_who(race, 0)} {_DOES[earlier.kind]} it here", LONGEST_RELATED))
    diagnostic = Diagnostic(
        rule,
        name,
        Severity.INFO if race.same_value else _SEVERITIES.get(race.rule, Severity.ERROR),
        _message(race),
        spans[1],
        path=launch.program.code.path,
        function=launch.program.kernel,
        notes=() if race.count == 1 else (f"these instructions race {race.count} times in this launch",),
        related=(before,) if spans[0] != spans[1] else (),
    )
    return Finding(diagnostic, {**race.witness(), "launch": launch_as_json(launch)}, race.count)


def _rule(race: Race, launch: Launch) -> tuple[str, str]:
    if any("dealloc" in site.bound.effects for site in race.sites if isinstance(site.bound, Bound)):
        return "T004", _NAMES["T004"]
    if race.rule:
        return race.rule, _NAMES[race.rule]
    if race.space == ".global":
        return "race", "race-global"
    if race.accesses[0].cta != race.accesses[1].cta:
        return "G005", "dsmem-access-unsynchronised"
    warps = {_warp(side, launch) for side in race.accesses}
    return ("S009", "implicit-warp-synchrony") if len(warps) == 1 else ("S003", "smem-race")


def _warp(side: Side, launch: Launch) -> tuple[Dimensions, int]:
    x, y, _ = launch.block
    return side.cta, (side.thread[0] + x * (side.thread[1] + y * side.thread[2])) // WARP


def _message(race: Race) -> str:
    earlier, later = race.accesses
    first = f"{_who(race, 0)} {_DOES[earlier.kind]} {_bytes(race)} (line {earlier.line})"
    if later.kind == "exit":
        return f"not waited for: {first}, and {race.why}"
    who = "a later one of that thread" if _is_repeated(race) else _who(race, 1)
    second = f"{who} {_DOES[later.kind]} it (line {later.line})"
    kind = (
        "data race between proxies" if race.rule in proxies.RULES else "data race between equal values" if race.same_value else "data race"
    )
    return f"{kind}: {first}, {second}, and {race.why}"


def _who(race: Race, number: int) -> str:
    """The origin of an access: a thread, or an operation that it has started."""
    side, bound = race.accesses[number], race.sites[number].bound
    is_named = number == 1 and side.cta == race.accesses[0].cta
    who = f"thread {spoken_index(side.thread)}" if is_named else spoken_thread(side.cta, side.thread)
    return f"`{bound.opcode}` of {who}" if isinstance(bound, Bound) and queues.group_of(bound) else who


def _is_repeated(race: Race) -> bool:
    """Whether one thread has started both sides by instructions with the same opcode."""
    first, second = (site.bound for site in race.sites)
    if not isinstance(first, Bound) or not isinstance(second, Bound) or not queues.group_of(first):
        return False
    return first.opcode == second.opcode and len({(side.cta, side.thread) for side in race.accesses}) == 1


def _bytes(race: Race) -> str:
    return race.variable if race.space == TENSOR else spoken_range(race.variable, race.space, race.offset, race.bytes)
