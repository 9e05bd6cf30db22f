"""Functions that consist of a single instruction, to show how it compiles.

Compiler tests and intrinsic headers contain such functions. An operation that starts something appears without the instruction that
completes it. That is not an error: nothing else happens that it could affect.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.isa.binding import Bound


@fact
def is_specimen(routine: Routine) -> bool:
    """Whether a function has no branches and only one instruction that affects memory or other threads, followed by the end."""
    if len(control_flow(routine).blocks) > 1:
        return False
    matters = [i for i, bound in enumerate(bindings(routine)) if _matters(bound)]
    return len(matters) == 1 and all(_leaves(bound) for bound in bindings(routine)[matters[0] + 1 :])


def _matters(bound: object) -> bool:
    return not isinstance(bound, Bound) or bool(
        bound.converges or (bound.flow and not _leaves(bound)) or any(memory.access != "read" for memory in bound.memory)
    )


def _leaves(bound: object) -> bool:
    return isinstance(bound, Bound) and bound.flow in ("return", "exit")
