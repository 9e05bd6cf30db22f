"""Messages are short English sentences in the words of the field, and name things as the program does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptxkit import analyses
from ptxkit.analyses import all_rules
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import Rule, in_module
from ptxkit.diagnostics import Diagnostic
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 160
"""Characters of a message, without its notes."""
MANGLED = re.compile(r"\b_Z\w+|\b_R[A-Z]\w+|\w+_param_\d+")
REPLACED = re.compile(
    r"(?<![\w-])(?:ways?(?! bank)|nought|under way|for ever|untold|(?:is|are|was|were|be) told|tells? (?:of|that)|touch(?:es|ed|ing)?"
    r"|agree[sd]?"
    r"|stands? (?:behind|before)|squad|crew|twins?|(?:go|goes|went|comes?|came) round|mbarrier objects?|announced|so many|whatever|whoever"
    r"|(?:give|gives|given|gave) (?:it |them )?(?:away|back)|they part|place of a thread|come together|misfits|nobody|lies between"
    r"|so it is (?:in|with)|barrier of the cluster|(?:no|own) bug|left out (?:here|then|by)|taken for granted)\b",
    re.IGNORECASE,
)
"""Words that no message has."""
SOURCES = [
    path
    for folder in (
        "analyses/rules",
        "analyses/protocols",
        "analyses/events",
        "analyses/uniformity",
        "analyses/registers",
        "analyses/linting",
        "analyses/verify",
        "ptxkit/machine/monitors",
    )
    for path in sorted((ROOT / folder).rglob("*.py"))
]
FIXTURES = sorted([*(ROOT / "fixtures" / "kernels").glob("*.sm_90a.ptx"), *(ROOT / "fixtures" / "source").glob("*.ptx")])


def faults(diagnostic: Diagnostic) -> Iterator[str]:
    texts = [diagnostic.message, *diagnostic.notes, *[related.message for related in diagnostic.related]]
    if len(diagnostic.message) > LONGEST:
        yield f"{diagnostic.rule} is too long ({len(diagnostic.message)}): {diagnostic.message}"
    if diagnostic.message.endswith("…"):
        yield f"{diagnostic.rule} is cut off: {diagnostic.message}"
    for text in texts:
        for pattern in (MANGLED, REPLACED):
            yield from [f"{diagnostic.rule} says {found[0]!r}: {text}" for found in pattern.finditer(re.sub(r"%\w+", "", text))]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_of_a_rule(rule: Rule) -> None:
    bad = parse(in_module(rule.bad), "bad.ptx")
    found = analyses.lint(bad, all_rules()) if rule.is_shown else lint(bad, all_rules())

    assert found
    assert [fault for one in found for fault in faults(one)] == []
    assert [match[0] for text in (rule.summary, rule.why, rule.proof) for match in REPLACED.finditer(text)] == []


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_of_kernels(path: Path) -> None:
    found = lint(parse(path.read_text(encoding="utf-8"), path.name), all_rules())

    assert [fault for one in found for fault in faults(one)] == []


def test_of_the_templates() -> None:
    """Also messages that no test and no fixture makes: what stands in the source, with gaps for what varies."""
    found = []
    for path in SOURCES:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone]
        messages = [text for text in texts if " " in text and "\n" not in text]
        found += [f"{path.relative_to(ROOT)}: {match[0]}: {text}" for text in messages for match in REPLACED.finditer(text)]

    assert found == []
