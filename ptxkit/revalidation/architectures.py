"""The architectures to compile for."""

from __future__ import annotations

from ptxkit.isa.targets import split_target, targets
from ptxkit.syntax import Module

OLDEST = "sm_75"
"""The oldest architecture that the compilers of CUDA 13 support; modules for older ones are compiled for it."""


def named_target(module: Module) -> str | None:
    """The architecture that a module's `.target` names."""
    return next((word for word in module.targets if word.startswith("sm_")), None)


def architectures(module: Module, target: str | None) -> tuple[str, ...]:
    """The architectures to try, best first: the requested one; otherwise that of the module, its newer name, and for an old one the oldest
    supported.

    Raises ValueError for an invalid `target`.
    """
    if target is not None:
        split_target(target)
        return (target,)
    named = named_target(module)
    if named is None:
        return (OLDEST,)
    known = targets().get(named)
    if known is None:
        return named, OLDEST  # the compiler will report that there is no such target
    older = (OLDEST,) if known.number < split_target(OLDEST)[0] else ()
    return named, *filter(None, [known.renamed]), *older
