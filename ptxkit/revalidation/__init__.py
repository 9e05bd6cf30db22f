"""Asks a real compiler whether it accepts a module: the CUDA driver, nvJitLink or ptxas, whichever is available.

Nothing is imported or loaded before `revalidate` is called, and then, by default, the compiler runs in a child process only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxkit.revalidation.chain import revalidate
    from ptxkit.revalidation.verdict import Outcome, Resources, Skipped, Verdict

__all__ = ["Outcome", "Resources", "Skipped", "Verdict", "revalidate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ptxkit.revalidation' has no attribute {name!r}")
    home = "chain" if name == "revalidate" else "verdict"
    return getattr(importlib.import_module(f"ptxkit.revalidation.{home}"), name)
