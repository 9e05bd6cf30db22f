"""Sessions for the tests of the debugger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from debug_client import Client
from debugged import RACE, SUMS, written


@pytest.fixture
def sums(tmp_path: Path) -> tuple[str, str]:
    """The paths of a kernel with a loop, a barrier, shared memory and a call, and of its launch."""
    return written(tmp_path, SUMS)


@pytest.fixture
def race(tmp_path: Path) -> tuple[str, str]:
    """The paths of a kernel whose two warps race in shared memory, and of its launch."""
    return written(tmp_path, RACE)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(str(tmp_path))
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()
