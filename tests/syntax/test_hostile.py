"""The cases of benchmarks/hostile.py, small: nothing is raised, all prints back, what is broken is said to be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from work import calls

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
def test_work_is_in_proportion_to_the_text(name: str) -> None:
    """A few calls for each byte, where a call for each pair of statements would be hundreds."""
    text = hostile.CASES[name](20_000)
    assert calls(lambda: parse(text)) < 40 * len(text)
