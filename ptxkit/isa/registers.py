"""The special registers (ISA 10)."""

from __future__ import annotations

import re
from functools import cache

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa import resources
from ptxkit.isa.requirements import Needs, Requirement, parse_needs, requirement


@frozen
class SpecialRegister:
    """`%tid` is `SpecialRegister("%tid", (".u32",), 3, …)`: three components `.x .y .z`, and a fourth that reads 0.

    `uniform` is the largest group of threads that reads one value: thread, warp, cta, cluster or grid; `volatile` means that two reads may
    differ.
    """

    name: str
    types: tuple[str, ...]
    components: int
    uniform: str
    volatile: bool
    needs: Requirement
    section: str
    summary: str


def special_register(name: str) -> SpecialRegister | None:
    """The special register of a name as written (`%tid.x`, `%envreg7`), or None if there is none."""
    stem, _, component = name.partition(".")
    found = special_registers().get(stem)
    if found is None or not component:
        return found
    if component not in ("x", "y", "z", "w", "r", "g", "b", "a") or found.components == 1:
        return None
    return attrs.evolve(found, components=1)


@cache
def special_registers() -> dict[str, SpecialRegister]:
    """All special registers by name; numbered ones are listed individually."""
    table = {}
    for line in resources.read("registers.isa").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, summary = line.rstrip().rstrip('"').split('"')
        names, type, uniform, needs, section = head.split()
        element, _, width = type.partition("[")
        parsed = requirement(Needs() if needs == "-" else parse_needs(needs))
        for name in _numbered(names):
            table[name] = SpecialRegister(
                name=name,
                types=tuple(element.split("|")),
                components=int(width.rstrip("]") or 1),
                uniform=uniform.removesuffix("*"),
                volatile=uniform.endswith("*"),
                needs=parsed,
                section=section.removeprefix("§"),
                summary=summary,
            )
    return table


def _numbered(name: str) -> list[str]:
    """`%pm<0..7>` as its eight names."""
    span = re.search(r"<(\d+)\.\.(\d+)>", name)
    if span is None:
        return [name]
    return [f"{name[: span.start()]}{n}{name[span.end() :]}" for n in range(int(span[1]), int(span[2]) + 1)]
