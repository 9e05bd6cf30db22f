"""Locates files in NVIDIA's wheels."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def find(*patterns: str) -> list[Path]:
    """The files in the package `nvidia` that match one of these patterns, in order of the patterns; for each, newest name first."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ()) if spec] if spec else []
    return [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern), reverse=True)]
