"""The walls: who may import whom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@cache
def imports(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def files(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.is_relative_to(ROOT / "ptxkit" / "analyses")]


def forbidden(paths: Iterable[Path], *prefixes: str) -> list[str]:
    """Who imports which of these modules, or a module in them."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in sorted(imports(path))
        if any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
    ]


LANGUAGE = [
    path for path in files("ptxkit") if path.relative_to(ROOT).parts[1] not in ("cli", "lsp", "testing", "facade.py", "__init__.py")
]
"""What `ptxkit/` holds besides its entrances: the command line, the server of editors, the helpers for tests, and the functions of
`import ptxkit`."""


def test_the_language_imports_no_analysis() -> None:
    assert not forbidden(LANGUAGE, "ptxkit.analyses", "ptxkit.rewriters", "analyses", "rewriters")


def test_analyses_import_no_rewriter() -> None:
    assert not forbidden(files("analyses"), "ptxkit.rewriters", "ptxkit.cli", "analyses", "rewriters")


def test_syntax_knows_no_instruction() -> None:
    assert not forbidden(files("ptxkit/syntax"), "ptxkit.isa", "ptxkit.names", "ptxkit.checking", "ptxkit.cli")


def test_the_instruction_table_knows_no_tree() -> None:
    assert not forbidden(files("ptxkit/isa"), "ptxkit.syntax", "ptxkit.names", "ptxkit.cli")


def test_commands_import_analyses_only_when_called() -> None:
    late = ("ptxkit.analyses", "ptxkit.rewriters", "rich")
    found = {path.name: [name for name in imports(path, top_level_only=True) if name.startswith(late)] for path in files("ptxkit/cli")}

    assert not {name: early for name, early in found.items() if early}


def test_the_machine_stands_on_the_syntax_and_the_instruction_table() -> None:
    below = (
        "syntax",
        "isa",
        "binaries",
        "names",
        "scopes",
        "mentions",
        "operands",
        "checking",
        "diagnostics",
        "origins",
        "frozen",
        "memo",
        "machine",
    )
    for path in files("ptxkit/machine"):
        beyond = [name for name in imports(path) if name.startswith("ptxkit.") and name.split(".")[1] not in below]
        assert not beyond, f"{path.relative_to(ROOT)} imports {beyond}"


@pytest.mark.parametrize("folder", ["ptxkit/syntax", "ptxkit/isa"])
def test_what_the_machine_stands_on_does_not_know_it(folder: str) -> None:
    assert not forbidden(files(folder), "ptxkit.machine")


def test_syntax_is_entered_by_its_door() -> None:
    """Outside of `ptxkit/syntax/` it is `from ptxkit.syntax import …`, so that its rooms can be moved."""
    beside = {
        str(path.relative_to(ROOT)): inner
        for folder in ("ptxkit", "analyses", "rewriters")
        for path in files(folder)
        if not path.is_relative_to(ROOT / "ptxkit" / "syntax") and (inner := _modules(path, "ptxkit.syntax."))
    }

    assert not beside


def _modules(path: Path, start: str) -> list[str]:
    """The modules whose names begin so, as they stand in import statements."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return [name for name in names if name.startswith(start)]


def room(name: str) -> str:
    """The room of a module of the analyses: the first folder."""
    return name.removeprefix("ptxkit.analyses.").partition(".")[0]


ENGINES = {
    "numbers": "",
    "memory_model": "",
    "framework": "",
    "cfg": "framework numbers",
    "registers": "cfg framework numbers",
    "launch": "cfg framework numbers",
    "symbolic": "cfg framework launch numbers registers",
    "threads": "cfg framework launch registers symbolic",
    "memory": "cfg framework launch numbers registers symbolic",
    "uniformity": "cfg framework launch memory numbers registers symbolic threads",
    "events": "cfg framework launch memory numbers registers symbolic uniformity",
    "symex": "cfg events framework launch memory numbers symbolic",
    "execution": "cfg framework launch memory registers symbolic",
    "inputs": "cfg events execution framework launch memory registers symbolic",
    "dynamic": "cfg execution framework inputs launch memory registers symbolic uniformity",
}
"""Whom the engines import: the map in analyses/README.md. Nobody imports a room that stands below it here, so there is no circle."""
CLIENTS = {
    "protocols": " ".join(ENGINES),
    "rules": " ".join([*ENGINES, "protocols"]),
    "verify": " ".join([*ENGINES, "protocols"]),
    "linting": "dynamic execution framework inputs launch protocols",
    "gate": " ".join([*ENGINES, "linting", "verify"]),
    "comparison": "",
    "drawing": " ".join(ENGINES),
}
ROOMS = {name: set(to.split()) for name, to in {**ENGINES, **CLIENTS}.items()}


def test_every_room_is_on_the_map() -> None:
    analyses = ROOT / "analyses"
    folders = {path.parent.name for path in analyses.glob("*/__init__.py")}

    assert folders == set(ROOMS)
    assert [path.name for folder in (analyses, analyses / "protocols") for path in folder.glob("*.py")] == ["__init__.py"] * 2
    readmes = {path.parent.name for path in analyses.glob("*/README.md")}
    assert not folders - readmes


def test_the_map_has_no_circle() -> None:
    above = list(ROOMS)

    assert all(above.index(other) < above.index(name) for name, to in ROOMS.items() for other in to)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_what_the_map_says(name: str) -> None:
    found = {other for path in files(f"analyses/{name}") for other in imports(path) if other.startswith("ptxkit.analyses.")}

    assert {room(other) for other in found} & set(ROOMS) - {name} <= ROOMS[name]


def test_rules_have_their_ids_to_themselves() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {node.value}"
        for path in files("analyses")
        if "rules" not in path.relative_to(ROOT).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[A-Z]\d{3}", node.value)
    ]

    assert not found
