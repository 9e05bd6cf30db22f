"""Lets the tests of this folder import the two programs beside them, `conformance.py` and `selftest.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
