"""The cache of findings by function content: in a changed file, only changed functions are examined again.

It is a database beside the results of whole files. Several processes may use it concurrently; if it cannot be read or written, nothing is
cached.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from ptxkit.cli import _cache

if TYPE_CHECKING:
    from ptxkit.analyses.linting.kept import Kept

NAME = "functions.sqlite"
PATIENCE = 2.0
"""Seconds to wait for another process that is writing."""
MANY = 500
"""Number of keys per query."""


class Functions:
    """The database of this version of ptxkit, as a `ptxkit.analyses.linting.kept.Store`."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """The cached results for some of these keys."""
        from ptxkit.analyses.linting.kept import Kept

        found: dict[str, Kept] = {}
        with contextlib.suppress(sqlite3.Error, OSError, ValueError, KeyError, TypeError), _opened() as database:
            for first in range(0, len(keys), MANY):
                some = keys[first : first + MANY]
                asked = f"select key, value from found where key in ({','.join('?' * len(some))})"
                for key, value in database.execute(asked, some):
                    kept = json.loads(value)
                    found[key] = Kept(tuple([_cache.diagnostic(one, None) for one in kept["findings"]]), tuple(kept["lines"]))
        return found

    def save(self, found: Mapping[str, Kept]) -> None:
        """Adds results, all or none."""
        now = int(time.time())
        texts = {key: json.dumps({"findings": list(map(attrs.asdict, one.findings)), "lines": one.lines}) for key, one in found.items()}
        rows = [(key, text, now) for key, text in texts.items()]
        with contextlib.suppress(sqlite3.Error, OSError), _opened() as database, database:
            database.executemany("insert or replace into found values (?, ?, ?)", rows)


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    folder = _cache.folder()
    path = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=PATIENCE)
    try:
        # lost results are recomputed
        database.execute("pragma synchronous = off")
        # on each open: the process that created the file may not have created the table yet
        database.execute("create table if not exists found (key text primary key, value text, made integer) without rowid")
        yield database
    except sqlite3.OperationalError:
        # another process holds it, or it cannot be written
        raise
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        raise
    finally:
        database.close()
