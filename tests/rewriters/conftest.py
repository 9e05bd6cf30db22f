"""The files that the laws of rewriting are tested on: the fixtures, and a sample of the reference material where it is there."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

import ptxkit
from ptxkit import files

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests import `invariants.py` beside them

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


def sample(folder: Path, count: int, largest: int) -> list[Path]:
    """So many files of a folder, none too large, always the same."""
    small = [path for path in sorted(folder.rglob("*.ptx")) if path.stat().st_size <= largest]
    return sorted(random.Random(6).sample(small, min(count, len(small))))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "source" in metafunc.fixturenames:
        many = 10 if os.environ.get("PTXKIT_TEST_ALL") else 1
        paths = sample(ROOT / "fixtures" / "kernels", 20 * many, 40_000 * many)
        paths += sample(SHARED / "corpus", 15 * many, 40_000 * many) + sample(SHARED / "lint", 6 * many, 60_000)
        metafunc.parametrize("source", paths, ids=lambda path: f"{path.parent.name}/{path.name}")


@pytest.fixture
def module(source: Path) -> ptxkit.Module:
    return ptxkit.parse(files.read(str(source)), str(source))
