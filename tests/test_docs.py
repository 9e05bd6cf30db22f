"""The pages that are made from the table and the rules; what the catalogue of rules asks for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptxkit.analyses import all_rules

ROOT = Path(__file__).parents[1]
CATALOGUE = ROOT.parent / "shared" / "research" / "lint.md"
ALIASES = {"R001m": "R008", "R001s": "R008"}
"""Entries of the catalogue whose rule has another id; docs/rules/not-done.md says so."""


def test_pages_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.stdout == ""
    assert done.returncode == 0


def test_the_pages_count_what_ptxas_accepts() -> None:
    rules = [rule for rule in all_rules() if not rule.id.startswith("E")]
    accepted, noted, warned = (sum(words in rule.ptxas for rule in rules) for words in ("without a message", "and notes", "and warns"))
    figures, comparison = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("figures.md", "comparison.md"))

    said = f"of the {len(rules)} bad examples outside of family E, ptxas 13.0.88 accepts {accepted} without a message"
    assert f"{said}, {noted} with a note, {warned} with a warning" in figures
    assert f"accepts the bad examples of {accepted} of {len(rules)} rules" in comparison


def entries(catalogue: str) -> list[str]:
    """The ids that the catalogue's headings name: `F001-F003` is three of them, `R001m/s` and `M013/M016` are two."""
    found: list[str] = []
    for heading in re.findall(r"^\*\*([A-Z]\d{3}[-/A-Za-z0-9]*)", catalogue, re.M):
        parts = re.split(r"([-/])", heading)
        ids = [parts[0]]
        for sign, part in zip(parts[1::2], parts[2::2], strict=True):
            if sign == "-":
                ids += [f"{ids[-1][0]}{number:03}" for number in range(int(ids[-1][1:]) + 1, int(part[1:]) + 1)]
            else:
                ids.append(part if len(part) > 1 else ids[-1][:-1] + part)
        found += ids
    return found


@pytest.mark.skipif(not CATALOGUE.is_file(), reason="the catalogue is not there")
def test_every_entry_of_the_catalogue_has_its_rule_or_a_reason() -> None:
    excused = (ROOT / "docs" / "rules" / "not-done.md").read_text(encoding="utf-8")
    rules = {rule.id for rule in all_rules()}
    wanted = entries(CATALOGUE.read_text(encoding="utf-8"))

    assert len(wanted) >= 90
    missing = [entry for entry in wanted if ALIASES.get(entry, entry) not in rules]
    assert [entry for entry in missing if entry not in excused] == []
    assert all(alias in excused for alias in ALIASES)


def test_headings_of_the_catalogue() -> None:
    assert entries("**C001 E `a`**\n**F001-F003 E**\n**R001m/s W**\n**M013/M016 E**\n**not one**\n") == (
        ["C001", "F001", "F002", "F003", "R001m", "R001s", "M013", "M016"]
    )
