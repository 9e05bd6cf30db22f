"""Litmus files: our own, whose questions are all answered with yes, those beside the checkout, and what is no litmus file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ptxkit.analyses.memory_model import CannotFollow
from ptxkit.analyses.memory_model.litmus import answer
from ptxkit.analyses.memory_model.litmus_files import BadLitmus, parse

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = sorted((ROOT / "fixtures" / "litmus").glob("*.litmus"))
SHARED = ROOT.parent / "shared" / "litmus"


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_question_of_ours_is_answered_with_yes(path: Path) -> None:
    assert answer(parse(path.read_text(encoding="utf-8")), races=False).holds


def test_the_tests_of_others_are_answered_as_they_expect() -> None:
    if not SHARED.exists():
        pytest.skip("../shared/litmus is not there")
    lines = (SHARED / "expected.tsv").read_text(encoding="utf-8").splitlines()[1:]
    wrong = []
    for line in lines:
        name, holds = line.split("\t")
        if answer(parse((SHARED / name).read_text(encoding="utf-8")), races=False).holds != (holds == "1"):
            wrong.append(name)

    assert not wrong


HEAD = "PTX t\n{ x = 0; P0:r0 = 0; }\n"
ROW = " P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n"
ASK = "exists (P0:r0 == 1)\n"


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("hello", "begins with `PTX`", 1, 1),
        ("PTX t\n", "the `{` before the initial state is missing", 1, 6),
        ("PTX t\n{ x = 0;\n", "the `}` after", 2, 9),
        (HEAD + ROW + " st.weak x, 1 | ;\n", "the question is missing", 4, 18),
        (HEAD + " P0@cta 0 ;\n" + ASK, "a thread has a `cta` and a `gpu`", 3, 5),
        (HEAD + " P0@cta 0,gpu 0 | P0@cta 1,gpu 0 ;\n" + ASK, "thread P0 is there twice", 3, 19),
        ("PTX t\n{ x ; = }\n" + ROW + ASK, "not a declaration", 2, 7),
        ("PTX t\n{ y @ paper aliases x; }\n" + ROW + ASK, "there is no proxy `paper`", 2, 7),
        (HEAD + ROW + " ld.acqire.gpu r0, x | ;\n" + ASK, "`ld` has no `.acqire`", 4, 2),
        (HEAD + ROW + " ld.weak.gpu r0, x | ;\n" + ASK, "a weak `ld` has no scope", 4, 2),
        (HEAD + ROW + " | st.release x, 1 ;\n" + ASK, "`st.release` needs a scope", 4, 4),
        (HEAD + ROW + " st.weak x | ;\n" + ASK, "2 operands are needed, not 1", 4, 10),
        (HEAD + ROW + " st.weak x, | ;\n" + ASK, "neither a number nor a register", 4, 12),
        (HEAD + ROW + " ld.weak r0, r1 | ;\n" + ASK, "`r1` is not a variable", 4, 14),
        (HEAD + ROW + " goto LC00 | ;\n" + ASK, "has no label LC00", 4, 2),
        (HEAD + ROW + " jump LC00 | ;\n" + ASK, "there is no instruction `jump`", 4, 2),
        (HEAD + ROW + " fence.acq_rel | ;\n" + ASK, "a fence is written like", 4, 2),
        (HEAD + ROW + " atom.relaxed.gpu r0, x, 1 | ;\n" + ASK, "needs an operation", 4, 2),
        (HEAD + ROW + " | | st.weak x, 1 ;\n" + ASK, "a row has 3 instructions", 4, 5),
        (HEAD + ROW + "exists (P2:r0 == 1)\n", "there is no thread P2", 4, 9),
        (HEAD + ROW + "exists (P0:r0 == 1\n", "a `)` is missing", 4, 19),
        (HEAD + ROW + "exists (P0:r0)\n", "a comparison is missing", 4, 14),
        (HEAD + ROW + "exists (P0:r0 == 1 # 2)\n", "unexpected '#'", 4, 20),
        (HEAD + ROW + ASK + ASK, "more than one question", 5, 1),
        ("PTX t\n{ x @ generic aliases y; y @ generic aliases x; }\n" + ROW + ASK, "is an alias of itself", 2, 2),
    ],
)
def test_what_is_no_litmus_file_is_said_with_its_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(BadLitmus) as caught:
        parse(text)

    assert message in str(caught.value)
    before = text[: caught.value.at]
    assert (before.count("\n") + 1, len(before) - before.rfind("\n")) == (line, column)


def test_comments_locations_and_loops() -> None:
    test = parse(
        "PTX t (* a\n comment *)\n{ x = 0x10; y = -1; P0:r0 = &x; }\n P0@cta 0, gpu 0 ;\n ld.weak r1, x ; // another\n"
        " LC00: add r2, r2, 1 ;\n blt r2, 3, LC00 ;\n ld.weak r3, y ;\nlocations [x; P0:r1]\n"
        "exists (0:r1 = 16 /\\ P0: r2 == 3 /\\ ~(P0:r3 != -1) /\\ [y] < 0 /\\ not P0:r0 == 0)\n"
    )

    assert answer(test).holds


def test_a_loop_that_goes_on_is_cut() -> None:
    test = parse("PTX t\n{ }\n P0@cta 0,gpu 0 ;\n LC00: ;\n ld.weak r0, x ;\n beq r0, 0, LC00 ;\nexists (P0:r0 == 1)\n")
    found = answer(test)

    assert found.outcomes.is_cut and not found.holds


PIECES = [
    "x",
    "r0",
    "1",
    "-1",
    "007",
    "0x",
    "LC00",
    "LC00:",
    ";",
    "|",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "@",
    ":",
    "=",
    "==",
    "/\\",
    "~",
    "exists",
    "forall",
    "filter",
    "ld.weak",
    "atom.relaxed.gpu.cas",
    "bar.cta.sync",
    "fence.sc.gpu",
    "cta",
    "gpu",
    "P0",
    "P9",
    "P1:r0",
    "goto",
    ".v2",
    ".u8",
    "+4",
    "&x",
    "aliases",
    "generic",
    "surface",
    "16",
]


@pytest.mark.parametrize("seed", range(40))
def test_broken_files_are_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    for path in chance.sample(FIXTURES, 10):
        text = path.read_text(encoding="utf-8")
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(text))
            end = min(len(text), start + chance.randint(0, 8))
            text = f"{text[:start]} {chance.choice(PIECES)} {text[end:]}"
        try:
            answer(parse(text), races=False)
        except BadLitmus as error:
            assert 0 <= error.at <= len(text)
        except CannotFollow as error:
            assert str(error)
