"""A module as the machine loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxkit.analyses.framework.routine import Routine, fact

if TYPE_CHECKING:
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Module


def loaded(module: Module, target: str = "") -> Code:
    """Loads a module on a machine of its own, for its own target or the given one. Raises ValueError if the module has errors."""
    from ptxkit.machine import Machine

    return Machine(target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")).load(module)


def module_code(routine: Routine) -> Code | None:
    """The module of a function, loaded on a machine for its target; None if it has errors. It is loaded once for all functions of the
    module."""
    return _module_code(routine.siblings[0] if routine.siblings else routine)


@fact
def _module_code(first: Routine) -> Code | None:
    try:
        return loaded(first.module)
    except ValueError:
        return None
