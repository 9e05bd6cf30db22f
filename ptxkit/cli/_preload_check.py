"""Imported once by the server that forks the processes of `check`: the modules that all of them need."""

from __future__ import annotations

from ptxkit.cli import _many as _many
from ptxkit.cli._job import OF_TEXT, Job, examine_text

examine_text("", ".version 8.0\n.target sm_80\n.entry k() { ret; }", Job(OF_TEXT, only_errors=True, ignores=False))
