"""What a project has settled about ptxkit: `ptxkit.toml`, or `[tool.ptxkit]` in `pyproject.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen

OFF = "off"
"""In place of a severity: the rule is not applied."""


class BadConfiguration(Exception):
    """A configuration that cannot be read, or says what nobody understands."""


@frozen
class Configuration:
    """What is settled; the command line goes first."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = attrs.field(factory=dict)
    """Severities (or `off`) by rule: id, name, family letter or ALL."""
    baseline: str | None = None
    """The path of the file with the findings that are accepted."""
    target: str | None = None
    ptx: str | None = None
    width: int | None = None
    """Of formatted lines."""
    path: str | None = None
    """Where it stands."""


def find(folder: Path) -> Configuration:
    """The configuration of a folder: that in it, or in the nearest folder above that has one. Raises BadConfiguration."""
    for directory in (folder, *folder.parents):
        own, general = directory / "ptxkit.toml", directory / "pyproject.toml"
        if own.is_file():
            return read(own)
        if general.is_file() and "ptxkit" in _toml(general).get("tool", {}):
            return read(general)
    return Configuration()


def read(path: Path) -> Configuration:
    """The configuration that a file has. Raises BadConfiguration."""
    table = _toml(path)
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("ptxkit", {})
    return _checked(table, path)


def severity_of(settings: Mapping[str, str], rule: str, name: str) -> str | None:
    """What is settled for a rule: for its id or name, else for its family, else for all; None if nothing is."""
    by_word = {word.upper(): value for word, value in settings.items()}
    for word in (rule, name, rule[:1], "ALL"):
        if word.upper() in by_word:
            return by_word[word.upper()]
    return None


def parse_severity(text: str) -> tuple[str, str]:
    """The rule and the severity of `RULE=SEVERITY`. Raises BadConfiguration."""
    rule, equals, severity = (part.strip() for part in text.partition("="))
    if not rule or not equals:
        raise BadConfiguration(f"{text!r} is not RULE=SEVERITY, such as R001=error")
    return rule, _severity(severity, rule)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfiguration(f"{path}: {error}") from None


def _checked(table: Any, path: Path) -> Configuration:
    if not isinstance(table, dict):
        raise BadConfiguration(f"{path}: `ptxkit` is not a table")
    known = {field.name for field in attrs.fields(Configuration)} - {"path"}
    found: dict[str, Any] = {"path": str(path)}
    for key, value in table.items():
        if key not in known:
            raise BadConfiguration(f"{path}: no such setting: {key}; there are {', '.join(sorted(known))}")
        if key in ("select", "ignore"):
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                raise BadConfiguration(f"{path}: {key} is a list of rules, such as ['C', 'R001']")
            found[key] = tuple(value)
        elif key == "severity":
            if not isinstance(value, dict):
                raise BadConfiguration(f"{path}: severity is a table, such as R001 = 'error'")
            found[key] = {rule: _severity(severity, f"{path}: {rule}") for rule, severity in value.items()}
        elif key == "width":
            if type(value) is not int or value < 40:
                raise BadConfiguration(f"{path}: width is a number of 40 or more")
            found[key] = value
        elif not isinstance(value, str):
            raise BadConfiguration(f"{path}: {key} is a text")
        else:
            found[key] = str(path.parent / value) if key == "baseline" else value
    return Configuration(**found)


def _severity(value: Any, where: str) -> str:
    if value not in (*Severity, OFF):
        raise BadConfiguration(f"{where}: the severity is {', '.join(Severity)} or {OFF}, not {value!r}")
    return str(value)
