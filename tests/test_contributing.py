"""CONTRIBUTING is true: what it shows is added to a copy of the project, as it says, and runs there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import code_blocks
import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = code_blocks.blocks(ROOT / "CONTRIBUTING.md")
FILES = {block.title: block.text for block in BLOCKS if block.title}
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.entry k()
{
.reg .b32 %r<3>;
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;
brkpt;
ret;
}
"""


class Copy:
    """A copy of the project in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        skipped = shutil.ignore_patterns(".*", "*.egg-info", "build", "__pycache__")
        shutil.copytree(ROOT, root, symlinks=True, ignore=skipped)
        (root / "k.ptx").write_text(KERNEL)

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output of a Python program in the copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "XDG_CACHE_HOME": str(self.root / "cache")}
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def ptxkit(self, *words: str) -> tuple[int, str]:
        return self.run("-m", "ptxkit", *words)

    def passes(self, *words: str) -> None:
        """Tests of the copy pass; there are some."""
        code, printed = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)
        assert code == 0, printed

    def add(self, start: str) -> None:
        """Adds the files of the page whose names begin so."""
        added = {name: text for name, text in FILES.items() if name.startswith(start)}
        assert added
        for name, text in added.items():
            (self.root / name).write_text(text, encoding="utf-8")

    def pages(self) -> set[str]:
        """Makes the pages anew; gives the names of those that changed."""
        code, printed = self.run("docs/build.py")
        assert code == 0, printed
        return {Path(line).relative_to(self.root).as_posix() for line in printed.splitlines()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("contributing") / "ptxkit")


def test_an_instruction_is_an_entry(copy: Copy) -> None:
    (entry,) = [block.text for block in BLOCKS if block.language == "isa"]
    table = copy.root / "ptxkit" / "isa" / "mma.isa"
    whole = table.read_text(encoding="utf-8")
    assert entry in whole
    table.write_text(whole.replace(entry, ""), encoding="utf-8")

    code, printed = copy.ptxkit("check", "k.ptx")
    assert (code, "E101" in printed) == (1, True)
    code, printed = copy.run("docs/build.py", "--check")
    assert (code, "docs/isa/mma.md is not up to date" in printed) == (1, True)

    table.write_text(whole.replace(entry, "").rstrip() + "\n\n" + entry, encoding="utf-8")
    assert copy.ptxkit("check", "k.ptx")[0] == 0
    assert "Transposes" in copy.ptxkit("explain", "movmatrix")[1]
    assert copy.run("tests/isa/selftest.py", "movmatrix")[0] == 0


def test_a_rule_is_a_file(copy: Copy) -> None:
    assert copy.ptxkit("lint", "--select", "R090", "k.ptx")[0] == 2

    copy.add("analyses/rules/")
    code, printed = copy.ptxkit("lint", "--select", "R090", "k.ptx")
    assert code == 1
    assert "breakpoint-left" in printed
    assert "k.ptx:8:1" in printed
    assert "accepts the bad example without a message" in copy.ptxkit("explain", "breakpoint-left")[1]
    copy.passes("tests/analyses/rules/test_rules.py", "-k", "R090")
    assert copy.pages() == {"docs/rules/R090.md", "docs/rules/index.md"}


def test_a_rewriter_is_a_file_and_two_fixtures(copy: Copy) -> None:
    assert copy.ptxkit("rewrite", "remove-breakpoints", "k.ptx")[0] == 2

    copy.add("rewriters/")
    copy.add("fixtures/")
    code, printed = copy.ptxkit("rewrite", "remove-breakpoints", "k.ptx")
    assert code == 0
    assert printed.startswith(KERNEL.replace("brkpt;\n", ""))
    copy.passes("tests/rewriters/test_transforms.py", "-k", "remove_breakpoints or every_rewriter_has_an_example")


def test_the_copy_is_within_the_walls(copy: Copy) -> None:
    """What is added imports downwards, and makes no circle."""
    copy.add("analyses/rules/")
    copy.add("rewriters/")
    copy.passes("tests/test_layers.py", "tests/test_circles.py", "-k", "breakpoint or circle or door or map")
