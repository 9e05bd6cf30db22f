"""Threads of PTX kernels as programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.analyses.memory_model import CannotFollow, Taste, generate, outcomes, registers, to_ptx
from ptxkit.analyses.memory_model.enumerator import Register
from ptxkit.analyses.memory_model.litmus import answer
from ptxkit.analyses.memory_model.ptx import litmus_of, program_of
from ptxkit.analyses.memory_model.ptx_kernel import BadQuestion, ThreadIndex
from ptxkit.cli.litmus import command

HANDOFF = Path(__file__).resolve().parents[3] / "fixtures" / "litmus" / "handoff.ptx"


@pytest.mark.parametrize("seed", range(30))
def test_a_kernel_has_the_outcomes_and_races_of_its_program(seed: int) -> None:
    program = generate(seed, Taste(proxies=seed % 3 == 0, mixed=seed % 5 == 0))
    ctas = list(dict.fromkeys(one.cta for one in program.threads))
    counts = dict.fromkeys(ctas, 0)
    places = []
    for thread in program.threads:
        places.append(ThreadIndex(ctas.index(thread.cta), 32 * counts[thread.cta]))
        counts[thread.cta] += 1
    again, names = program_of(to_ptx(program).text, "litmus.ptx", tuple(places))
    wanted = [Register(one.thread, names[f"%{one.name}_{one.thread}"]) for one in registers(program)]

    expected = {one.values: one.racy is not None for one in outcomes(program).outcomes}
    assert {one.values: one.racy is not None for one in outcomes(again, wanted).outcomes} == expected


def ask(text: str, threads: str = "0:0,1:0", **options: object) -> bool:
    return answer(litmus_of(text, "t.ptx", threads, **options)).holds  # type: ignore[arg-type]


def test_a_narrow_scope_lets_an_old_value_through() -> None:
    text = HANDOFF.read_text(encoding="utf-8")

    assert ask(text, exists="%r4@1:0 == 0")
    assert not ask(text.replace(".cta", ".gpu"), exists="%r4@1:0 == 0")
    assert ask(text.replace(".cta", ".gpu"), exists="%r4@1:0 == 42 && flag == 1 && data+4 == 42")


@pytest.mark.parametrize(
    ("threads", "options", "message"),
    [
        ("0-1", {}, "--threads is a list like"),
        ("0:0,0:0", {}, "names a thread twice"),
        ("0:0", {"kernel": "none"}, "no kernel none; there are handoff"),
        ("0:0", {"parameters": ["n"]}, "--param is like n=4"),
        ("0:0", {"exists": "%r4@1:0 == 0"}, "thread 1:0 is not among --threads"),
        ("0:0", {"exists": "%r9@0:0 == 0"}, "there is no register %r9"),
        ("0:0", {"exists": "nothing == 0"}, "there is no variable nothing"),
        ("0:0", {"exists": "%r4@0:0"}, "a comparison is missing"),
    ],
)
def test_questions_that_cannot_be_asked(threads: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadQuestion) as caught:
        litmus_of(HANDOFF.read_text(encoding="utf-8"), "t.ptx", threads, **options)  # type: ignore[arg-type]

    assert message in str(caught.value)


def test_what_is_not_followed_is_said_with_its_line() -> None:
    text = HANDOFF.read_text(encoding="utf-8").replace("add.u32 %r5, %r4, 1;", "shfl.sync.idx.b32 %r5, %r4, 0, 31, -1;")
    with pytest.raises(CannotFollow, match=r"shfl\.sync") as caught:
        litmus_of(text, "t.ptx", "0:0")

    assert text.splitlines()[caught.value.line - 1].strip().startswith("shfl")


def test_the_command(tmp_path: Path) -> None:
    found = CliRunner().invoke(command, [str(HANDOFF), "--threads", "0:0,1:0", "--exists", "%r4@1:0 == 0", "--explain"])

    assert found.exit_code == 0
    assert "change in 0:0: st.release.cta flag, 1 -> st.release.gpu flag, 1 (line 21)" in found.stdout
    broken = tmp_path / "broken.ptx"
    broken.write_text("not PTX")
    assert CliRunner().invoke(command, [str(broken), "--threads", "0:0"]).exit_code == 2
    assert CliRunner().invoke(command, [str(HANDOFF)]).exit_code == 2


MBARRIER = HANDOFF.with_name("mbarrier.ptx")
RELAXED = HANDOFF.with_name("mbarrier-relaxed.ptx")


def test_who_sees_a_phase_complete_sees_what_its_arrivals_publish() -> None:
    text = MBARRIER.read_text(encoding="utf-8")

    assert not ask(text, "0:0,0:32", exists="%r4@0:32 == 0")
    assert ask(text, "0:0,0:32", exists="%r4@0:32 == 42")
    assert ask(RELAXED.read_text(encoding="utf-8"), "0:0,0:32", exists="%r4@0:32 == 0")
    # the phase before the first one is complete from the beginning
    assert ask(text.replace("[bar], 0;", "[bar], 1;"), "0:0,0:32", exists="%r4@0:32 == 0")


def test_a_phase_of_two_arrivals_needs_both() -> None:
    text = MBARRIER.read_text(encoding="utf-8").replace("[bar], 1;\nREADY", "[bar], 2;\nREADY")
    assert not ask(text, "0:0,0:32", exists="%r4@0:32 == 42")
    assert ask(text.replace("%rd2, [bar];", "%rd2, [bar], 2;"), "0:0,0:32", exists="%r4@0:32 == 42")


TRANSACTIONS = HANDOFF.with_name("transactions.ptx")
PEER = HANDOFF.with_name("store-to-peer.ptx")


def racy(text: str, threads: str) -> bool:
    return any(one.racy for one in outcomes(litmus_of(text, "t.ptx", threads).program).outcomes)


def test_who_sees_the_bytes_counted_sees_what_was_copied() -> None:
    text = TRANSACTIONS.read_text(encoding="utf-8")

    assert not ask(text, "0:0,0:32", exists="%r4@0:32 == 0")
    assert ask(text, "0:0,0:32", exists="%r4@0:32 == 42")
    assert not racy(text, "0:0,0:32")


def test_a_phase_is_not_complete_before_all_bytes_came() -> None:
    text = TRANSACTIONS.read_text(encoding="utf-8")

    assert not ask(text.replace("%rd2, [bar], 16;", "%rd2, [bar], 32;"), "0:0,0:32", exists="%r4@0:32 == 42")
    # nothing is expected: the phase may be over before the copy is
    early = text.replace("mbarrier.arrive.expect_tx.shared::cta.b64	%rd2, [bar], 16;", "mbarrier.arrive.shared::cta.b64	%rd2, [bar];")
    assert ask(early, "0:0,0:32", exists="%r4@0:32 == 0")


def test_a_bulk_copy_does_not_see_what_no_proxy_fence_handed_over() -> None:
    text = TRANSACTIONS.read_text(encoding="utf-8")

    assert racy(text.replace("	fence.proxy.async;\n", ""), "0:0,0:32")


def test_a_store_to_a_peer_is_seen_by_who_waits_in_the_cluster() -> None:
    text = PEER.read_text(encoding="utf-8")

    assert not ask(text, exists="%r4@0:0 == 0")
    assert ask(text, exists="%r4@0:0 == 42")
    assert ask(text.replace("acquire.cluster", "acquire.cta"), exists="%r4@0:0 == 0")
    assert ask(text.replace("[word]", "[word]").replace("word, 0;", "word, 1;"), exists="%r4@0:0 == 0")  # to its own CTA


def test_a_call_that_is_not_followed_says_why() -> None:
    text = PEER.read_text(encoding="utf-8")
    recursive = text.replace(
        "	ld.param.b32	%r1, [phase];", "	call.uni wait_for, (phase, object);\n	ld.param.b32	%r1, [phase];"
    )
    with pytest.raises(CannotFollow, match="wait_for is recursive"):
        litmus_of(recursive, "t.ptx", "0:0")
    start, end = text.index(".func"), text.index(".visible")
    with pytest.raises(CannotFollow, match="wait_for has no body"):
        litmus_of(text[:start] + ".extern .func wait_for(.param .b32 phase, .param .b64 object);\n" + text[end:], "t.ptx", "0:0,1:0")


REGISTERS = """.version 8.5
.target sm_80
.address_size 64
.func (.reg .b32 %sum) add(.reg .b32 %a, .param .b32 b)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [b];
	add.u32 %sum, %a, %r1;
	ret;
}
.visible .entry k(.param .u64 data)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [data];
	ld.global.u32 %r1, [%rd1];
	call (%r2), add, (%r1, 4);
	call (%r2), add, (%r2, 30);
	st.global.u32 [%rd1], %r2;
	ret;
}
"""


def test_a_call_hands_over_registers_and_constants() -> None:
    assert ask(REGISTERS, "0:0", exists="%r2@0:0 == 34 && data == 34")
    assert not ask(REGISTERS, "0:0", exists="%r2@0:0 != 34")


COPIES = """.version 8.5
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 data)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	.reg .pred %p;
	.shared .align 16 .b32 tile[4];
	.shared .align 8 .b64 bar;
	ld.param.u64 %rd1, [data];
	mov.b32 %r1, 42;
	st.global.u32 [%rd1], %r1;
	st.global.u32 [%rd1+4], %r1;
	mbarrier.init.shared.b64 [bar], 1;
	cp.async.ca.shared.global [tile], [%rd1], 4;
	cp.async.ca.shared.global [tile+4], [%rd1+4], 4;
	cp.async.commit_group;
	cp.async.ca.shared.global [tile+8], [%rd1], 4;
	cp.async.commit_group;
	WAIT
	ld.shared.u32 %r2, [tile];
	ld.shared.u32 %r3, [tile+8];
	ret;
}
"""


@pytest.mark.parametrize(
    ("wait", "is_racy"),
    [
        ("cp.async.wait_group 1;", True),
        ("cp.async.wait_group 0;", False),
        ("cp.async.wait_all;", False),
        (
            "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; AGAIN: mbarrier.test_wait.parity.shared.b64 %p, [bar], 0; @!%p bra AGAIN;",
            False,
        ),
        ("mbarrier.arrive.shared.b64 _, [bar]; AGAIN: mbarrier.test_wait.parity.shared.b64 %p, [bar], 0; @!%p bra AGAIN;", True),
    ],
)
def test_groups_of_copies(wait: str, is_racy: bool) -> None:
    assert racy(COPIES.replace("WAIT", wait), "0:0") == is_racy


def test_the_newest_group_stays_in_flight() -> None:
    text = COPIES.replace("WAIT", "cp.async.wait_group 1;")

    assert ask(text, "0:0", exists="%r3@0:0 == 0")
    assert not ask(text, "0:0", exists="%r2@0:0 == 0")
