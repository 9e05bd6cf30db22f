"""Names and docstrings are in the words of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("analyses", "ptxkit", "rewriters")
REPLACED: tuple[str, ...] = ()
"""Folders whose modules stand as they were until the machine replaces them: only the names of their files are looked at."""
LINKS = ("ptxkit/analyses", "ptxkit/rewriters")
PUBLIC = {
    "rewriters/engine/edits.py": {"ways"},
    "rewriters/engine/patterns.py": {"place"},
    "rewriters/engine/rewrite.py": {"place"},
    "rewriters/reduction/reducing.py": {"tell"},
}
"""Names that users write: `AtExits(ways=...)`, `Pattern(place=...)`, `place` in a manifest, `reduce(tell=...)`."""
OF_THE_MACHINE = {"place", "_place", "places", "_places", "_Places", "objects", "odd", "tell", "touched", "turns", "_answers"}
"""Names in `ptxkit/machine`: the `place` of a lane, a parameter of most of its functions, and a few that go with it."""
TERMS = re.compile(r"_?(?:integer|sum|single)_to_odd")
"""Terms of the field that have such a word: rounding to odd."""

NAMES = re.compile(
    r"ways?|turns?|places?|told|tells?|untold|touch(?:es|ed|ing)?|objects|nought|squad|crew|team|twins?|customs?|alike"
    r"|misfits|lives|answers|agrees?|partings?|behind|strays?|luck|odd"
)
"""Words that no name has."""
PHRASES = re.compile(
    r"\b(?:ways?|turns?|(?<!\bin\s)places?|under way|nought|whatever|whoever|(?:go|goes|going|went|comes?|came) round|mbarrier objects?"
    r"|untold|tell(?:s|ing)? of|told|touch(?:es|ed|ing)?|agree[sd]?|stands? behind|squad|crew|twins?|for ever"
    r"|(?:give|gives|given|gave) (?:it |them )?(?:away|back))\b",
    re.IGNORECASE,
)
"""What no docstring says."""
QUOTED = re.compile(r"`[^`]*`")


def modules() -> list[Path]:
    found = [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if not path.as_posix().startswith(tuple(folder + "/" for folder in (*REPLACED, *LINKS)))]


def allowed(path: Path) -> set[str]:
    """The names of a module that may stay."""
    return OF_THE_MACHINE if path.parts[:2] == ("ptxkit", "machine") else PUBLIC.get(path.as_posix(), set())


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
    found = [path for path in modules() if path.parent.parent.name != "rules" and any(map(NAMES.fullmatch, words(path.stem)))]

    assert [path.as_posix() for path in found] == ["ptxkit/machine/textures/objects.py"]  # texture objects, as the CUDA guide has them


def test_names_and_docstrings_have_the_words_of_the_field() -> None:
    found = []
    for path in modules():
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        defined = {name for name in names(tree) if not TERMS.fullmatch(name)} - allowed(path)
        found += [f"{path}: {name}" for name in sorted(defined) if any(map(NAMES.fullmatch, words(name)))]
        strings = [(string.lineno, str(string.value)) for string in docstrings(tree)]
        found += [f"{path}:{line}: {match[0]}" for line, said in strings for match in PHRASES.finditer(QUOTED.sub("", said))]

    assert found == []


def test_allowed_names_are_there() -> None:
    for path, allowed_names in PUBLIC.items():
        assert allowed_names <= set(names(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
