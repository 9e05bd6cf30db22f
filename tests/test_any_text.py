"""Texts that once made something fail, found by `benchmarks/fuzz.py`: they are read, linted by all rules and laid out."""

from __future__ import annotations

from collections import Counter

import pytest

import ptxkit
from ptxkit import formatter
from ptxkit.analyses import all_rules, lint

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"


def kernel(body: str, name: str = "k()") -> str:
    return f".entry {name}\n{{\n{REGISTERS}{body}\nret;\n}}\n"


TEXTS = {
    "a branch without an operand, its guard undeclared": ".entry k() { @%q bra.un; }\n",
    "two functions of one name, with calls": ".func (.reg .b32 r) f(.reg .b32 x) { ret; }\n" + kernel("call f;", "f()")
    + ".func f(.reg .b32 a, .reg .b32 b, .reg .b32 c) {\n.shared .b8 s[64];\nst.shared.u32 [c], a;\nbar.sync 0;\nret;\n}\n",
    "tensor loads that nothing comes to": kernel("tcgen05.fence::before_thread_sync;\nret;\n"
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];\n"
    "tcgen05.wait::ld.sync.aligned;\nmov.b32 %r4, %r3;"),
    "more threads than any device has": f".entry k()\n.reqntid 42949672962\n{{\n{REGISTERS}mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n"
    "@%p1 bra L;\nbar.sync 0;\nL:\nret;\n}\n",
    "a count of arrivals that nobody knows": ".entry k() .reqntid 64\n{\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n.shared .align 8 .b64 bar;\n"
    "mov.u32 %r2, bar;\nmbarrier.init.shared::cta.b64 [%r2], a65;\nmbarrier.arrive.shared::cta.b64 _, [%r2], 500000000;\nWAIT:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\nret;\n}\n",
    "more arrivals than any object counts": ".entry k() .reqntid 64\n{\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n.shared .align 8 .b64 bar;\n"
    "mov.u32 %r2, bar;\nmbarrier.init.shared::cta.b64 [%r2], 1;\nbar.sync 0;\n"
    "mbarrier.arrive.shared::cta.b64 _, [%r2], 500000000;\nret;\n}\n",
    "comments in an operation": kernel("ld /*one*/ .param /*two\n  lines*/ .u32 %r1, [k];\n"
    "mul// three\n.lo .u32 %r1, %r1, %r1;\nbar /*four*/ .sync 0;"),
    "a comment before a component of a vector": kernel("mov// one\n.b32 pair.x, %r1;\nmov.b32 // two\n pair.b0, %r1;"),
    "two state spaces": ".global .align 2.global .u16 x = 1;\n",
    "a parameter of the type `.entry`": ".func f(.reg .b32.entry x) { ret; }\n",
    "a parameter that is `.visible`": ".func f(.reg.visible .b32 x) { ret; }\n",
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_is_no_trouble(text: str) -> None:
    text = HEAD + text
    module = ptxkit.parse(text)

    assert module.text == text
    for found in lint(module, all_rules()):
        assert 0 <= found.span.start <= found.span.end <= len(text)
    if any("syntax error" in found.message for found in module.diagnostics):
        return
    laid_out = formatter.format_module(module)
    assert Counter("".join(laid_out.split())) == Counter("".join(text.split()))
    again = ptxkit.parse(laid_out)
    assert [found.message for found in again.diagnostics] == [found.message for found in module.diagnostics]
    assert formatter.format_module(again) == laid_out
