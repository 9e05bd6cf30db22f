"""The site: links of all pages lead somewhere, and mkdocs builds it without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def test_links_lead_to_what_is_there() -> None:
    links = {path: LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))) for path in PAGES}

    assert [f"{path}: {link}" for path, own in links.items() for link in own if not (path.parent / link.partition("#")[0]).exists()] == []


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings_handlers")),
    reason="mkdocs is not installed: pip install 'ptxkit[docs]'",
)
def test_mkdocs_builds_the_site_without_a_warning(tmp_path: Path) -> None:
    settings = str(ROOT / "docs/site/mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings, "-d", str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    made = (tmp_path / "site/reference/ptxkit/index.html").read_text(encoding="utf-8")
    assert "Never raises on bad text" in made  # the docstring of `parse`
    rule = (tmp_path / "site/rules/T005/index.html").read_text(encoding="utf-8")
    assert '<span class="k">tcgen05</span>' in rule  # by ptxkit's lexer; that of Pygments takes what precedes a `::` for a label
