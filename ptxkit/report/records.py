"""Findings as records for queries: JSON Lines, or Parquet with one row for each finding.

Every record has all fields, the same in both formats.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ptxkit import files
from ptxkit.diagnostics import Diagnostic

SUFFIXES = (".jsonl", ".parquet")
ROWS = 50_000
"""Number of rows of a group in a Parquet file."""
_NUMBERS = ("line", "column", "end_line", "end_column", "origin_line")
_REQUIRED = ("rule", "name", "severity", "message", "line", "column", "end_line", "end_column")


class CannotWrite(Exception):
    """Records that cannot be written, with the reason."""


def record(diagnostic: Diagnostic) -> dict[str, Any]:
    """A finding as plain data, with fields for the source location."""
    found = diagnostic.as_json()
    origin = found.pop("origin", None) or {}
    fix = found.pop("fix", None)
    related = [{field: one[field] for field in ("line", "column", "message")} for one in found.pop("related")]
    return {
        **found,
        "related": related,
        "origin_path": origin.get("path"),
        "origin_line": origin.get("line"),
        "fix": fix["message"] if fix else None,
        "fix_is_safe": fix["is_safe"] if fix else None,
    }


class Records:
    """A file of records, written atomically when the block ends without an exception. Raises CannotWrite, also on entry."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise CannotWrite(f"{path}: records are written to a file with the ending {' or '.join(SUFFIXES)}")
        self._schema = _schema() if self.path.suffix == ".parquet" else None
        try:
            handle, self._beside = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        except OSError as error:
            raise CannotWrite(f"{path}: {error.strerror or error}") from None
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._writer: Any = None
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Records:
        return self

    def add(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Appends findings."""
        self._rows += map(record, diagnostics)
        if self._schema is None or len(self._rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        try:
            if self._schema is None:
                self._file.writelines([json.dumps(row).encode() + b"\n" for row in rows])
            else:
                self._write_table(rows)
        except OSError as error:
            raise CannotWrite(f"{self.path}: {error.strerror or error}") from None

    def _write_table(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow
        import pyarrow.parquet

        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._file, self._schema)
        self._writer.write_table(pyarrow.Table.from_pylist([_printable(row) for row in rows], self._schema))

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            with self._file:
                if kind is None:
                    self._flush()
                    if self._writer is not None:
                        self._writer.close()
            if kind is None:
                files.replace(self._beside, self.path)
        except OSError as error:
            raise CannotWrite(f"{self.path}: {error.strerror or error}") from None
        finally:
            Path(self._beside).unlink(missing_ok=True)


def _schema() -> Any:
    try:
        import pyarrow as arrow
    except ImportError:
        raise CannotWrite("Parquet needs the extra `parquet`: pip install 'ptxkit[parquet]'") from None
    related = arrow.struct([("line", arrow.int32()), ("column", arrow.int32()), ("message", arrow.string())])
    types = {"notes": arrow.list_(arrow.string()), "related": arrow.list_(related), "fix_is_safe": arrow.bool_()}
    types |= dict.fromkeys(_NUMBERS, arrow.int32())
    types |= dict.fromkeys(("rule", "name", "severity"), arrow.dictionary(arrow.int16(), arrow.string()))
    return arrow.schema([arrow.field(field, types.get(field, arrow.string()), field not in _REQUIRED) for field in _FIELDS])


_FIELDS = (
    *("path", "rule", "name", "severity", "message", "line", "column", "end_line", "end_column", "function", "kernel"),
    *("notes", "related", "origin_path", "origin_line", "fix", "fix_is_safe"),
)


def _printable(value: Any) -> Any:
    """The value without lone surrogates in its strings, which Parquet cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    return list(map(_printable, value)) if isinstance(value, list) else value
