"""The directives, and what else is declared rather than executed (ISA 5, 7, 11)."""

from __future__ import annotations

import re
from functools import cache

from ptxkit.frozen import frozen
from ptxkit.isa import resources
from ptxkit.isa.requirements import Needs, Requirement, parse_needs, requirement
from ptxkit.isa.targets import Version, parse_version


@frozen
class Directive:
    """`.maxntid` is `Directive(".maxntid", {"entry"}, 1, 3, 1, …)`: one to three arguments, each at least 1.

    `most` is None where the list may be of any length; `least` is the least value of an argument; `gone` the version that took it away.
    """

    name: str
    owners: frozenset[str]
    fewest: int
    most: int | None
    least: int
    needs: Requirement
    gone: Version | None
    section: str
    summary: str


@cache
def directives() -> dict[str, Directive]:
    """Every directive by its name with the dot, options and features by their words."""
    table = {}
    for line in resources.read("directives.isa").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, summary = line.rstrip().rstrip('"').split('"')
        name, owners, arguments, needs, section = head.split()
        count = re.fullmatch(r"(\d+)(\.\.(\d*))?(>0)?", arguments)
        if count is None:
            raise ValueError(f"a number of arguments as 1, 1..3 or 1..3>0 is expected, not {arguments!r}")
        needed, _, gone = needs.partition("!")
        table[name] = Directive(
            name=name,
            owners=frozenset(owners.split("|")),
            fewest=int(count[1]),
            most=int(count[3]) if count[3] else None if count[2] else int(count[1]),
            least=1 if count[4] else 0,
            needs=requirement(Needs() if needed == "-" else parse_needs(needed)),
            gone=parse_version(gone) if gone else None,
            section=section.removeprefix("§"),
            summary=summary,
        )
    return table
