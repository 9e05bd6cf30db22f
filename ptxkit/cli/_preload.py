"""Imported once by the server that forks the processes of `lint`: the modules that all of them need."""

from __future__ import annotations

from ptxkit.cli import _many as _many


def _load() -> None:
    from ptxkit.analyses.framework import linting, rule
    from ptxkit.syntax import parse

    linting.lint(parse(".version 8.0\n.target sm_80\n.entry k() { ret; }"), rule.all_rules())


_load()
