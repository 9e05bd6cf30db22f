"""A kernel around a few lines of PTX, launched under some checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine import Fault, Machine

KERNEL = """.version 8.5
.target sm_90a
.address_size 64
{module}
.visible .entry k(.param .u64 out, .param .u32 n)
{{
.reg .pred %p<9>; .reg .b16 %h<5>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
{variables}
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
{body}
{end}
}}
"""


def watched(
    body: str,
    checks: str,
    variables: str = "",
    module: str = "",
    end: str = "ret;",
    grid: int = 1,
    block: int = 64,
    cluster: int | None = None,
    schedule: str | int = "lockstep",
    out: Any = None,
) -> tuple[list[Any], str]:
    """The findings, and how the launch ended: `ended`, or the kind of the fault. The kernel is given 256 words and 7."""
    machine = Machine()
    code = machine.load(KERNEL.format(body=body, variables=variables, module=module, end=end))
    given = np.zeros(256, np.uint32) if out is None else machine.alloc(out)
    try:
        run = machine.launch(code, "k", given, 7, grid=grid, block=block, cluster=cluster, schedule=schedule, checks=checks)
    except Fault as fault:
        return list(fault.findings), fault.kind
    return list(run.findings), "ended"


def rules(found: list[Any]) -> list[str]:
    return [finding.diagnostic.rule for finding in found]
