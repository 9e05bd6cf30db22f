"""Programs that may crash or hang, run so that the caller lives and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen
class Finished:
    """A program that has ended, or was ended: `code` is None if that was for the time."""

    code: int | None
    output: bytes
    errors: str

    @property
    def crash(self) -> str | None:
        """How it died, if it neither ended by itself nor was ended for the time."""
        if self.code is None or 0 <= self.code < 128 or self.code == 255:
            return None
        number = -self.code if self.code < 0 else self.code - 128  # as a shell says it
        try:
            return f"it was killed by {signal.Signals(number).name}"
        except ValueError:
            return f"it ended with code {self.code:#x}"


def run(command: Sequence[str], data: bytes, timeout: float, environment: Mapping[str, str] | None = None) -> Finished:
    """Runs a program on these bytes until it ends or the time (in seconds) is over; then it and what it started are killed.

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
    """The last line of what a program wrote, in parentheses, if it wrote any."""
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
