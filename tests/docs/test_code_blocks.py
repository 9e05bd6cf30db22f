"""Every code block of the documentation does what it says; so do the examples in docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest
from code_blocks import ROOT, Block, Wrong, blocks, matches, pages, run_page

SOURCES = sorted(path for top in ("ptxkit", "analyses", "rewriters") for path in (ROOT / top).rglob("*.py") if not path.is_symlink())


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of_a_page_do_what_it_says(path: Path, tmp_path: Path) -> None:
    run_page(path, tmp_path)


def test_what_is_not_run_says_why() -> None:
    assert [block.place for page in pages() for block in blocks(page) if block.kind == "unmarked"] == []


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "ptxkit" else ("ptxkit", *parts)).removesuffix(".__init__")


WITH_EXAMPLES = [path for path in SOURCES if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=_module)
def test_examples_in_docstrings(path: Path) -> None:
    found = doctest.testmod(importlib.import_module(_module(path)), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert found.attempted
    assert not found.failed


def test_docstrings_show_code_as_doctests_only() -> None:
    """A fence or a `::` in a docstring would be code that nothing runs."""
    others = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if re.search(r"^\s*(```|~~~)|::\s*$", ast.get_docstring(node) or "", re.MULTILINE):
                    others.append(f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}")

    assert others == []


class TestTheCollectorItself:
    @pytest.mark.parametrize(
        ("shown", "printed", "same"),
        [
            ("a\nb", "a\nb\n", True),
            ("a", "a\nb\n", False),
            ("a\n…", "a\nb\nc\n", True),
            ("…\nc", "a\nb\nc\n", True),
            ("took … ms", "took 12 ms\n", True),
            ("took … ms", "took 12 s\n", False),
            ("", "a\n", False),
            ("", "", True),
        ],
    )
    def test_what_is_left_out(self, shown: str, printed: str, same: bool) -> None:
        assert matches(shown, printed) is same

    def page(self, folder: Path, text: str) -> list[Block]:
        (folder / "page.md").write_text(text, encoding="utf-8")
        return blocks(folder / "page.md")

    def test_a_mark_is_for_the_next_block_only(self, tmp_path: Path) -> None:
        found = self.page(tmp_path, "<!-- not run: needs a GPU -->\n\n```console\n$ a\n```\n\n```console\n$ b\n```\n")

        assert [block.kind for block in found] == ["not run", "run"]

    def test_code_by_indentation_is_unmarked(self, tmp_path: Path) -> None:
        assert [block.kind for block in self.page(tmp_path, "So:\n\n    ptxkit lint\n")] == ["unmarked"]

    @pytest.mark.parametrize("text", ["```console\n$ echo a\nb\n```\n", "```python\n1 / 0\n```\n", "```python\n>>> 1 + 1\n3\n```\n"])
    def test_what_is_wrong_is_found(self, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("code_blocks.ROOT", tmp_path)
        (tmp_path / "fixtures").mkdir()
        (tmp_path / "run").mkdir()
        self.page(tmp_path, text)

        with pytest.raises((Wrong, ZeroDivisionError)):
            run_page(tmp_path / "page.md", tmp_path / "run")
