"""Lets the tests of the machine import `instructions.py` beside them, and what that takes from the tests of the table."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "isa"):
    sys.path.insert(0, str(folder))
