"""The `.version` and `.target` that the functions of a module require (11.1), and the instructions that force them."""

from __future__ import annotations

from ptxkit.checking import Site, requirements
from ptxkit.frozen import frozen
from ptxkit.isa.requirements import Alternative, Requirement, every
from ptxkit.names import resolve
from ptxkit.syntax import Function, Index, Module


@frozen
class FunctionNeeds:
    """What a function requires: any one of the alternatives. `forced_by` is the first instruction without which less would suffice."""

    function: str
    alternatives: tuple[Alternative, ...]
    forced_by: str | None
    line: int | None


def needs_of(module: Module) -> list[FunctionNeeds]:
    """The requirements of each function with a body, in document order. Unknown instructions require nothing."""
    index = Index(module)
    sites: dict[int, list[tuple[Site, Requirement]]] = {}
    for site, needed in requirements(module, resolve(module)):
        sites.setdefault(site.path[0], []).append((site, needed))
    found = []
    for i, child in enumerate(module.children):
        if not isinstance(child, Function) or child.body is None:
            continue
        here = sites.get(i, [])
        total = every({needed for _, needed in here})
        forcing = next((site for site, needed in sorted(here, key=lambda pair: pair[0].path) if _forces(needed, total)), None)
        line = index.span(forcing.path).line if forcing is not None else None
        found.append(FunctionNeeds(child.name, total.alternatives(), forcing.instruction.opcode.text if forcing else None, line))
    return found


def _forces(needed: Requirement, total: Requirement) -> bool:
    """Whether an instruction requires all that the function requires (for its lowest target)."""
    alternatives = total.alternatives()
    if not alternatives:
        return not needed.alternatives()
    theirs = needed.alternatives()
    return bool(theirs) and theirs[0] == alternatives[0]


def module_needs(module: Module) -> Requirement:
    """The combined requirement of all instructions of a module."""
    return every({needed for _, needed in requirements(module, resolve(module))})
