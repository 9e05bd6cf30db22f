"""Displays probe tables, and writes them as CSV, JSON, a pandas frame, or a Perfetto trace."""

from __future__ import annotations

import csv
import heapq
import importlib
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ptxkit.rewriters.manifest import Column, Table, Value
from ptxkit.rewriters.profiling.isolation import Profile

if TYPE_CHECKING:
    import rich.console

WIDEST = 48
"""Maximum width of text in a displayed table, in characters."""
MOST_SLICES = 200_000
"""Maximum number of slices in a trace; viewers do not show more well."""
LAUNCHES = 1
"""The trace process for the launches themselves; multiprocessor n is process n + 2."""
_SITE_COLUMNS = ("site", "file", "source_line")


def shown(table: Table, most: int = 20) -> rich.console.Group:
    """A table for a terminal: its first rows, and its informative columns."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = [column for column in table.columns if column.name not in _SITE_COLUMNS and not _empty(column)]
    source = _sources(table)
    title = Text(table.name, "bold")
    if len(table) > most:
        title.append(f"  {most} of {len(table)} rows", "dim")
    made = RichTable(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        numeric = all(isinstance(value, int | float) or value is None for value in column.values)
        head = f"{column.name}\n{column.unit}" if column.unit else column.name
        made.add_column(Text(head), justify="right" if numeric else "left", no_wrap=True)
    if source:
        made.add_column("source", no_wrap=True)
    for i in range(min(len(table), most)):
        cells = [Text(_cell(column.values[i])) for column in columns]
        made.add_row(*cells, *([Text(source[i])] if source else []))
    return Group(title, made)


def _empty(column: Column) -> bool:
    return bool(column.values) and all(value is None or value == "" for value in column.values)


def _sources(table: Table) -> list[str]:
    """`file:line` of each row, if any is known."""
    found = table.as_dict()
    if "file" not in found or "source_line" not in found or not any(found["file"]):
        return []
    return [
        f"{str(file).rsplit('/', 1)[-1]}:{line}" if file else "" for file, line in zip(found["file"], found["source_line"], strict=True)
    ]


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    text = "".join([character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value])
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def as_csv(table: Table) -> str:
    """The table as comma-separated values (RFC 4180) with a header line."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([column.name for column in table.columns])
    writer.writerows(zip(*[column.values for column in table.columns], strict=True))
    return out.getvalue()


def as_json(table: Table) -> dict[str, Any]:
    """The table in the JSON format of `ptxkit profile`, version 1; numbers outside JSON (NaN, infinities) are strings."""
    return {
        "name": table.name,
        "probe": table.probe,
        "columns": [{"name": one.name, "unit": one.unit, "values": [_plain(value) for value in one.values]} for one in table.columns],
        "notes": list(table.notes),
    }


def _plain(value: Value) -> Value:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def frame(table: Table) -> Any:
    """The table as a pandas frame, with units and notes in its `attrs`. Raises ImportError without pandas."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ImportError("a frame needs pandas: pip install 'ptxkit[frames]'") from None
    made = pandas.DataFrame({name: list(values) for name, values in table.as_dict().items()})
    made.attrs.update(
        probe=table.probe, units={column.name: column.unit for column in table.columns if column.unit}, notes=list(table.notes)
    )
    return made


def trace(profiles: Sequence[Profile]) -> dict[str, Any]:
    """The profiles in the trace event format that Perfetto and chrome://tracing read; times in it are in microseconds.

    Each launch is a slice on the track of the original and one on that of the instrumented kernel, with the first rows of its tables as
    arguments. Tables with times by the global timer (`start_ns`, `end_ns`) become slices too, on a process for each multiprocessor.
    """
    events: list[dict[str, Any]] = [_named("process_name", "launches", LAUNCHES, 0)]
    events += [_named("thread_name", name, LAUNCHES, i) for i, name in enumerate(("original", "instrumented"))]
    at, dropped = 0.0, 0
    for profile in profiles:
        times = (min(profile.seconds, default=0.0) * 1e6, min(profile.seconds_instrumented, default=0.0) * 1e6)
        about: dict[str, Any] = {"grid": str(profile.launch.grid), "block": str(profile.launch.block), "outcome": profile.outcome.value}
        about |= {table.name: [list(map(str, row.values())) for row in table.rows()[:20]] for table in profile.tables}
        for track, duration in enumerate(times):
            if duration:
                events.append(_slice(profile.launch.kernel, at, duration, LAUNCHES, track, about if track else {}))
        longest = max(times)
        for table in profile.tables:
            slices, end, more = _slices(table, at, MOST_SLICES - len(events))
            events += slices
            longest, dropped = max(longest, end - at), dropped + more
        at += longest * 1.1 + 1
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"dropped slices": str(dropped)}}


def _slices(table: Table, at: float, room: int) -> tuple[list[dict[str, Any]], float, int]:
    """Trace events of a table with times, the last end time, and the number of events that did not fit. Overlapping slices are put on
    several tracks."""
    columns = table.as_dict()
    if "start_ns" not in columns or "end_ns" not in columns or not len(table):
        return [], at, 0
    rows = sorted(table.rows(), key=lambda row: (_whole(row["start_ns"]), _whole(row["end_ns"])))
    origin = _whole(rows[0]["start_ns"])
    free: dict[int, list[tuple[int, int]]] = {}  # by multiprocessor, its tracks: the time until which each is occupied, and its number
    events: list[dict[str, Any]] = []
    last = at
    for row in rows[: max(room, 0)]:
        sm, start, end = _whole(row.get("sm")), _whole(row["start_ns"]), _whole(row["end_ns"])
        tracks = free.setdefault(sm, [])
        if not tracks:
            events.append(_named("process_name", f"SM {sm}", sm + LAUNCHES + 1, 0))
        track = heapq.heappop(tracks)[1] if tracks and tracks[0][0] <= start else len(tracks)
        heapq.heappush(tracks, (end, track))
        name = " ".join([f"{key} {row[key]}" for key in ("block", "warp") if key in row]) or table.name
        begin = at + (start - origin) / 1000
        events.append(
            _slice(name, begin, (end - start) / 1000, sm + LAUNCHES + 1, track, {key: str(value) for key, value in row.items()}, table.name)
        )
        last = max(last, at + (end - origin) / 1000)
    return events, last, len(rows) - min(len(rows), max(room, 0))


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _slice(
    name: str, start: float, duration: float, process: int, track: int, about: dict[str, Any], kind: str = "launch"
) -> dict[str, Any]:
    return {"name": name, "cat": kind, "ph": "X", "ts": start, "dur": duration, "pid": process, "tid": track, "args": about}


def _named(what: str, name: str, process: int, track: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def document(profiles: Iterable[Profile], source: str, probes: Sequence[str]) -> dict[str, Any]:
    """The complete JSON output of `ptxkit profile`, version 1."""
    listed = [{**profile.as_json(), "tables": [as_json(table) for table in profile.tables]} for profile in profiles]
    return {"version": 1, "file": source, "probes": list(probes), "launches": listed}
