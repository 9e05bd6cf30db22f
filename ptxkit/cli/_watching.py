"""`ptxkit lint --watch`: examines files again whenever one changes."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable
from typing import NoReturn

import click

SECONDS = 0.3
"""Seconds between checks of the files' times."""


def run(find: Callable[[], list[str]], look: Callable[[list[str]], None], rounds: int | None = None) -> NoReturn:
    """Examines the files now and after each change, until Ctrl-C; `rounds` bounds the number of times."""
    before: dict[str, float] | None = None
    with contextlib.suppress(KeyboardInterrupt):
        while rounds is None or rounds > 0:
            names, trouble = _found(find)
            now = {name: _time(name) for name in names}
            if now == before:
                time.sleep(SECONDS)
                continue
            before = now
            click.clear()
            if trouble:
                click.echo(trouble, err=True, nl=False)
            else:
                with contextlib.suppress(SystemExit):
                    look(names)
            click.echo("ptxkit: waiting for changes; Ctrl-C ends", err=True)
            rounds = None if rounds is None else rounds - 1
    raise SystemExit(0)


def _found(find: Callable[[], list[str]]) -> tuple[list[str], str]:
    """The files, or the reason why there are none: a file may be missing for a moment while it is saved or recompiled."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            return find(), ""
        except SystemExit:
            return [], said.getvalue()


def _time(name: str) -> float:
    try:
        return os.stat(name.partition("!")[0]).st_mtime  # noqa: PTH116 - as fast as can be, for thousands of files
    except OSError:
        return 0.0
