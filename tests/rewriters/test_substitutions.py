"""Each thing that retarget writes otherwise: what it writes, that it is there at the target, and that a real compiler takes it.

That the results are the same, `benchmarks/gpu` finds out on a device, with the kernels of `newer_sm_80` and `newer_sm_90`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

import pytest

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.revalidation import Outcome, revalidate
from ptxkit.rewriters import Refused
from ptxkit.rewriters.engine.expansions import SUBSTITUTIONS
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.strip import strip


class Case(NamedTuple):
    """An instruction, from where to where it goes, and words that must stand in what comes of it (`!word`: that must not)."""

    version: str
    target: str
    to: str
    """The new target, and with `@` the new version."""
    text: str
    words: str


CASES = (
    Case("8.0", "sm_80", "sm_75", "redux.sync.add.s32 r2, r1, -1;", "shfl.sync.idx.b32 !redux"),
    Case("8.0", "sm_80", "sm_75", "redux.sync.xor.b32 r1, r1, r9;", "xor.b32 !redux"),
    Case("8.0", "sm_80", "sm_75", "@!p5 redux.sync.min.u32 r2, r1, r9;", "@p5 bra $pk_skip; $pk_skip: min.u32 !redux"),
    Case("8.0", "sm_90", "sm_80", "elect.sync r2|p1, r9;", "%laneid mov.b32 r2 !elect"),
    Case("8.0", "sm_90", "sm_80", "@p5 elect.sync _|p5, -1;", "@p5 setp.eq.u32 p5"),
    Case("6.3", "sm_60", "sm_75@6.4", "shfl.down.b32 r2|p1, r1, 2, 31;", "activemask.b32 shfl.sync.down.b32"),
    Case("6.3", "sm_60", "sm_75@6.4", "@p5 shfl.bfly.b32 r3, r1, 1, 31;", "@p5 activemask.b32 @p5 shfl.sync.bfly.b32"),
    Case("6.3", "sm_60", "sm_75@6.4", "vote.any.pred p2, !p5; vote.ballot.b32 r4, p5;", "vote.sync.any.pred vote.sync.ballot.b32"),
    Case("8.0", "sm_90", "sm_80", "add.bf16 h3, h1, h2;", "fma.rn.bf16 0x3f80"),
    Case("8.0", "sm_90", "sm_80", "sub.rn.bf16 h3, h1, h2;", "fma.rn.bf16 0xbf80"),
    Case("8.0", "sm_90", "sm_80", "@p5 mul.bf16x2 r3, r1, r2;", "@p5 fma.rn.bf16x2 0x80008000"),
    Case("8.0", "sm_90", "sm_80", "setp.gt.and.bf16 p1, h1, h2, !p5;", "cvt.f32.bf16 setp.gt.and.f32 !p5"),
    Case("8.0", "sm_90", "sm_80", "setp.ge.or.bf16x2 p1|p2, r1, r9, p5;", "setp.ge.or.f32"),
    Case(
        "8.0",
        "sm_90",
        "sm_80",
        "cvt.rni.s32.bf16 r2, h1; cvt.rn.f16.bf16 h3, h1; cvt.f64.bf16 d1, h1;",
        "cvt.rni.s32.f32 cvt.rn.f16.f32 cvt.f64.f32",
    ),
    Case("8.0", "sm_80", "sm_75", "cvt.f32.bf16 f3, h1;", "mov.b32 !cvt.f32.bf16"),
    Case("8.0", "sm_80", "sm_75", "cvt.rn.bf16.f32 h3, f1; cvt.rz.bf16x2.f32 r2, f1, f2;", "bfe.u32 0x7fff0000"),
    Case("8.0", "sm_80", "sm_75", "@p5 cvt.rn.f16x2.f32 r3, f1, f2;", "@p5 cvt.rn.f16.f32"),
    Case("8.6", "sm_100", "sm_90", "add.rn.f32x2 rd2, rd2, rd1; fma.rn.ftz.f32x2 rd3, rd2, rd1, rd2;", "add.rn.f32 fma.rn.ftz.f32 mov.b64"),
    Case("8.6", "sm_100", "sm_90", "add.f32.f16 f3, h1, f1; sub.rn.sat.f32.bf16 f3, h1, f1;", "cvt.f32.f16 sub.rn.sat.f32 cvt.f32.bf16"),
    Case("8.6", "sm_100", "sm_90", "fma.rn.f32.bf16 f4, h1, h2, f1;", "fma.rn.f32"),
    Case("8.8", "sm_100", "sm_90", "max.NaN.f32 f4, f1, f2, f1;", "max.NaN.f32"),
    Case("8.0", "sm_90", "sm_80", "min.relu.s32 r2, r1, r9;", "min.s32 max.s32"),
    Case("8.0", "sm_90", "sm_80", "max.relu.s16x2 r3, r1, r9; add.u16x2 r4, r1, r9;", "max.s16 add.u16"),
    Case("8.1", "sm_90", "sm_80", "red.global.add.v2.f32 [rd1+8], {f1, f2};", "red.global.add.f32 [rd1+12]"),
    Case("8.1", "sm_90", "sm_80", "atom.global.v2.f32.add {f3, f4}, [rd1], {f1, f2};", "atom.global.f32.add [rd1+4]"),
    Case("8.1", "sm_90", "sm_80", "@p5 red.global.add.noftz.v2.f16x2 [rd1], {r1, r9};", "@p5 red.global.add.noftz.f16x2 [rd1+4]"),
    Case("8.0", "sm_90", "sm_80", "mapa.u64 rd3, rd1, r1; mapa.shared::cluster.u32 r2, sh, 0;", "mov.u64 mov.u32 !mapa"),
    Case("8.0", "sm_90", "sm_80", "getctarank.shared::cluster.u32 r3, r8;", "mov.b32 !getctarank"),
    Case("8.0", "sm_90", "sm_80", "ld.shared::cluster.u32 r4, [r8];", "ld.shared.u32"),
    Case(
        "8.0", "sm_90", "sm_80", "fence.acq_rel.cluster; red.relaxed.cluster.global.add.u32 [rd1], r1;", "fence.acq_rel.cta red.relaxed.cta"
    ),
    Case("8.0", "sm_90", "sm_80", "mov.u32 r2, %cluster_ctarank; mov.u32 r3, %clusterid.x;", "%ctaid.x !%cluster"),
    Case("8.0", "sm_90", "sm_80", "mov.pred p1, %is_explicit_cluster; cvt.u64.u32 rd2, %nclusterid.z;", "%nctaid.z"),
    Case("8.0", "sm_90", "sm_80", "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "fence.acq_rel.cta !proxy"),
    Case(
        "8.0",
        "sm_90",
        "sm_80",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p1, [sh], 0, 1000;",
        "mbarrier.test_wait.parity !1000",
    ),
    Case("8.6", "sm_90", "sm_80", "mbarrier.arrive.shared.b64 _, [sh], 3;", "mbarrier.arrive.noComplete.shared.b64"),
    Case("8.6", "sm_90", "sm_80", "mbarrier.arrive_drop.relaxed.cluster.shared::cluster.b64 _, [sh];", "mbarrier.arrive_drop.shared.b64"),
    Case("8.6", "sm_90", "sm_80", "@p5 mbarrier.arrive.b64 _, [rd1], r1;", "@!p5 bra $pk_skip; noComplete"),
    Case("8.0", "sm_90", "sm_80", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [r8+64], {r1, r9, r1, r9};", "shfl.sync.idx st.shared.b32"),
    Case("8.0", "sm_90", "sm_80", "stmatrix.sync.aligned.x2.trans.m8n8.shared::cta.b16 [r8], {r1, r9};", "st.shared.b16"),
    Case("8.0", "sm_80", "sm_75", "cp.async.ca.shared.global.L2::128B [r8], [rd1], 16;", "ld.global.v4.b32 st.shared.v4.b32"),
    Case("8.0", "sm_80", "sm_75", "@p5 cp.async.cg.shared.global [sh+16], [rd1+16], 16, r1;", "@!p5 bra ld.global.u8 [rd1+30]"),
    Case("8.0", "sm_80", "sm_75", "cp.async.ca.shared.global [r8], [rd1], 4, !p5;", "selp.b32 st.shared.u8 [r8+2]"),
    Case("8.0", "sm_80", "sm_75", "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;", "!cp.async"),
    Case("8.0", "sm_75", "sm_61", "nanosleep.u32 20;", "!nanosleep"),
    Case("8.0", "sm_80", "sm_75", "discard.global.L2 [rd1], 128;", "!discard"),
    Case(
        "8.6",
        "sm_90",
        "sm_90@8.0",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [r8], [rd1], 16, [sh];",
        ".bulk.shared::cluster.global",
    ),
    Case(
        "8.8",
        "sm_100",
        "sm_90",
        '.pragma "used_bytes_mask 0xff";\nld.global.v8.b32 {r1,r2,r3,r4,r5,r6,r7,r10}, [rd1];',
        "[rd1+16] !.pragma",
    ),
    Case("8.0", "sm_80", "sm_80@7.0", "barrier.cta.sync.aligned 0; ld.shared::cta.u32 r4, [r8];", "bar.sync ld.shared.u32 !barrier"),
    Case("6.0", "sm_70", "sm_61", "fence.acq_rel.gpu; fence.sc.sys;", "membar.gl membar.sys !fence"),
    Case("6.0", "sm_70", "sm_61", "ld.relaxed.gpu.global.u32 r4, [rd1];", "ld.volatile.global.u32"),
    Case(
        "7.4",
        "sm_80",
        "sm_75",
        "createpolicy.fractional.L2::evict_first.b64 rd2; ld.global.L2::cache_hint.u32 r4, [rd1], rd2;",
        "mov.b64 ld.global.u32 !hint",
    ),
    Case("9.0", "sm_90", "sm_90@8.3", '.pragma "frequency 3"; .pragma "nounroll";\n', "nounroll !frequency"),
)

REGISTERS = (
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<16>; .reg .b64 rd<8>; .reg .f32 f<12>; .reg .f64 d<2>;\n"
    "ld.param.u64 rd1, [a]; mov.u32 r1, %tid.x; mov.b32 r9, -1; cvt.u16.u32 h1, r1; cvt.u16.u32 h2, r1; setp.eq.u32 p5, r1, 3;\n"
    "mov.b32 f1, r1; mov.b32 f2, r1; mov.b64 rd2, rd1; mov.u32 r8, sh; mov.u32 r2, r1;\n"
)
RESULTS = (
    "\nst.global.v4.u32 [rd1], {r1, r2, r3, r4}; st.global.v4.f32 [rd1+16], {f1, f2, f3, f4}; st.global.v2.b64 [rd1+32], {rd2, rd3};\n"
    "st.global.u16 [rd1+48], h3; selp.u32 r5, 1, 2, p1; selp.u32 r6, 3, 4, p2; st.global.v2.u32 [rd1+64], {r5, r6};\n"
    "st.global.f64 [rd1+72], d1; ret;\n"
)


def kernel(number: int, text: str) -> str:
    return f".visible .entry k{number}(.param .u64 a)\n{{\n{REGISTERS}{text}{RESULTS}}}\n"


def module_of(version: str, target: str, *texts: str) -> ptxkit.Module:
    head = f".version {version}\n.target {target}\n.address_size 64\n.shared .align 128 .b8 sh[1024];\n"
    return ptxkit.parse(head + "".join([kernel(i, text) for i, text in enumerate(texts)]))


def retargeted(module: ptxkit.Module, to: str) -> ptxkit.Module:
    target, _, version = to.partition("@")
    return retarget(module, target=target, version=version).module


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.splitlines()[-1][:40])
def test_what_is_written(case: Case) -> None:
    module = module_of(case.version, case.target, case.text)
    new = retargeted(module, case.to)
    text = new.text.split(", sh; mov.u32 r2, r1;")[1].split("st.global.v4.u32")[0]

    assert [found for found in lint(module) if found.rule[0] in "EV" and found.severity is ptxkit.Severity.ERROR] == []
    assert new == ptxkit.parse(new.text)
    assert new.targets == (case.to.partition("@")[0],)
    for word in case.words.split(" "):
        assert (word.removeprefix("!") in text) is not (word[0] == "!" and word != "!p5"), text


@pytest.mark.parametrize("way", sorted({(case.version, case.target, case.to) for case in CASES}))
def test_a_compiler_takes_it(way: tuple[str, str, str]) -> None:
    version, target, to = way
    module = module_of(version, target, *[case.text for case in CASES if case[:3] == way])
    for one in (module, retargeted(module, to)):
        verdict = revalidate(one, using=("nvjitlink", "ptxas"))
        if verdict.outcome is Outcome.UNAVAILABLE:
            pytest.skip(verdict.reason)
        assert verdict.outcome is Outcome.VALID, [found.message for found in verdict.diagnostics]


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_old_shuffles_are_the_same_code(mode: str) -> None:
    """What a compiler makes of a shuffle without a mask, for a GPU of today, is what it makes of the new text."""
    body = f"ld.param.u64 rd1, [a]; mov.u32 r1, %tid.x; shfl.{mode}.b32 r2, r1, 3, 31; st.global.u32 [rd1], r2; ret;"
    head = ".version 6.3\n.target sm_60\n.address_size 64\n"
    old = ptxkit.parse(f"{head}.visible .entry k0(.param .u64 a) {{ .reg .b32 r<3>; .reg .b64 rd<2>; {body} }}")
    verdicts = [revalidate(module, "sm_75", using=("nvjitlink",)) for module in (old, retargeted(old, "sm_75@6.4"))]
    if any(verdict.outcome is Outcome.UNAVAILABLE for verdict in verdicts):
        pytest.skip(verdicts[0].reason)
    one, other = [_opcodes(_code(verdict.cubin or b"")) for verdict in verdicts]

    assert one - other == Counter()
    assert set(other - one) <= {VOTE}


VOTE, NOP = 0x806, 0x918
"""Opcodes of machine code: that of `activemask`, and what fills the end."""


def _opcodes(code: bytes) -> Counter[int]:
    """How often each opcode stands in machine code, whatever the registers and the order."""
    found = Counter([int.from_bytes(code[at : at + 2], "little") & 0xFFF for at in range(0, len(code), 16)])
    del found[NOP]
    return found


def _code(cubin: bytes) -> bytes:
    """The section `.text.k0` of a cubin."""
    offset = int.from_bytes(cubin[40:48], "little")
    size, count, names = [int.from_bytes(cubin[at : at + 2], "little") for at in (58, 60, 62)]
    headers = [cubin[offset + i * size : offset + (i + 1) * size] for i in range(count)]
    places = [(int.from_bytes(header[24:32], "little"), int.from_bytes(header[32:40], "little")) for header in headers]
    for header, (start, length) in zip(headers, places, strict=True):
        name = places[names][0] + int.from_bytes(header[:4], "little")
        if cubin[name:].startswith(b".text.k0\0"):
            return cubin[start : start + length]
    return b""


class TestRefused:
    """What cannot be said without changing a result."""

    @pytest.mark.parametrize(
        ("version", "target", "to", "text"),
        [
            ("8.0", "sm_90", "sm_80", "barrier.cluster.arrive;"),
            ("8.0", "sm_90", "sm_80", "mbarrier.arrive.shared.b64 rd3, [sh], 3;"),
            ("8.0", "sm_90", "sm_80", "mbarrier.arrive.expect_tx.shared.b64 _, [sh], 16;"),
            ("8.1", "sm_90", "sm_80", "atom.global.v2.f32.add {f1, f3}, [rd1], {f2, f1};"),
            ("8.0", "sm_90", "sm_80", "mov.u32 r2, %aggr_smem_size;"),
            ("8.0", "sm_90", "sm_80", "tanh.approx.bf16 h3, h1;"),
            ("8.0", "sm_80", "sm_61", "redux.sync.add.s32 r2, r1, -1;"),
            ("8.6", "sm_100a", "sm_90", "redux.sync.max.f32 f3, f1, -1;"),
            ("8.0", "sm_80", "sm_75", "fma.rn.bf16 h3, h1, h2, h1;"),
        ],
    )
    def test_with_the_line(self, version: str, target: str, to: str, text: str) -> None:
        with pytest.raises(Refused) as refused:
            retarget(module_of(version, target, text), target=to)
        assert {found.span.line for found in refused.value.diagnostics} == {10}


def test_substitutions_and_probes_are_two_things() -> None:
    """What retarget writes is no probe: strip leaves it."""
    new = retargeted(module_of("8.0", "sm_80", CASES[0].text), "sm_75")

    assert strip(new).text == new.text


def test_one_after_another_in_one_block() -> None:
    """Blocks use the same names again."""
    texts = [case.text for case in itertools.islice(CASES, 3)]
    new = retargeted(module_of("8.0", "sm_80", " ".join(texts)), "sm_75")

    assert "redux" not in new.text


def test_a_rule_of_the_page_for_each() -> None:
    """What `docs/retargeting.md` promises to be tested is: every way to write something else is used by a case above."""
    used = " ".join(
        [
            change
            for case in CASES
            for change in retarget(
                module_of(case.version, case.target, case.text), target=case.to.partition("@")[0], version=case.to.partition("@")[2]
            ).manifest.changes
        ]
    )

    assert {same for same, *_ in SUBSTITUTIONS if same not in used} == set()
