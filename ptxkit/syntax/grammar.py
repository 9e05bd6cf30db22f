"""The grammar file, loaded when it is first needed."""

from __future__ import annotations

import functools
import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsimonious.grammar import Grammar


@functools.lru_cache(maxsize=1)
def grammar() -> Grammar:
    """The grammar of `ptx.peg` as a parsimonious Grammar."""
    from parsimonious.grammar import Grammar

    return Grammar(importlib.resources.files("ptxkit.syntax").joinpath("ptx.peg").read_text(encoding="utf-8"))
