"""No module of the project imports itself, directly or through others.

Every import counts, wherever it stands: in a function or under TYPE_CHECKING it costs the reader as much as at the top. Names of modules
that are put together at run time (rules and rewriters are found by their files) are none.
"""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def modules(root: Path) -> dict[str, Path]:
    """The modules of the three packages by name."""
    found = {}
    for top in ("ptxkit", "analyses", "rewriters"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[:2] in (("ptxkit", "analyses"), ("ptxkit", "rewriters")):
                continue  # links for those who run from a checkout
            parts = parts if top == "ptxkit" else ("ptxkit", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(found: dict[str, Path]) -> dict[str, set[str]]:
    """The modules that each module imports. `from a import b` imports a.b where that is a module, else a."""
    imported: dict[str, set[str]] = {}
    for name, path in found.items():
        wanted = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= full & found.keys()
                if not full <= found.keys():
                    wanted.add(node.module)
        imported[name] = wanted & found.keys()
    return imported


def circle(imported: dict[str, set[str]]) -> list[str]:
    """A circle of imports, if there is one: its first module comes last again."""
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_nothing_is_imported_in_a_circle() -> None:
    imported = graph(modules(ROOT))

    assert len(imported) > 200
    assert "ptxkit.syntax.nodes" in imported["ptxkit.syntax.parsing"]
    assert not circle(imported), " <- ".join(circle(imported))


@pytest.mark.parametrize(
    "text",
    [
        "from ptxkit.b import thing",
        "from ptxkit import b",
        "import ptxkit.b",
        "def f():\n    from ptxkit.b import thing",
        "if TYPE_CHECKING:\n    from ptxkit.b import Thing",
    ],
)
def test_a_circle_is_found_wherever_the_import_stands(text: str, tmp_path: Path) -> None:
    package = tmp_path / "ptxkit"
    package.mkdir()
    (package / "a.py").write_text(text)
    (package / "b.py").write_text("from ptxkit.a import other")

    assert set(circle(graph(modules(tmp_path)))) == {"ptxkit.a", "ptxkit.b"}
