"""The facts against the same found by other means, on all fixtures and a sample of the corpus."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sample import kernel
from second_route import differences

import ptxkit
from ptxkit.analyses.framework.routine import routines

HERE = Path(__file__).resolve().parents[3]
FIXTURES = sorted((HERE / "fixtures").rglob("*.ptx"))
CORPUS = sorted(path for path in (HERE.parent / "shared" / "corpus").rglob("*.ptx") if path.stat().st_size < 100_000)[::40]

CASES = {
    "empty": "",
    "irreducible": "@%p1 bra b; a: add.u32 %r1, %r1, 1; b: add.u32 %r2, %r1, 1; @%p2 bra a; ret;",
    "infinite": "mov.u32 %r1, 1; a: add.u32 %r1, %r1, 1; @%p1 bra b; add.u32 %r1, %r1, 2; b: bra a;",
    "two infinite": "@%p1 bra b; a: add.u32 %r1, %r1, 1; bra a; b: add.u32 %r1, %r1, 1; bra b;",
    "unreachable": "mov.u32 %r1, 1; bra a; x: mov.u32 %r1, 2; bra x; a: st.global.u32 [%d1], %r1; ret;",
    "unreachable predecessor": "mov.u32 %r1, 1; bra a; mov.u32 %r1, 2; a: st.global.u32 [%d1], %r1; ret;",
    "indexed": "ts: .branchtargets a, b, a; @%p1 brx.idx %r1, ts; mov.u32 %r2, 1; a: mov.u32 %r2, 2; b: st.global.u32 [%d1], %r2; ret;",
    "guards": "@%p1 mov.u32 %r1, 1; @!%p1 mov.u32 %r1, 2; @%p2 ret; @%p3 exit; st.global.u32 [%d1], %r1; @%p1 trap;",
    "carry": "add.cc.u32 %r1, %r2, %r3; @%p1 bra a; addc.cc.u32 %r4, %r5, %r6; a: addc.u32 %r4, %r5, %r6; ret;",
    "vectors": "a: mov.f32 v.x, v.y; ld.global.v4.f32 v, [%d1]; @%p1 bra a; st.global.v2.b32 [%d1], w; ret;",
    "loop at the entry": "a: add.u32 %r1, %r1, 1; @%p1 bra a; st.global.u32 [%d1], %r1; ret;",
}

ENDS = ("", "@%p1 bra L{0};", "@%p1 bra L{0};", "@!%p2 bra L{0};", "bra L{0};", "@%p3 ret;", "@%p1 add.u32 %r{0}, 1, 1;")


class TestSecondRoute:
    @pytest.mark.parametrize("case", CASES)
    def test_case(self, case: str) -> None:
        assert list(differences(kernel(CASES[case]))) == []

    def test_random_graphs(self) -> None:
        draw = random.Random(7)
        for _ in range(150):
            count = draw.randrange(1, 14)
            ends = [draw.choice(ENDS).format(draw.randrange(count)) for _ in range(count)]
            lines = [f"L{i}: add.u32 %r{i}, %r{draw.randrange(14)}, 1; {end}" for i, end in enumerate(ends)]

            assert list(differences(kernel("\n".join([*lines, "ret;"])))) == [], lines

    @pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
    def test_fixture(self, path: Path) -> None:
        module = ptxkit.parse(path.read_bytes().decode("utf-8", "surrogateescape"))

        assert [found for routine in routines(module) for found in differences(routine, len(routine.instructions) < 1500)] == []

    @pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
    def test_corpus(self, path: Path) -> None:
        module = ptxkit.parse(path.read_bytes().decode("utf-8", "surrogateescape"))

        assert [found for routine in routines(module) for found in differences(routine, len(routine.instructions) < 1500)] == []
