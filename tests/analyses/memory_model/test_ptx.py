"""Threads of PTX kernels as programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.analyses.memory_model import CannotFollow, Taste, generate, outcomes, registers, to_ptx
from ptxkit.analyses.memory_model.enumerator import Register
from ptxkit.analyses.memory_model.litmus import answer
from ptxkit.analyses.memory_model.ptx import BadQuestion, ThreadIndex, litmus_of, program_of
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


def test_transactions_of_mbarriers_are_not_followed() -> None:
    text = MBARRIER.read_text(encoding="utf-8").replace(
        "arrive.shared::cta.b64	%rd2, [bar]", "arrive.expect_tx.shared::cta.b64	%rd2, [bar], 16"
    )
    with pytest.raises(CannotFollow, match="without transactions"):
        litmus_of(text, "t.ptx", "0:0")
