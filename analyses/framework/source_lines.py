"""Source locations of instructions, from `.loc` and `.file` (11.5)."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.syntax import File, Loc


@fact
def source_lines(routine: Routine) -> tuple[str, ...]:
    """For each instruction, the source line that it was compiled from, as `kernel.cu:12`; empty if unknown."""
    files = {child.index: child.name.replace("\\", "/") for child in reversed(routine.module.children) if isinstance(child, File)}
    found: list[str] = []
    paths = set(routine.paths)
    source = ""
    for path, statement in routine.function.statements():
        if isinstance(statement, Loc):
            source = f"{files.get(statement.file, f'file {statement.file}')}:{statement.line}" if statement.line else ""
        elif path in paths:
            found.append(source)
    return tuple(found)
