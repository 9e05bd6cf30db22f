"""A probe that does nothing, at every instruction: to see that a module can be instrumented, and that the compiler takes it."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.rewriters.engine.edits import After, Before, Declare, Edit, apply
from ptxkit.rewriters.engine.fresh import fresh
from ptxkit.rewriters.engine.patterns import Pattern, Site, pattern, select
from ptxkit.rewriters.engine.rewrite import Rewrite
from ptxkit.syntax import Module


def noop_probe(module: Module, *, at: str = "", after: bool = False, live: bool = False) -> Rewrite:
    """Inserts an instruction without effect before every instruction, and lists where that is impossible.

    `strip` removes all of them again.

    * `at`: Only at these instructions, such as `ld.global`.
    * `after`: Insert one after each instruction as well.
    * `live`: Insert an instruction that the compiler keeps: a read of the clock.
    """
    register = fresh(module).register("nothing")
    code = f"mov.u32 {register}, %clock;" if live else f"mov.b32 {register}, 0;"
    wanted = pattern(at) if at else Pattern()
    return apply(module, _edits(routines(module), wanted, register, code, after), "noop_probe", partly=True, at=at, after=after, live=live)


def _edits(all_routines: tuple[Routine, ...], wanted: Pattern, register: str, code: str, after: bool) -> Iterator[Edit]:
    for routine in all_routines:
        sites: list[Site] = list(select([routine], wanted))
        if sites:
            yield Declare(routine, f".reg .b32 {register};")
        for site in sites:
            yield Before(site, code)
            if after:
                yield After(site, code)
