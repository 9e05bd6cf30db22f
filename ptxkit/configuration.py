"""A project's configuration of ptxkit: `ptxkit.toml`, or `[tool.ptxkit]` in `pyproject.toml`."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen

OFF = "off"
"""Replaces a severity: the rule is disabled."""


EXCLUDED = (
    *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "site-packages"),
    *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
)
"""The default of `exclude`."""


class BadConfiguration(Exception):
    """A configuration that cannot be read or is invalid."""


@frozen
class Configuration:
    """The settings; the command line takes precedence."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = attrs.field(factory=dict)
    """Severities (or `off`) by rule: id, name, family letter or ALL."""
    baseline: str | None = None
    """The path of the file of accepted findings."""
    target: str | None = None
    ptx: str | None = None
    width: int | None = None
    """The maximum width of formatted lines."""
    exclude: tuple[str, ...] = EXCLUDED
    """Patterns of files and folders to skip when a folder above them is named."""
    extend_exclude: tuple[str, ...] = ()
    """Additional patterns."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Disabled rules, by file pattern."""
    path: str | None = None
    """The path of the configuration file."""


def find(folder: Path) -> Configuration:
    """The configuration of a folder: its own, or that of the nearest folder above that has one. Raises BadConfiguration."""
    for directory in (folder, *folder.parents):
        own, general = directory / "ptxkit.toml", directory / "pyproject.toml"
        if own.is_file():
            return read(own)
        if general.is_file() and "ptxkit" in _toml(general).get("tool", {}):
            return read(general)
    return Configuration()


def read(path: Path) -> Configuration:
    """Reads a configuration file. Raises BadConfiguration."""
    table = _toml(path)
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("ptxkit", {})
    return _checked(table, path)


def severity_of(settings: Mapping[str, str], rule: str, name: str) -> str | None:
    """The setting for a rule: by id or name, otherwise by family, otherwise for all; None if there is none."""
    by_word = {word.upper(): value for word, value in settings.items()}
    for word in (rule, name, rule[:1], "ALL"):
        if word.upper() in by_word:
            return by_word[word.upper()]
    return None


def matches(pattern: str, path: Path, folder: Path) -> bool:
    """Whether a pattern such as `build`, `*.sm_80.ptx` or `third_party/**` matches a file: its name, a folder that contains it, or its
    path relative to the folder of the configuration."""
    try:
        relative = path.relative_to(folder)
    except ValueError:
        relative = Path(path.name)
    parents = [relative, *list(relative.parents)[:-1]]
    return any(fnmatch.fnmatchcase(one.name, pattern) or fnmatch.fnmatchcase(one.as_posix(), pattern.rstrip("/")) for one in parents)


def is_excluded(path: Path, root: Path, settled: Configuration) -> bool:
    """Whether a file under the named folder `root` is skipped."""
    folder = Path(settled.path).parent if settled.path else root
    inside = folder if folder.is_relative_to(root) else root
    if any(matches(pattern, path, inside) for pattern in settled.exclude if "/" not in pattern):
        return True
    patterns = [*[one for one in settled.exclude if "/" in one], *settled.extend_exclude]
    return any(matches(pattern, path, folder) and not matches(pattern, root, folder) for pattern in patterns)


def ignored_in(path: Path, settled: Configuration) -> tuple[str, ...]:
    """The rules that are disabled for a file."""
    folder = Path(settled.path).parent if settled.path else path.parent
    return tuple([rule for pattern, rules in settled.per_file_ignores.items() if matches(pattern, path, folder) for rule in rules])


def parse_severity(text: str) -> tuple[str, str]:
    """The rule and severity in `RULE=SEVERITY`. Raises BadConfiguration."""
    rule, equals, severity = (part.strip() for part in text.partition("="))
    if not rule or not equals:
        raise BadConfiguration(f"{text!r} is not RULE=SEVERITY, such as R001=error")
    return rule, _severity(severity, rule)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # imported only if there is a file to read, to keep startup fast

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfiguration(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
