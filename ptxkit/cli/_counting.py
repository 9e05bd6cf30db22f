"""The counts of `run --stats`: as tables on a terminal, as CSV and as JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxkit import files

if TYPE_CHECKING:
    from ptxkit.rewriters.manifest import Table

UNITS = {
    "branches": "warps", "divergent": "warps", "requests": "warps", "bytes": "bytes",
    "sectors": "sectors", "passes": "passes", "conflicts": "passes", "width": "bytes",
}  # fmt: skip
WIDTH = 200
"""Line width if the output is not a terminal."""


def tables_of(counted: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """The tables of a `Counters` monitor, like those of probes. Empty ones are omitted."""
    from ptxkit.rewriters.manifest import Column, Table

    found = []
    for name, rows in counted.items():
        if rows:
            columns = tuple([Column(key, [row[key] for row in rows], UNITS.get(key, "")) for key in rows[0]])
            found.append(Table(name, "stats", columns))
    return found


def show(tables: Sequence[Table], top: int) -> None:
    """Prints the first rows of each table."""
    from rich.console import Console

    from ptxkit.rewriters.profiling.results import shown

    console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for table in tables:
        console.print(shown(table, top))


def write(folder: str, number: int, kernel: str, tables: Sequence[Table]) -> None:
    """Writes each table of a launch to a file. Raises OSError."""
    from ptxkit.rewriters.profiling.results import as_csv

    Path(folder).mkdir(parents=True, exist_ok=True)
    for table in tables:
        name = re.sub(r"[^\w.$-]", "_", f"{number}.{kernel}.{table.name}")
        files.write(str(Path(folder) / f"{name}.csv"), as_csv(table))
