"""The configuration that applies to each file, and the files that are excluded."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs

from ptxkit import configuration
from ptxkit.cli import _input
from ptxkit.configuration import BadConfiguration, Configuration


class Settings:
    """The configurations of files: a given one, none, or for each file that of its folder or the nearest one above."""

    def __init__(self, config: str | None = None, isolated: bool = False) -> None:
        if config is not None and isolated:
            _input.fail("--config and --isolated exclude each other")
        self._fixed: Configuration | None = None
        if config is not None or isolated:
            self._fixed = _checked(lambda: configuration.read(Path(config))) if config is not None else Configuration()
        self._found = functools.lru_cache(maxsize=None)(_of_folder)

    def of(self, name: str) -> Configuration:
        """The configuration of a file; for standard input, that of the current folder."""
        if self._fixed is not None:
            return self._fixed
        folder = Path.cwd() if name == "-" else Path(name.partition("!")[0]).resolve().parent
        return self._found(folder)

    def included(self, paths: Iterable[str]) -> list[str]:
        """The PTX files that paths denote, without those in excluded folders. A file named explicitly is never excluded."""
        found = []
        for path in paths:
            names = _input.paths([path])
            is_folder = path != "-" and Path(path).is_dir()
            found += [name for name in names if not (is_folder and self._is_excluded(name, path))]
        return found

    def _is_excluded(self, name: str, root: str) -> bool:
        settled = self.of(name)
        return configuration.is_excluded(Path(name).resolve(), Path(root).resolve(), settled)

    def show(self, names: Sequence[str]) -> str:
        """The settings of files as JSON, one document for each configuration."""
        groups: dict[str | None, list[str]] = {}
        by_path: dict[str | None, Configuration] = {}
        for name in names:
            settled = self.of(name)
            by_path[settled.path] = settled
            groups.setdefault(settled.path, []).append(name)
        documents = [{"configuration": path, "files": mine, "settings": attrs.asdict(by_path[path])} for path, mine in groups.items()]
        return json.dumps(documents, indent=1)


def _of_folder(folder: Path) -> Configuration:
    return _checked(lambda: configuration.find(folder))


def _checked(read: Callable[[], Configuration]) -> Configuration:
    try:
        return read()
    except BadConfiguration as error:
        _input.fail(str(error))
