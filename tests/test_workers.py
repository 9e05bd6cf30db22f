"""Work that copies of this process do."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from ptxkit import workers

FORKS = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be copied here")


@FORKS
def test_results_are_in_order_and_from_other_processes() -> None:
    base = [10]  # seen by the copies, though it is not passed
    results = list(workers.spread(lambda number: (base[0] + number, os.getpid()), 7, 2))

    assert [number for number, _ in results] == list(range(10, 17))
    assert os.getpid() not in {process for _, process in results}
    assert 1 <= len({process for _, process in results}) <= 2


def test_one_process_or_one_piece_of_work_is_done_here() -> None:
    for count, processes in ((3, 1), (1, 4)):
        assert set(workers.spread(lambda number: os.getpid(), count, processes)) == {os.getpid()}
    assert list(workers.spread(lambda number: number, 0, 4)) == []


@FORKS
def test_what_the_work_raises_is_raised() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("not this one")
        return number

    with pytest.raises(ValueError, match="not this one"):
        list(workers.spread(work, 5, 2))


@FORKS
def test_what_a_process_that_dies_leaves_is_done_here(tmp_path: Path) -> None:
    here, mark = os.getpid(), tmp_path / "died"

    def work(number: int) -> int:
        if number == 2 and os.getpid() != here:
            mark.touch()
            os._exit(1)
        return number

    assert list(workers.spread(work, 6, 2)) == list(range(6))
    assert mark.exists()


def test_cores() -> None:
    assert 1 <= workers.cores() <= (os.cpu_count() or 1)
