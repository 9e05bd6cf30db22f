"""Which registers hold a value of a type. The expected sets were measured with an assembler; see the comments for what differs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ptxkit.isa.types import holders, types

MEASURED = Path(__file__).resolve().parents[3] / "shared" / "spec" / "regtypes.tsv"


def test_sizes() -> None:
    assert types()[".b128"].bytes == 16
    assert types()[".e2m1"].bytes == 1
    assert types()[".pred"].bits == 1


@pytest.mark.parametrize(
    ("name", "how", "expected"),
    [
        (".u32", "same", ".b32 .u32 .s32 .f16x2"),
        (".f32", "same", ".b32 .f32"),
        (".b16", "same", ".b16 .u16 .s16 .f16"),
        (".f16x2", "same", ".b32 .f16x2"),
        (".bf16", "same", ".b16"),
        (".f32x2", "same", ".b64"),
        (".pred", "same", ".pred"),
        (".f32", "exact", ".f32"),
        (".f32", "bits", ".b32 .u32 .s32 .f32 .f16x2"),
        (".f32", "wide", ".b32 .f32 .b64 .b128"),
        (".u8", "wide", ".b8 .u8 .s8 .b16 .u16 .s16 .b32 .u32 .s32 .f16x2 .b64 .u64 .s64 .b128"),
        (".bf16", "wide", ".b16"),
    ],
)
def test_holders(name: str, how: str, expected: str) -> None:
    assert holders(name, how) == set(expected.split())


@pytest.mark.skipif(not MEASURED.exists(), reason="measurements are not here")
def test_holders_are_those_measured() -> None:
    """For `add.f32 d, …` and the like: the type is the opcode's last one. That mov.pred takes .f16x2 is no rule to keep."""
    wrong = []
    for row in csv.reader(MEASURED.open(encoding="utf-8"), delimiter="\t"):
        operand = row[0].split()
        opcode = operand[0]
        how = "wide" if opcode.startswith(("ld.", "st.")) else "same"
        if operand[1:] not in (["dest"], ["src"]) or opcode.startswith(("popc", "setp", "mul.wide", "cvt")):
            continue
        name = "." + opcode.rpartition(".")[2]
        if name != ".pred" and holders(name, how) != set(row[2].split()):
            wrong.append((row[0], sorted(holders(name, how) ^ set(row[2].split()))))
    assert not wrong
