"""The files of the instruction table, wherever the package is installed."""

# importing pathlib would dominate the cost of reading a small table
# ruff: noqa: PTH112, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def names() -> list[str]:
    """The names of all `.isa` files, sorted."""
    folder = os.path.dirname(__file__)
    if os.path.isdir(folder):
        return sorted(name for name in os.listdir(folder) if name.endswith(".isa"))
    return sorted(file.name for file in _resources().iterdir() if file.name.endswith(".isa"))


def read(name: str) -> str:
    """The text of one of them. Raises FileNotFoundError if there is none of that name."""
    path = os.path.join(os.path.dirname(__file__), name)
    if os.path.isdir(os.path.dirname(path)):
        with open(path, encoding="utf-8") as file:
            return file.read()
    return _resources().joinpath(name).read_text("utf-8")


def _resources() -> Traversable:
    # only for a package inside a zip file: the import takes as long as reading the table for a whole kernel
    from importlib.resources import files

    return files(__package__)
