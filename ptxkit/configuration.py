"""What a project has settled about ptxkit: `ptxkit.toml`, or `[tool.ptxkit]` in `pyproject.toml`."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen

OFF = "off"
"""In place of a severity: the rule is not applied."""


EXCLUDED = (
    *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "site-packages"),
    *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
)
"""What `exclude` is if nothing is settled."""


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
    exclude: tuple[str, ...] = EXCLUDED
    """Patterns of files and folders that are left out, where a folder above them is named."""
    extend_exclude: tuple[str, ...] = ()
    """More of them."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Rules that are not applied, by pattern of files."""
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


def matches(pattern: str, path: Path, folder: Path) -> bool:
    """Whether a pattern such as `build`, `*.sm_80.ptx` or `third_party/**` means a file: its name, a folder that it is in, or its path from
    the folder of the configuration."""
    try:
        relative = path.relative_to(folder)
    except ValueError:
        relative = Path(path.name)
    parents = [relative, *list(relative.parents)[:-1]]
    return any(fnmatch.fnmatchcase(one.name, pattern) or fnmatch.fnmatchcase(one.as_posix(), pattern.rstrip("/")) for one in parents)


def is_excluded(path: Path, root: Path, settled: Configuration) -> bool:
    """Whether a file under the folder `root`, which was named, is left out."""
    folder = Path(settled.path).parent if settled.path else root
    inside = folder if folder.is_relative_to(root) else root
    if any(matches(pattern, path, inside) for pattern in settled.exclude if "/" not in pattern):
        return True
    patterns = [*[one for one in settled.exclude if "/" in one], *settled.extend_exclude]
    return any(matches(pattern, path, folder) and not matches(pattern, root, folder) for pattern in patterns)


def ignored_in(path: Path, settled: Configuration) -> tuple[str, ...]:
    """The rules that are not applied to a file."""
    folder = Path(settled.path).parent if settled.path else path.parent
    return tuple([rule for pattern, rules in settled.per_file_ignores.items() if matches(pattern, path, folder) for rule in rules])


def parse_severity(text: str) -> tuple[str, str]:
    """The rule and the severity of `RULE=SEVERITY`. Raises BadConfiguration."""
    rule, equals, severity = (part.strip() for part in text.partition("="))
    if not rule or not equals:
        raise BadConfiguration(f"{text!r} is not RULE=SEVERITY, such as R001=error")
    return rule, _severity(severity, rule)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # not before there is a file to read: a start is to take no time

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfiguration(f"{path}: {error}") from None


def _checked(table: Any, path: Path) -> Configuration:
    if not isinstance(table, dict):
        raise BadConfiguration(f"{path}: `ptxkit` is not a table")
    known = {field.name.replace("_", "-") for field in attrs.fields(Configuration)} - {"path"}
    found: dict[str, Any] = {"path": str(path)}
    for key, value in table.items():
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}? There" if near else "there"
            raise BadConfiguration(f"{path}: no such setting: {key}; {hint} are {', '.join(sorted(known))}")
        if key in ("select", "ignore"):
            found[key] = _texts(value, f"{path}: {key} is a list of rules, such as ['C', 'R001']")
        elif key in ("exclude", "extend-exclude"):
            found[key.replace("-", "_")] = _texts(value, f"{path}: {key} is a list of patterns, such as ['third_party']")
        elif key == "per-file-ignores":
            what = f"{path}: {key} is a table of lists, such as 'tests/*' = ['R001']"
            if not isinstance(value, dict):
                raise BadConfiguration(what)
            found["per_file_ignores"] = {pattern: _texts(rules, what) for pattern, rules in value.items()}
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


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadConfiguration(what)
    return tuple(value)


def _severity(value: Any, where: str) -> str:
    if value not in (*Severity, OFF):
        raise BadConfiguration(f"{where}: the severity is {', '.join(Severity)} or {OFF}, not {value!r}")
    return str(value)
