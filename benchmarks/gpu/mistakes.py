"""Mistakes of every day in kernels, one at a time: a barrier, a store or a guard left out, an address or a mask that is wrong, an atomic
operation that is none.

Those of asynchronous operations are in `benchmarks/mutants.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import attrs

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.isa.binding import Bound

FAR = 1 << 30
"""Bytes past every buffer."""
SPACES = (".global", ".shared")
_ADDRESS = re.compile(r"\[(%\w+|\w+)(?:\+(-?\d+))?\]")
_ALL_LANES = re.compile(r",\s*(?:-1|0xffffffff|4294967295)\s*$")


@attrs.frozen
class Mistake:
    """A text with one mistake."""

    family: str
    change: str
    line: int
    text: str


def mistakes(facts: Facts, routine: Routine, most: int, may_lose_barriers: bool) -> Iterator[Mistake]:
    """The kernel's mistakes, at most so many of each change; barriers stay where others could wait for ever without them."""
    source = facts.module.text
    counts: Counter[str] = Counter()
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound):
            continue
        first, last = (facts.index.span((*routine.where(i), n)) for n in (0, len(routine.instructions[i].children) - 1))
        end = source.index(";", last.end) + 1
        whole = source[first.start : end]
        for family, change, instead in _changes(routine, i, bound, " ".join(whole.split()), may_lose_barriers):
            counts[change] += 1
            if counts[change] <= most:
                yield Mistake(family, change, first.line, source[: first.start] + instead + source[end:])


def _changes(routine: Routine, i: int, bound: Bound, text: str, may_lose_barriers: bool) -> Iterator[tuple[str, str, str]]:
    mnemonic = bound.form.mnemonic
    if any(one.action == "wait" for one in bound.barrier) and mnemonic in ("bar", "barrier") and not bound.has(".cluster"):
        if bound.has(".warp"):
            yield "barriers", "delete a barrier of a warp", ""
        elif may_lose_barriers and len(routine.instructions[i].operands) == 1:
            yield "barriers", "delete a barrier of a CTA", ""
    if bound.converges is not None and _ALL_LANES.search(text.rstrip(";")) and not bound.barrier:
        yield "masks", "name half of the lanes in a mask", _ALL_LANES.sub(", 65535", text.rstrip(";")) + ";"
    space = next((one for one in SPACES if bound.has(one)), "")
    accesses = [one for one in bound.memory if not one.is_async]
    if not space or not accesses or bound.asynchronous:
        return
    found = _ADDRESS.search(text)
    if found is None:
        return

    def moved(by: int) -> str:
        return text[: found.start()] + f"[{found[1]}+{int(found[2] or 0) + by}]" + text[found.end() :]

    how = accesses[0].access
    if mnemonic in ("ld", "st") and not text.split()[0].endswith(("8", "pred")):
        yield "addresses", f"misalign a {how} of {space[1:]} memory", moved(1)
    if mnemonic in ("ld", "st"):
        yield "addresses", f"{how} {space[1:]} memory far away", moved(FAR if space == ".global" else 1 << 20)
    if mnemonic == "st" and space == ".shared":
        yield "uninitialized", "delete a store to shared memory", ""
    if mnemonic == "red" and not bound.has(".async"):
        kind = text.split()[0 if not text.startswith("@") else 1].rsplit(".", 1)[1]
        if kind.startswith(("u", "s", "b", "f32", "f64")):
            guard = text.split()[0] + " " if text.startswith("@") else ""
            yield "atomics", "store where a reduction is needed", f"{guard}st{space}.{kind} {text.split(None, 2 if guard else 1)[-1]}"
