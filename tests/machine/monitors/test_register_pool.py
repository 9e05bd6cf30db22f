"""Registers that two warpgroups request: one releases some, the other requests them."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from ptxkit.machine import Machine
from tests.machine.monitors.watching import rules


@pytest.mark.parametrize(
    ("most", "less", "more", "expected"),
    [(168, 40, 232, []), (168, 120, 232, ["C011"]), (168, 176, 160, ["C011"]), (0, 120, 232, [])],
)
def test_the_pool_of_registers_is_what_the_kernel_begins_with(most: int, less: int, more: int, expected: list[str]) -> None:
    bound = f".maxnreg {most}" if most else ""
    text = (
        f".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 256 {bound}\n{{ .reg .pred %p; .reg .b32 %r;"
        " mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 128; @%p bra A;"
        f" setmaxnreg.dec.sync.aligned.u32 {less}; bra E; A: setmaxnreg.inc.sync.aligned.u32 {more}; E: ret; }}"
    )
    code = Machine().load(text)
    findings = code.machine.launch(code, "k", grid=1, block=256, checks="barriers").findings
    assert sorted(set(rules(list(findings)))) == expected
