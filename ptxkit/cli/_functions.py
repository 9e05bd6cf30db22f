"""What was found in functions, kept by their content: of a file that has changed, only what has changed is looked at again.

It is a database beside the results of whole files. Several processes may use it at a time; where it cannot be read or written, nothing is
kept.
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
"""Seconds that are waited for another process that writes."""
MANY = 500
"""So many are asked for at a time."""


class Functions:
    """The database of this ptxkit, as `ptxkit.analyses.linting.kept.Store`."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """What is kept for some of these."""
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
        """Keeps more, all or none of it."""
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
        # what is lost is found again
        database.execute("pragma synchronous = off")
        # asked each time: whoever made the file may not have come to make the table
        database.execute("create table if not exists found (key text primary key, value text, made integer) without rowid")
        yield database
    except sqlite3.OperationalError:
        # somebody else has it, or it cannot be written
        raise
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        raise
    finally:
        database.close()
