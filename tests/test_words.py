"""Names and docstrings of the analyses are in the words of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ANALYSES = Path(__file__).resolve().parent.parent / "analyses"
REPLACED = ("simulation", "verify")
"""Rooms whose modules stand as they were until the machine replaces them: only the names of their files are looked at."""

NAMES = re.compile(
    r"ways?|turns?|places?|told|tells?|untold|touch(?:es|ed|ing)?|objects|nought|squad|crew|team|twins?|customs?|alike"
    r"|misfits|lives|answers|agrees?|partings?|behind|strays?|luck|odd"
)
"""Words that no name has."""
PHRASES = re.compile(
    r"\b(?:ways?|turns?|places?|under way|nought|whatever|whoever|(?:go|goes|going|went|comes?|came) round|mbarrier objects?|untold"
    r"|tell(?:s|ing)? of|told|touch(?:es|ed|ing)?|agree[sd]?|stands? behind|squad|crew|twins?|for ever"
    r"|(?:give|gives|given|gave) (?:it |them )?(?:away|back))\b",
    re.IGNORECASE,
)
"""What no docstring says."""
QUOTED = re.compile(r"`[^`]*`")


def modules() -> list[Path]:
    return [path for path in sorted(ANALYSES.rglob("*.py")) if path.relative_to(ANALYSES).parts[0] not in REPLACED]


def words(name: str) -> list[str]:
    """The words of a name, in small letters."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]


def names(tree: ast.Module) -> Iterator[str]:
    """What a module defines: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Strings that stand alone: of modules, classes, functions, constants and fields."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.value


def test_files_have_the_words_of_the_field() -> None:
    found = [path for path in ANALYSES.rglob("*.py") if path.parent.parent.name != "rules" and any(map(NAMES.fullmatch, words(path.stem)))]

    assert not found


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ANALYSES).as_posix())
def test_names_and_docstrings_have_the_words_of_the_field(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = sorted({name for name in names(tree) if any(map(NAMES.fullmatch, words(name)))})
    said = [
        f"line {string.lineno}: {match[0]}" for string in docstrings(tree) for match in PHRASES.finditer(QUOTED.sub("", str(string.value)))
    ]

    assert not named
    assert not said
