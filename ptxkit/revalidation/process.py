"""Runs programs that may crash or hang, without affecting the caller or leaving processes behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from ptxkit.frozen import frozen


@frozen
class Finished:
    """A program that has exited or was killed: `code` is None after a timeout."""

    code: int | None
    output: bytes
    errors: str

    @property
    def crash(self) -> str | None:
        """How it crashed, if it neither exited by itself nor was killed after a timeout."""
        if self.code is None or 0 <= self.code < 128 or self.code == 255:
            return None
        number = -self.code if self.code < 0 else self.code - 128  # as a shell reports it
        try:
            return f"it was killed by {signal.Signals(number).name}"
        except ValueError:
            return f"it ended with code {self.code:#x}"


def run(command: Sequence[str], data: bytes, timeout: float, environment: Mapping[str, str] | None = None) -> Finished:
    """Runs a program on these bytes until it exits or the timeout (in seconds) expires; then it and its child processes are killed.

    Raises OSError if it cannot be started.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True) as process:
        try:
            output, errors = process.communicate(data, timeout)
        except subprocess.TimeoutExpired as late:
            _kill(process)
            return Finished(None, late.output or b"", (late.stderr or b"").decode(errors="replace"))
        except BaseException:
            _kill(process)
            raise
    return Finished(process.returncode, output, errors.decode(errors="replace"))


def tail(text: str) -> str:
    """The last line of a program's output, in parentheses, if there is any."""
    lines = text.strip().splitlines()
    return f" ({lines[-1][:200]})" if lines else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        try:
            os.killpg(process.pid, signal.SIGKILL)  # its own group: start_new_session
            return
        except ProcessLookupError:
            pass
    process.kill()
