"""Worker processes and the end of their parent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from ptxkit.workers import begin
if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("forkserver"), begin)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""
PATIENCE = 60
"""Seconds to wait for a process to end."""


def is_alive(process: int) -> bool:
    """Whether a process runs. One that has ended may stay in the table until its parent asks for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_alive(worker)
        parent.kill()
    until = time.monotonic() + PATIENCE
    while is_alive(worker) and time.monotonic() < until:
        time.sleep(0.05)

    assert not is_alive(worker)
