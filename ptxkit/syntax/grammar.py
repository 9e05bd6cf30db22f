"""The grammar, loaded on first use."""

# importing pathlib would be a large part of the loading time
# ruff: noqa: PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsimonious.grammar import Grammar


@functools.lru_cache(maxsize=1)
def grammar() -> Grammar:
    """The grammar of `ptx.peg` as a parsimonious Grammar."""
    from parsimonious.grammar import Grammar

    return Grammar(_text())


def _text() -> str:
    path = os.path.join(os.path.dirname(__file__), "ptx.peg")
    if os.path.isdir(os.path.dirname(path)):
        with open(path, encoding="utf-8") as file:
            return file.read()
    # only for a package inside a zip file: the import takes as long as parsing a small kernel
    from importlib.resources import files

    return files(__package__).joinpath("ptx.peg").read_text(encoding="utf-8")
