"""Which architecture to make code for."""

from __future__ import annotations

from ptxkit.isa.targets import split_target, targets
from ptxkit.syntax import Module

OLDEST = "sm_75"
"""The oldest that the compilers of CUDA 13 make code for; modules for older ones are compiled for it by them."""


def named_target(module: Module) -> str | None:
    """The architecture that a module's `.target` names."""
    return next((word for word in module.targets if word.startswith("sm_")), None)


def architectures(module: Module, target: str | None) -> tuple[str, ...]:
    """Those to try, best first: the one wanted; else the one that the module names, its newer name, and for an old one the oldest.

    Raises ValueError for a `target` that does not look like one.
    """
    if target is not None:
        split_target(target)
        return (target,)
    named = named_target(module)
    if named is None:
        return (OLDEST,)
    known = targets().get(named)
    if known is None:
        return named, OLDEST  # that there is no such target, the compiler shall say
    older = (OLDEST,) if known.number < split_target(OLDEST)[0] else ()
    return named, *filter(None, [known.renamed]), *older
