"""The table as it is: it loads, agrees with itself, and with what an assembler was seen to accept."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import conformance
import pytest
import selftest

import ptxkit
from ptxkit.isa import resources
from ptxkit.isa.opcodes import flow_of, split_opcode
from ptxkit.isa.table import NOT_INSTRUCTIONS, all_forms, forms, mnemonics

ROOT = Path(__file__).resolve().parents[2]
NOT_THE_TABLES = {"1310_9.7.13.5.ptx": "calls vprintf, which is newer than the call itself"}
needs_shared = pytest.mark.skipif(not conformance.SHARED.exists(), reason="reference material is not here")


def test_every_entry_can_be_read() -> None:
    assert len(list(all_forms())) >= len(mnemonics()) > 100


def test_every_entry_says_what_it_is() -> None:
    """What is newer than the documents at hand (9.1) has no section to name."""
    assert [f"{f.file}:{f.line}" for f in all_forms() if not f.summary] == []
    newer = {f for f in all_forms() if any(n.what.version and n.what.version > (9, 1) for n in f.needs)}
    assert [f"{f.file}:{f.line}" for f in all_forms() if not f.section and f.modelled and f not in newer] == []


def test_the_index_finds_what_the_files_declare() -> None:
    for file in resources.names():
        if file not in NOT_INSTRUCTIONS:
            heads = [line for line in resources.read(file).splitlines() if line[:1].isalpha()]
            assert sum(f.file == file for f in all_forms()) == len(heads), file


def test_an_unknown_mnemonic_has_no_forms() -> None:
    assert forms("frobnicate") == ()


def test_the_table_agrees_with_itself() -> None:
    assert [str(c) for m in sorted(mnemonics()) for c in selftest.complaints(m)] == []


def test_importing_does_no_work() -> None:
    code = "import sys, ptxkit.isa; print([m for m in sys.modules if m.startswith('ptxkit.isa.') or m == 'attr'])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_it_works_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "ptxkit.zip"
    with zipfile.ZipFile(archive, "w") as file:
        parts = [ROOT / "ptxkit" / name for name in ("__init__.py", "frozen.py", "memo.py")]
        for path in [*parts, *(ROOT / "ptxkit/isa").iterdir()]:
            if path.suffix in (".py", ".isa"):
                file.write(path, path.relative_to(ROOT))
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); from ptxkit.isa.table import forms; print(len(forms('add')))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(ran.stdout) > 0


@needs_shared
def test_nothing_that_is_accepted_is_called_wrong() -> None:
    _, wrong = conformance.compare_accepted("")
    assert [f"{f.file} {f.text}" for f in wrong if f.file not in NOT_THE_TABLES] == []


@needs_shared
def test_most_of_what_is_rejected_is_found() -> None:
    total, missed, _ = conformance.compare_rejected("")
    assert len(missed) < 0.01 * total


@needs_shared
def test_minimum_versions_are_those_measured() -> None:
    _, wrong = conformance.compare_measured("")
    assert [f"{f.file} {f.text}" for f in wrong if f.file not in NOT_THE_TABLES] == []


def test_what_copies() -> None:
    assert {form.mnemonic for form in all_forms() if form.copies} == {"mov", "selp", "slct", "prmt", "bfi"}


@pytest.mark.parametrize(
    ("opcode", "flow"), [("call.uni", "call"), ("call.unknown", "call"), ("brx .idx", "branch-indexed"), ("add.u32", ""), ("unknown", "")]
)
def test_flow(opcode: str, flow: str) -> None:
    assert flow_of(opcode) == flow


@pytest.mark.parametrize("opcode", ["add .u32", "add\n.u32", "add /* .s32 */.u32", "add // .s32\n\t.u32"])
def test_white_space_in_an_opcode(opcode: str) -> None:
    assert split_opcode(opcode) == ("add", (".u32",))


@pytest.mark.parametrize("mnemonic", sorted(mnemonics()))
def test_forms_left_out_for_their_entries_take_no_such_modifiers(mnemonic: str) -> None:
    for form in forms(mnemonic):
        for modifier in form.takes:
            assert form in forms(mnemonic, (modifier,))


OF_OLD = ("1.4", "sm_10", True), ("3.1", "sm_20", True), ("3.2", "sm_10", True), ("3.2", "sm_20", False)
MAD = ".version {}\n.target {}\n.entry k () {{ .reg .f32 %f<2>; mov.f32 %f1, 0f3F800000; mad.f32 %f0, %f1, %f1, %f1; ret; }}"


@pytest.mark.parametrize(("version", "target", "is_taken"), OF_OLD)
def test_a_multiply_add_without_rounding_is_of_old_targets_or_versions(version: str, target: str, is_taken: bool) -> None:
    found = ptxkit.check(MAD.format(version, target))

    assert [one.rule for one in found] == ([] if is_taken else ["E105"])
