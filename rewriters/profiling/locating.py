"""Source positions in TOML: `tomllib` gives the values, this module the lines and columns of their keys and elements."""

from __future__ import annotations

import re

from ptxkit.memo import expression

Key = tuple[str | int, ...]
"""The path to a value: names of keys and indices of elements."""

_TOKEN = expression(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|\[\[|\]\]|[\[\]{},=\n]|#[^\n]*|[^\s\[\]{},="\'#]+',
    re.DOTALL,
)


def offsets(text: str) -> dict[Key, int]:
    """The character offset of each key and array element. `tomllib` must accept the text."""
    return _Reader(text).found


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def nearest(found: dict[Key, int], key: Key) -> int:
    """The position of a value; if absent, of the table or array that would contain it."""
    while key and key not in found:
        key = key[:-1]
    return found.get(key, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self.found: dict[Key, int] = {}
        self._tables: dict[Key, int] = {}  # by the key of an array of tables, the index of the last one
        # adjacent brackets are one token only in a header, at the start of a line
        self._tokens = [(token[0], token.start()) for token in _TOKEN.finditer(text) if token[0][0] != "#"]
        self._tokens.append(("\n", len(text)))
        self._at = 0
        table: Key = ()
        while self._at < len(self._tokens):
            word, _ = self._tokens[self._at]
            if word == "\n":
                self._at += 1
            elif word in ("[", "[["):
                self._at += 1
                table = self._header(array=word == "[[")
            else:
                self._pair(table)

    def _header(self, array: bool) -> Key:
        """The key of the table that a header opens; within an array of tables, it refers to the last element."""
        start, names = self._name(until=("]", "]]"))
        self._at += 1
        key: Key = ()
        for i, name in enumerate(names):
            key = (*key, name)
            if array and i == len(names) - 1:
                self._tables[key] = self._tables.get(key, -1) + 1
            if key in self._tables:
                key = (*key, self._tables[key])
            self.found.setdefault(key, start)
        return key

    def _pair(self, table: Key) -> None:
        """A key and its value."""
        start, names = self._name(until=("=",))
        self._at += 1
        for i in range(len(names)):
            self.found.setdefault((*table, *names[: i + 1]), start)
        self._value((*table, *names))

    def _name(self, until: tuple[str, ...]) -> tuple[int, list[str]]:
        start, names = self._tokens[self._at][1], []
        while self._tokens[self._at][0] not in until:
            word = self._tokens[self._at][0]
            names += [word[1:-1]] if word[0] in "\"'" else [name for name in word.split(".") if name]
            self._at += 1
        return start, names

    def _value(self, key: Key) -> None:
        """Skips a value."""
        word, start = self._tokens[self._at]
        self.found.setdefault(key, start)
        self._at += 1
        if word == "{":
            while (word := self._tokens[self._at][0]) != "}":
                if word in (",", "\n"):
                    self._at += 1
                else:
                    self._pair(key)
            self._at += 1
        elif word in ("[", "[["):
            self._elements(key, twice=word == "[[")
        else:
            while self._tokens[self._at][0] not in ("\n", ",", "]", "]]", "}"):  # a date and a time are two tokens
                self._at += 1

    def _elements(self, key: Key, twice: bool) -> None:
        """Skips the elements of an array and its closing bracket; with `twice`, one token opened it and its first element."""
        number = 0
        if twice:
            self.found.setdefault((*key, 0), self._tokens[self._at - 1][1] + 1)
            self._elements((*key, 0), twice=False)
            number = 1
        while True:
            word, start = self._tokens[self._at]
            if word == "]]":  # closes this array and the enclosing one
                self._tokens[self._at] = ("]", start + 1)
                return
            if word in ("]", ",", "\n"):
                self._at += 1
                if word == "]":
                    return
                continue
            self._value((*key, number))
            number += 1
