"""Draws a sample of kernels: one of each family of files, by hashes of names, so that nobody picks it and everybody draws the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.files import decode
from ptxkit.syntax import Module, parse


def module_of(path: Path) -> Module:
    return parse(decode(path.read_bytes()), str(path))


def family(path: Path) -> tuple[str, str]:
    """The folder of a file, and its name up to the first digit, dot or double underscore: files of one source that differ in numbers,
    hashes and targets."""
    return path.parent.name, re.split(r"[\d.]|__", path.name)[0]


def of_each_family(
    paths: Iterable[Path], words: Iterable[str], suits: Callable[[Routine], bool]
) -> Iterator[tuple[Path, Facts, list[Routine]]]:
    """One kernel of each family, with its file: the first that suits, files and kernels in the order of hashes of their names. Only files
    that contain one of the words are parsed."""
    encoded = [word.encode() for word in words]
    for _, members in groupby(sorted(paths, key=lambda path: (family(path), rank(path.name))), key=family):
        found = next(_kernels((path for path in members if any(word in path.read_bytes() for word in encoded)), suits), None)
        if found is not None:
            yield found


def _kernels(paths: Iterable[Path], suits: Callable[[Routine], bool]) -> Iterator[tuple[Path, Facts, list[Routine]]]:
    for path in paths:
        facts = Facts(module_of(path))
        for routine in sorted(facts.routines, key=lambda one: rank(one.name)):
            if suits(routine):
                yield path, facts, [routine]


def rank(name: str) -> bytes:
    """Place of a name in a draw."""
    return hashlib.sha256(name.encode()).digest()
