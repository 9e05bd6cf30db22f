"""Names of instructions, looked up in bulk, against a look at each one."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from ptxkit.mentions import mentioned, names_in_order
from ptxkit.names import names_in, resolve
from ptxkit.operands import is_predefined
from ptxkit.syntax import Instruction, Module, parse

FIXTURES = Path(__file__).parent.parent / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*.ptx") if path.stat().st_size < 60_000)[::9]

NESTED = """
.version 8.5
.target sm_90
.address_size 64
.global .b32 table[4];
.func (.reg .b32 out) f(.reg .b32 in) { mov.u32 out, in; ret; }
.entry k(.param .u64 p)
{
    .reg .b32 %r<5>, %r1<3>, a, a7, v_1;
    .reg .b32 %q<07>;
    L1: mov.u32 %r4, %tid.x;
    mov.u32 %r12, WARP_SZ;
    { .reg .b32 %r<2>; .reg .pred p1; setp.eq.u32 p1|_, %r1, a7; @p1 bra L2; mov.u32 %r00, %r4; }
    L2: ld.global.u32 a, [table+4];
    { mov.u32 a, nowhere; mov.u32 %r5, 1; mov.u32 %q6, %q7; mov.u32 v_1, 0; }
    call (a), f, (%r3);
    bra L1;
}
"""


def modules() -> list[Module]:
    return [parse(NESTED), *[parse(path.read_text()) for path in FILES]]


@pytest.mark.parametrize("module", modules(), ids=["nested", *[path.name for path in FILES]])
def test_names_mean_what_each_one_alone_means(module: Module) -> None:
    names = resolve(module)
    for scope, blocks in names.in_scope.items():
        instructions = list(chain.from_iterable([laid.instructions for laid in blocks]))
        texts = dict.fromkeys([name.text for one in instructions for part in one.children for _, name in names_in(part)])
        found = mentioned(scope, set().union(*[laid.code.names() for laid in blocks]))
        alone = {name: scope.lookup(name) for name in texts}
        assert set(found.symbols) == {symbol for symbol in alone.values() if symbol is not None}
        assert len(found.symbols) == len(set(found.symbols))
        assert sorted(found.missing) == sorted([name for name, symbol in alone.items() if symbol is None and not is_predefined(name)])


def test_names_come_in_order_and_once() -> None:
    instruction = parse("add.u32 %r12, %r007, x; ").children[0]
    assert isinstance(instruction, Instruction)
    assert list(names_in_order([*instruction.children, *instruction.children])) == ["%r12", "%r007", "x"]
