"""Tables as they are shown and written."""

from __future__ import annotations

import csv
import io
import json
import math
import sys

import pytest
from rich.console import Console

from ptxkit.rewriters.manifest import Column, Table
from ptxkit.rewriters.profiling.isolation import Outcome, Profile
from ptxkit.rewriters.profiling.launch import Launch
from ptxkit.rewriters.profiling.results import as_csv, as_json, document, frame, shown, trace

TABLE = Table(
    "counts",
    "block-counts",
    (
        Column("site", [0, 1]),
        Column("function", ["k", 'k,"2"\n']),
        Column("file", ["/a/k.cu", ""]),
        Column("source_line", [7, 0]),
        Column("empty", [None, ""]),
        Column("count", [1234567, math.nan], "threads"),
    ),
    ("a note",),
)
LAUNCH = Launch("k", (2, 1, 1), (32, 1, 1))


def text(table: Table, most: int = 20) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(shown(table, most))
    return console.export_text()


def test_shown() -> None:
    found = text(TABLE)
    assert "1,234,567" in found and "k.cu:7" in found and "threads" in found
    assert "site" not in found and "empty" not in found
    assert '"2"\N{REPLACEMENT CHARACTER}' in found
    assert "1 of 2 rows" in text(TABLE, 1)
    assert "counts" in text(Table("counts", "p", (Column("a", []),)))


def test_csv() -> None:
    rows = list(csv.reader(io.StringIO(as_csv(TABLE), newline="")))
    assert rows[0] == ["site", "function", "file", "source_line", "empty", "count"]
    assert rows[1] == ["0", "k", "/a/k.cu", "7", "", "1234567"]
    assert rows[2][1] == 'k,"2"\n'


def test_json() -> None:
    found = json.loads(json.dumps(as_json(TABLE), allow_nan=False))
    assert found["columns"][-1] == {"name": "count", "unit": "threads", "values": [1234567, "nan"]}
    whole = document([Profile(LAUNCH, Outcome.DIFFERENT, "it differs", (TABLE,))], "k.ptx", ["block-counts"])
    assert whole["launches"][0]["outcome"] == "different"
    assert whole["launches"][0]["overhead"] is None
    json.dumps(whole, allow_nan=False)


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(ImportError, match=r"ptxkit\[frames\]"):
        frame(TABLE)


def test_frame() -> None:
    pytest.importorskip("pandas")
    found = frame(TABLE)
    assert list(found.columns) == [column.name for column in TABLE.columns]
    assert found.attrs["notes"] == ["a note"]


def times(rows: list[tuple[int, int, int, int, int]]) -> Table:
    names = ("block", "warp", "sm", "start_ns", "end_ns")
    return Table("warp-cycles", "cycles", tuple([Column(name, [row[i] for row in rows]) for i, name in enumerate(names)]))


def test_trace() -> None:
    """Slices on one track do not overlap, and none is lost."""
    rows = [(b, w, b % 2, 5000 + 700 * b + 10 * w, 5000 + 700 * b + 10 * w + 1500) for b in range(6) for w in range(3)]
    profile = Profile(LAUNCH, Outcome.EQUAL, "", (times(rows), TABLE), seconds=(0.002, 0.001), seconds_instrumented=(0.003,))
    found = trace([profile, profile])
    json.dumps(found, allow_nan=False)
    slices = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 2 * (len(rows) + 2)
    assert [event["dur"] for event in slices if event["cat"] == "launch"] == [1000.0, 3000.0] * 2
    tracks: dict[tuple[int, int], float] = {}
    for event in sorted(slices, key=lambda event: event["ts"]):
        track = event["pid"], event["tid"]
        assert event["ts"] >= tracks.get(track, 0.0) - 1e-6
        tracks[track] = event["ts"] + event["dur"]
    names = {event["args"]["name"] for event in found["traceEvents"] if event["ph"] == "M"}
    assert names == {"launches", "original", "instrumented", "SM 0", "SM 1"}


def test_a_trace_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxkit.rewriters.profiling.results.MOST_SLICES", 20)
    rows = [(b, 0, 0, b, b + 1) for b in range(100)]
    found = trace([Profile(LAUNCH, Outcome.EQUAL, "", (times(rows),))])
    assert len(found["traceEvents"]) <= 25
    assert int(found["otherData"]["dropped slices"]) >= 80
