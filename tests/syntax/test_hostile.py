"""The cases of benchmarks/hostile.py, small: nothing is raised, all prints back, what is broken is said to be."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from ptxkit.syntax import parse


def load() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "hostile.py"
    spec = importlib.util.spec_from_file_location("hostile", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


hostile = load()


@pytest.mark.parametrize("name", list(hostile.CASES))
def test_hostile_text(name: str) -> None:
    hostile.run(name, 5000)


@pytest.mark.parametrize("name", list(hostile.CASES))
def test_time_grows_with_the_text(name: str) -> None:
    """Four times the text takes at most a little more than four times the time."""

    def seconds(size: int) -> float:
        text = hostile.CASES[name](size)
        start = time.process_time()
        parse(text)
        return time.process_time() - start

    small = min(seconds(5000) for _ in range(2))
    large = min(seconds(20_000) for _ in range(2))
    assert large < 12 * small + 0.3
