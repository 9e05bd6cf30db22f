"""Lines and columns of what is in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.rewriters.profiling.locating import Key, line_and_column, nearest, offsets

TEXT = '''a = 1
b.c = [1, [2, {x = 3, "y z" = [4]}], # c ]
 "]", [[5], [6]]]
[t]
q = "a # b"
s = """ [x]
k = 3 """
d = 1979-05-27 07:32:00
[[k]]
n = 1
[k.sub]
m = 2
[[k]]
n = 3 # x
[ "u v" . w ]
e = {}
f = [ ]
g = {a.b = 1, c = 2}
h = [ {a = 1}, {a = 2},
]
i = 'it is\\'
'''


def ways(value: Any, way: Key = ()) -> Iterator[Key]:
    """The way to every value; to an array of tables only through its elements."""
    tables = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    if way and not tables:
        yield way
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from ways(inner, (*way, key))


def test_every_value_has_its_place() -> None:
    found = offsets(TEXT)
    assert set(ways(tomllib.loads(TEXT))) <= set(found)
    starts = {way: line_and_column(TEXT, at) for way, at in found.items()}
    assert starts["b", "c", 1, 1, "y z", 0] == (2, 32)
    assert starts["b", "c", 3, 1, 0] == (3, 14)
    assert starts["k", 1, "n"] == (14, 1)
    assert starts["u v", "w", "h", 1, "a"] == (19, 17)
    assert starts["u v", "w", "i"] == (21, 1)
    assert nearest(found, ("t", "missing")) == found["t",]
    assert nearest(found, ("missing",)) == 0


VALUES = st.recursive(
    st.one_of(st.integers(-9, 99), st.text('ab]}["#,= \n', max_size=4), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)),
    max_leaves=12,
)


def written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ",".join([written(one) for one in value]) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key} = {written(one)}" for key, one in value.items()]) + "}"
    return str(value)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=4))
def test_places_begin_where_values_are_written(values: dict[str, Any]) -> None:
    text = "".join([f"{key} = {written(value)}\n" for key, value in values.items()])
    assert tomllib.loads(text) == values
    found = offsets(text)

    def check(value: Any, way: Key) -> None:
        if way:
            start = text[found[way] :]
            assert start.startswith(f"{way[-1]} =" if isinstance(way[-1], str) else written(value))
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            check(inner, (*way, key))

    check(values, ())
