"""Files are written whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ptxkit import files


def test_all_or_none(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("old")
    wrong = tmp_path / "nowhere" / "x"

    with pytest.raises(OSError) as failed:
        files.write_all({str(kept): "new", str(wrong): "new"})
    assert failed.value.filename == str(wrong)
    assert kept.read_text() == "old"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(OSError) as failed:
        files.write(str(tmp_path), "text")
    assert failed.value.filename == str(tmp_path)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    files.write(str(tmp_path / "link"), "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    files.write(str(pipe), "text")
    reader.join(10)

    assert read == ["text"]
    assert pipe.is_fifo()


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.ptx", "no such file or folder"), (tmp_path, "a folder, where a file is expected")):
        with pytest.raises(files.CannotRead, match=f"{path}: {why}"):
            files.read(str(path))


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel.ptx").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(files.CannotRead, match="the name of a file is empty"):
        files.read("")
    with pytest.raises(files.CannotRead, match="the name of a file is empty"):
        list(files.find([""]))
