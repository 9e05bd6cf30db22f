"""Every regular expression means the same in every supported Python.

Before Python 3.11.5 a possessive repetition of a group goes on where its last round failed, not where that round began. Rounds that can
fail half-way therefore have an alternative that never matches and brings the position back (`shapes.NOT`).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import ptxkit
import ptxkit.analyses
import ptxkit.rewriters
from ptxkit.memo import expression

parser = re._parser  # type: ignore[attr-defined]
LATER = type(expression(""))
SINGLE = {"LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY", "AT"}


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for package in (ptxkit, ptxkit.analyses, ptxkit.rewriters):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.endswith("__main__"):
                continue
            try:
                module = importlib.import_module(info.name)
            except ImportError:
                continue
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern | LATER) and isinstance(value.pattern, str):
                    yield f"{info.name}.{name}", value


def possessive_bodies(tree: object) -> Iterator[object]:
    """The bodies of possessive repetitions in a parsed regular expression."""
    if isinstance(tree, parser.SubPattern):
        for operator, argument in tree.data:
            if str(operator) == "POSSESSIVE_REPEAT":
                yield argument[2]
            yield from possessive_bodies(argument)
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from possessive_bodies(part)


def alternatives(body: object) -> list[object]:
    data = list(body)  # type: ignore[call-overload]
    return list(data[0][1][1]) if len(data) == 1 and str(data[0][0]) == "BRANCH" else [body]


def is_safe(body: object) -> bool:
    """Whether a round that fails leaves nothing behind: it can't fail half-way, or its last alternative fails at once."""
    last = list(alternatives(body)[-1])  # type: ignore[call-overload]
    return (len(last) == 1 and never_matches(last[0])) or all(is_plain(alternative) for alternative in alternatives(body))


def is_plain(alternative: object) -> bool:
    """Whether it is characters one after the other, or one repeated."""
    parts = list(alternative)  # type: ignore[call-overload]
    return all(str(operator) in SINGLE for operator, _ in parts) or (
        len(parts) == 1 and "REPEAT" in str(parts[0][0]) and is_plain(parts[0][1][2])
    )


def never_matches(part: tuple[object, object]) -> bool:
    """Whether a part is `(?!)`, in whichever way this Python writes it."""
    return str(part[0]) == "FAILURE" or (str(part[0]) == "ASSERT_NOT" and not list(part[1][1]))  # type: ignore[index]


FOUND = dict(patterns())


def test_there_are_patterns() -> None:
    assert any(list(possessive_bodies(parser.parse(pattern.pattern, pattern.flags))) for pattern in FOUND.values())


@pytest.mark.parametrize("name", FOUND)
def test_a_round_that_fails_leaves_nothing_behind(name: str) -> None:
    pattern = FOUND[name]
    for body in possessive_bodies(parser.parse(pattern.pattern, pattern.flags)):
        assert is_safe(body), f"{name}: {pattern.pattern}: a possessive group needs {ptxkit.syntax.lexical.NOT} as its last alternative"


@pytest.mark.parametrize("text", ["(?:ab?c)*+", "(?:a|b(?!c))*+", "(?:a(b))?+"])
def test_the_check_can_fail(text: str) -> None:
    assert not all(is_safe(body) for body in possessive_bodies(parser.parse(text, 0)))
