"""Tests for candidates: the user's command, our own checks and ptxas, and results already known."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ptxkit import files
from ptxkit.frozen import frozen
from ptxkit.revalidation import process
from ptxkit.revalidation.ptxas import Ptxas
from ptxkit.revalidation.validator import Unavailable
from ptxkit.syntax import Module

FILE = "{}"
"""The file name's position in a command; without it, the file comes last."""


@frozen
class Command:
    """A shell command that receives a file and succeeds (exit code 0) if the file still shows the behavior."""

    text: str
    timeout: float = 60.0
    """Time limit in seconds; a command that exceeds it has failed."""

    def succeeds(self, module: str, name: str = "reduced.ptx") -> bool:
        """Runs the command on a file with this text and name. Raises OSError if there is no shell."""
        with tempfile.TemporaryDirectory(prefix="ptxkit-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / name
            path.write_bytes(files.encode(module))
            command = self.text.replace(FILE, str(path)) if FILE in self.text else f"{self.text} {path}"
            shell = ["cmd", "/c", command] if os.name == "nt" else ["/bin/sh", "-c", command]
            return process.run(shell, b"", self.timeout).code == 0


class Validity:
    """Validity of candidates: no errors in our own check, and accepted by ptxas, if available and if it accepted the original.

    If the original is invalid, candidates are not checked.
    """

    def __init__(self, module: Module, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self.checks = _is_clean(module)
        self.ptxas: str | None = None
        if self.checks:
            with contextlib.suppress(Unavailable):
                self.ptxas = Ptxas(timeout).program
            if self.ptxas is not None and not self.parses(module):
                self.ptxas = None

    def is_clean(self, module: Module) -> bool:
        """Whether our own check, which is fast, finds no errors."""
        return not self.checks or _is_clean(module)

    def parses(self, module: Module) -> bool:
        """Whether ptxas finds no errors; it is run without code generation, which takes milliseconds."""
        target = module.targets[0] if module.targets else ""
        if self.ptxas is None or not target.startswith("sm_"):
            return True
        with tempfile.TemporaryDirectory(prefix="ptxkit-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "module.ptx"
            path.write_bytes(files.encode(module.text))
            command = [self.ptxas, f"-arch=compute_{target[3:]}", str(path), "-o", os.devnull]
            return process.run(command, b"", self.timeout).code == 0


def _is_clean(module: Module) -> bool:
    from ptxkit.analyses.framework.linting import lint
    from ptxkit.analyses.framework.rule import select
    from ptxkit.diagnostics import Severity

    rules = [rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR]
    return not any(found.severity is Severity.ERROR for found in lint(module, rules, ignores=False))


class Journal:
    """A file of known results, with a line for each text tried. An interrupted run resumes from it."""

    def __init__(self, path: str | None, subject: str) -> None:
        """`subject` is all that the results depend on; a file about another subject is overwritten."""
        self.path = path
        self.known: dict[str, bool] = {}
        self.subject = digest(subject)
        if path is not None and Path(path).is_file():
            head, *lines = Path(path).read_text("utf-8", "replace").splitlines() or [""]
            if head == self.subject:
                self.known = {line[2:]: line[0] == "+" for line in lines if line[:2] in ("+ ", "- ")}
        self.resumed = bool(self.known)
        if path is not None and not self.resumed:
            files.write(path, self.subject + "\n")

    def get(self, text: str) -> bool | None:
        return self.known.get(digest(text))

    def add(self, text: str, outcome: bool) -> None:
        """Raises OSError if the file cannot be written."""
        key = digest(text)
        self.known[key] = outcome
        if self.path is not None:
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(f"{'+' if outcome else '-'} {key}\n")

    def close(self) -> None:
        """Removes the file after a complete run."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


def digest(text: str) -> str:
    """A hash that distinguishes texts, for the record of those that have been tried."""
    return hashlib.blake2b(files.encode(text), digest_size=12).hexdigest()


Test = Callable[[str], bool]
"""Whether a text still shows the behavior."""
