"""Collects the findings of a monitor: one for each cause, with a count, a message, a rule and a witness."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Diagnostic, Related, Severity, Span, brief
from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.fault import NOWHERE, spoken_index
from ptxkit.machine.findings import Finding, launch_as_json
from ptxkit.machine.monitors.naming import Dimensions, Names
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.interfaces import Launch, Residents

SHOWN = 4
"""Maximum number of threads that are listed for a group."""
Rule = tuple[str, str]
"""Id and name of a rule."""
DOES = {"read": "reads", "write": "writes", "update": "updates"}


@define
class _One:
    rule: Rule
    severity: Severity
    message: str
    span: Span
    witness: Mapping[str, Any]
    related: tuple[Related, ...]
    notes: tuple[str, ...]
    count: int


class Collected:
    """The findings of a monitor in a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.names = Names(launch)
        self._found: dict[Hashable, _One] = {}

    def knows(self, cause: Hashable, count: int = 1) -> bool:
        """Whether there is already a finding for a cause; if so, increases its count."""
        known = self._found.get(cause)
        if known is None:
            return False
        known.count += count
        return True

    def add(
        self,
        cause: Hashable,
        rule: Rule,
        message: str,
        site: Site | None,
        witness: Mapping[str, Any],
        *,
        severity: Severity = Severity.ERROR,
        related: Sequence[tuple[Site, str]] = (),
        notes: Sequence[str] = (),
        span: Span | None = None,
        count: int = 1,
    ) -> None:
        """Adds a finding, unless there is one for this cause."""
        if self.knows(cause, count):
            return
        where = span or (self.launch.span(site) if site is not None else NOWHERE)
        others = [Related(self.launch.span(one), what) for one, what in related]
        self._found[cause] = _One(rule, severity, brief(message), where, witness, tuple(others), tuple(notes), count)
        self.launch.found()

    @property
    def findings(self) -> list[Finding]:
        launch = launch_as_json(self.launch)
        code, kernel = self.launch.program.code, self.launch.program.kernel
        found = []
        for one in self._found.values():
            notes = (*one.notes, f"this was seen {one.count} times in this launch") if one.count > 1 else one.notes
            diagnostic = Diagnostic(
                *one.rule, one.severity, one.message, one.span, path=code.path, function=kernel, notes=notes, related=one.related
            )
            found.append(Finding(diagnostic, {**one.witness, "launch": launch}, one.count))
        return found

    # --- threads

    def thread(self, lanes: Any, lane: int) -> tuple[Dimensions, Dimensions]:
        """The CTA and thread index of a lane."""
        return self.names.thread(int(lanes.index[lane]))

    def warp(self, residents: Residents, warp: int) -> str:
        """A resident warp as messages write it: `warp 1 of CTA (0,0,0)`."""
        cta, number = divmod(warp, residents.warps_per_cta)
        return f"warp {number} of CTA {spoken_index(self.names.thread(residents.first + cta * residents.threads)[0])}"

    def line(self, site: Site | None) -> int:
        return int(self.launch.span(site).line) if site is not None else 0

    def access(self, lanes: Any, lane: int, kind: str, site: Site | None, value: str | None = None) -> dict[str, Any]:
        """An access in a witness."""
        cta, thread = self.thread(lanes, lane)
        found = {"cta": list(cta), "thread": list(thread), "line": self.line(site), "kind": kind}
        return found if value is None else {**found, "value": value}

    def groups(self, index: Any, line: int, what: str, **more: Any) -> list[dict[str, Any]]:
        """The groups of a witness for threads given by their index in the launch: for each CTA, some of the threads and their number."""
        index = np.sort(np.asarray(index))
        cta = index // self.launch.threads
        found = []
        for number in distinct_numbers(cta).tolist():
            mine = index[cta == number]
            few = [self.names.thread(int(one)) for one in mine[:SHOWN]]
            found.append(
                {
                    "cta": list(few[0][0]),
                    "threads": [list(thread) for _, thread in few],
                    "count": len(mine),
                    "line": line,
                    "for": what,
                    **more,
                }
            )
        return found


def spoken_thread(cta: Dimensions, thread: Dimensions) -> str:
    """`thread (1,0,0) of CTA (0,0,0)`."""
    return f"thread {spoken_index(thread)} of CTA {spoken_index(cta)}"


def opcode(site: Site) -> str:
    """The opcode of an instruction; `?` for one that is not in the instruction table."""
    return site.bound.opcode if isinstance(site.bound, Bound) else "?"


def threads(count: int) -> str:
    """A number of threads in words."""
    return f"{count} thread{'s' if count != 1 else ''}"


def do(count: int, verb: str) -> str:
    """A verb for a number of threads: `1 thread waits`, `2 threads wait`."""
    return verb if count != 1 else f"{verb}{'es' if verb.endswith('ch') else 's'}"


def bytes_of(count: int) -> str:
    """A number of bytes in words."""
    return f"{count} byte{'s' if count != 1 else ''}"


def spoken_range(variable: str, space: str, offset: int, size: int) -> str:
    """Bytes as messages write them: `tile[16..19]` or, where no variable is known, `4 bytes of shared memory at 16`."""
    if not variable:
        return f"{bytes_of(size)} of {space.removeprefix('.')} memory at {f'{offset:#x}' if space == '.global' else offset}"
    return f"{short(variable)}[{offset}..{offset + size - 1}]" if size > 1 else f"{short(variable)}[{offset}]"


def short(name: str, most: int = 40) -> str:
    """A name, truncated for use in a message."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
