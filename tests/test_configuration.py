"""`ptxkit.toml` and `[tool.ptxkit]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxkit.configuration import BadConfiguration, Configuration, find, ignored_in, is_excluded, parse_severity, read, severity_of


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_everything(tmp_path: Path) -> None:
    path = write(
        tmp_path / "ptxkit.toml",
        'select = ["C", "R001"]\nignore = ["R002"]\nbaseline = "known.json"\ntarget = "sm_90a"\nptx = "8.5"\nwidth = 100\n'
        '[severity]\nR001 = "info"\nC = "off"\n',
    )

    assert read(path) == Configuration(
        ("C", "R001"), ("R002",), {"R001": "info", "C": "off"}, str(tmp_path / "known.json"), "sm_90a", "8.5", 100, path=str(path)
    )


def test_the_nearest_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write(tmp_path / "pyproject.toml", '[tool.ptxkit]\nselect = ["E"]\n')
    write(tmp_path / "a" / "pyproject.toml", "[tool.other]\n")

    assert find(inner).select == ("E",)
    write(tmp_path / "a" / "ptxkit.toml", 'select = ["V"]\n')
    assert find(inner).select == ("V",)


@pytest.mark.parametrize(
    "text",
    [
        "select = 'E'",
        "select = [1]",
        "slect = ['E']",
        "severity = 'error'",
        "[severity]\nE = 'fatal'",
        "width = 3",
        "width = true",
        "target = 90",
        "= broken",
        "\udcff",
    ],
)
def test_what_nobody_understands(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ptxkit.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(BadConfiguration, match=r"ptxkit\.toml"):
        read(path)


def test_severities() -> None:
    assert parse_severity("R001 = error") == ("R001", "error")
    for text in ("R001", "=error", "R001=fatal"):
        with pytest.raises(BadConfiguration):
            parse_severity(text)
    settings = {"all": "info", "C": "warning", "aligned-barrier-divergent": "error", "C002": "off"}
    assert severity_of(settings, "C001", "aligned-barrier-divergent") == "error"
    assert severity_of(settings, "C002", "other") == "off"
    assert severity_of(settings, "C003", "other") == "warning"
    assert severity_of(settings, "R001", "other") == "info"
    assert severity_of({}, "R001", "other") is None


def test_patterns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "ptxkit.toml",
        'extend-exclude = ["third_party", "gen/*.ptx"]\n[per-file-ignores]\n"*.sm_80.ptx" = ["R001"]\n"tests/*" = ["C", "E010"]\n',
    )
    settled = read(path)

    def excluded(name: str) -> bool:
        return is_excluded(tmp_path / name, tmp_path, settled)

    assert excluded("third_party/a.ptx") and excluded("x/third_party/y/a.ptx") and excluded("gen/a.ptx") and excluded(".venv/a.ptx")
    assert not excluded("a.ptx") and not excluded("third/a.ptx")
    assert not is_excluded(tmp_path / "third_party" / "a.ptx", tmp_path / "third_party", settled)
    assert ignored_in(tmp_path / "a.sm_80.ptx", settled) == ("R001",)
    assert ignored_in(tmp_path / "tests" / "b.ptx", settled) == ("C", "E010")


def test_the_nearest_name_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="did you mean extend-exclude"):
        read(write(tmp_path / "ptxkit.toml", "extend-exclud = []"))
