"""Kernels in which the expected findings stand: a line that ends in `// C001` has a finding of that rule, and no other line has.

A file of them has for each a line `=== NAME`, then lines `% DIRECTIVE` (without any: `.reqntid 256`), lines `< TEXT` that stand before the
kernel, and its statements. MMA and STORE stand for such an instruction.
"""

from __future__ import annotations

from pathlib import Path

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Diagnostic, Severity

HEAD = """.version 9.0
.target sm_100a
.address_size 64
{before}
.visible .entry k(.param .u64 p, .param .u32 n)
{directives}
{{
.reg .pred %p<9>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
.shared .align 16 .b8 smem[1024];
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd1, %rd1;
ld.param.u32 %r20, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r5, %laneid;
{body}
ret;
}}
"""

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r21,%r22,%r23,%r24}, {%r25,%r26}, {%f0,%f1,%f2,%f3};"
STORE = "st.global.u32 [%rd1], %r1;"


def kernels(name: str) -> dict[str, str]:
    """The modules of a file beside this one, by their names."""
    found = {}
    for section in (Path(__file__).parent / name).read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, text = section.partition("\n")
        lines = text.strip().splitlines()
        directives = [line[1:] for line in lines if line.startswith("%") and line[1:2] in ("", " ")]
        before = [line[2:] for line in lines if line.startswith("< ")]
        body = [line for line in lines if not line.startswith(("< ", "% ")) and line != "%"]
        head = "\n".join(directives) if directives else ".reqntid 256"
        text = HEAD.format(body="\n".join(body), directives=head, before="\n".join(before))
        found[title] = text.replace("MMA", MMA).replace("STORE", STORE)
    return found


def expected(text: str) -> set[tuple[int, str]]:
    """The findings that a text says: line and rule."""
    marks = [(number, line.partition("// ")[2].split()) for number, line in enumerate(text.splitlines(), 1)]
    return {(number, rule) for number, rules in marks for rule in rules}


def findings(text: str, families: str) -> list[Diagnostic]:
    """The errors and warnings of these families of rules."""
    return [one for one in lint(ptxkit.parse(text), select(list(families))) if one.severity is not Severity.INFO]


def found(text: str, families: str) -> set[tuple[int, str]]:
    """The same as lines and rules."""
    return {(one.span.line, one.rule) for one in findings(text, families)}
