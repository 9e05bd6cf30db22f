"""Variants that rewriters make: each transform of a module, whose outputs are to be the original's in every shape of launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from garbage import spoiled
from plan import LARGE, Fixture, Variant

from ptxkit.rewriters import Refused, Rewrite
from ptxkit.rewriters.dead_code import dead_code
from ptxkit.rewriters.extract import extract
from ptxkit.rewriters.noop_probe import noop_probe
from ptxkit.rewriters.performance import performance
from ptxkit.rewriters.rename import rename
from ptxkit.rewriters.renumber import renumber
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.specialize import specialize
from ptxkit.rewriters.strip_debug import strip_debug
from ptxkit.syntax import Module, parse

Transform = tuple[str, str | None, Callable[[], Rewrite]]
"""What it is called, the one kernel that it is of, and the transform."""


DIVISORS = {("triton_layer_norm", 3)}
"""Kernels and arguments that an approximate division divides by (`div.full.f32`, 9.7.3.8): by a divisor that it knows, the compiler
divides another way, as exactly as it has to but not always with the same result."""


def transforms(module: Module, fixture: Fixture) -> Iterator[Transform]:
    """The transforms that are tried on a fixture."""
    # where there are very many instructions, one that the compiler takes out again: else it would take minutes
    live = len(fixture.text) < LARGE
    yield "noop_probe", None, lambda: noop_probe(module, after=live, live=live)
    yield "strip_debug", None, lambda: strip_debug(module)
    yield "dead_code", None, lambda: dead_code(module)
    yield "dead_code of garbage", None, lambda: dead_code(parse(spoiled(module, 0).text))
    yield "renumber", None, lambda: renumber(module)
    yield "rename symbols", None, lambda: rename(module, prefix="other_")
    yield "rename labels", None, lambda: rename(module, prefix="other_", what="labels")
    yield "rename registers", None, lambda: rename(module, prefix="other_", what="registers")
    if "setmaxnreg" not in fixture.text:
        # warps of such a kernel pass registers on to others: a limit would leave them waiting for more than there are
        yield "performance", None, lambda: performance(module, maxnreg=96)
    yield "retarget lowest version", None, lambda: retarget(module)
    if fixture.target == "sm_80":
        yield "retarget sm_90", None, lambda: retarget(module, target="sm_90")
        yield "retarget sm_75", None, lambda: retarget(module, target="sm_75")
    if fixture.target == "sm_90a":
        yield "retarget sm_80", None, lambda: retarget(module, target="sm_80")
    for kernel in fixture.kernels:
        entry = kernel["entry"]
        if kernel["id"] != entry:
            continue
        yield "extract", entry, lambda entry=entry: extract(module, kernel=entry)  # type: ignore[misc]
        scalars = [(i, argument["value"]) for i, argument in enumerate(kernel["args"]) if "scalar" in argument]
        values = ",".join([f"{i}={value}" for i, value in scalars if (entry, i) not in DIVISORS])
        shape = ",".join(map(str, kernel["block"]))
        yield "specialize", entry, lambda e=entry, v=values, s=shape: specialize(module, kernel=e, values=v, reqntid=s)  # type: ignore[misc]


def transform_variants(fixture: Fixture, counts: Counter[str]) -> list[Variant]:
    """The variants of a fixture. `counts` takes what was refused and what stayed as it was."""
    module = parse(fixture.text)
    made = [Variant("control", fixture.text)]
    for name, only, transform in transforms(module, fixture):
        try:
            text = transform().module.text
        except Refused as refused:
            counts[f"{name}: refused: {refused.diagnostics[0].name}"] += 1
            continue
        except Exception as error:  # what a rewriter must not do, and is counted here to see the others all the same
            counts[f"{name}: FAILED: {type(error).__name__}: {error}"] += 1
            continue
        if text == fixture.text:
            counts[f"{name}: unchanged"] += 1
        entries = {entry: f"other_{entry}" for entry in fixture.entries} if name == "rename symbols" else {}
        made.append(Variant(name, text, only=only, entries=entries, about={"changed": text != fixture.text}))
    return made
