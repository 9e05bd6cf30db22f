"""Every instruction that the table says is executed together, aligned: under a guard that half of a warp has, it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.isa.binding import Bound

ACCEPT = Path(__file__).resolve().parents[4] / "shared" / "conformance" / "accept"
HALF = ".reg .pred %half; .reg .b32 %lane; mov.u32 %lane, %laneid; setp.lt.u32 %half, %lane, 16;"


def divergent(text: str) -> tuple[str, str] | None:
    """The module with its first aligned instruction under a guard that half of a warp has, and that instruction's opcode."""
    module = ptxkit.parse(text)
    for routine in routines(module):
        if not routine.function.header.is_entry:
            continue
        for i, bound in enumerate(bindings(routine)):
            if isinstance(bound, Bound) and bound.converges is not None and bound.converges.aligned:
                instruction = routine.instructions[i]
                if instruction.guard is not None or text.count(instruction.text) != 1:
                    continue
                start = text.index(instruction.text)
                opening = text.index("{", text.index(routine.name))
                at = text.index(instruction.opcode.text, start)
                return f"{text[: opening + 1]}{HALF}{text[opening + 1 : at]}@%half {text[at:]}", instruction.opcode.text
    return None


@pytest.mark.skipif(not ACCEPT.exists(), reason="no ../shared")
def test_each_is_found_under_half_of_a_warp() -> None:
    rules = select(["C001", "C002", "C003"])
    missed = []
    seen = set()
    for path in sorted(ACCEPT.glob("*.ptx")):
        changed = divergent(path.read_text(encoding="utf-8"))
        if changed is None or changed[1] in seen:
            continue
        seen.add(changed[1])
        if not lint(ptxkit.parse(changed[0]), rules):
            missed.append((path.name, changed[1]))

    assert missed == []
    mnemonics = {opcode.partition(".")[0] for opcode in seen}
    assert mnemonics >= {"bar", "barrier", "wmma", "mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05"}
