"""The files that the laws are tested on: the fixtures always, the reference material beside the checkout when it is there.

A sample of them, that is; with PTXKIT_TEST_ALL=1 in the environment, all.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


def sample(folder: Path, count: int, largest: int, everything: bool) -> list[Path]:
    """So many files of a folder, none too large, always the same; or all of them."""
    files = sorted(folder.rglob("*.ptx"))
    if everything:
        return files
    small = [path for path in files if path.stat().st_size <= largest]
    return sorted(random.Random(2).sample(small, min(count, len(small))))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = bool(os.environ.get("PTXKIT_TEST_ALL"))
    if "any_file" in metafunc.fixturenames:
        files = sample(ROOT / "fixtures", 60, 400_000, everything) + sample(SHARED / "corpus", 40, 300_000, everything)
        for folder, count in (("conformance/accept", 150), ("conformance/reject", 150), ("lint", 40)):
            files += sample(SHARED / folder, count, 100_000, everything)
        metafunc.parametrize("any_file", files, ids=lambda path: f"{path.parent.name}/{path.name}")
    if "good_file" in metafunc.fixturenames:
        files = sample(ROOT / "fixtures", 30, 200_000, everything) + sample(SHARED / "corpus", 20, 200_000, everything)
        files += sample(SHARED / "conformance/accept", 100, 100_000, everything) + sample(SHARED / "lint", 20, 100_000, everything)
        metafunc.parametrize("good_file", files, ids=lambda path: f"{path.parent.name}/{path.name}")


@pytest.fixture
def any_text(any_file: Path) -> str:
    """The text of a file that may be broken, whatever its bytes."""
    return any_file.read_bytes().decode("utf-8", "surrogateescape")


@pytest.fixture
def good_text(good_file: Path) -> str:
    """The text of a file that an assembler accepts."""
    return good_file.read_bytes().decode("utf-8", "surrogateescape")
