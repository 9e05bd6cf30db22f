"""Plans: how a node is built of any text of one shape; and those of the commonest shapes, worked out beforehand.

`plans.json` holds what the grammar says of shapes that many files have (`benchmarks/plans.py` writes it, a test compares). A file that has
no others needs no grammar: reading that takes longer than most files.
"""

# pathlib would be a good part of what loading them costs.
# ruff: noqa: PTH118, PTH120, PTH123

from __future__ import annotations

import functools
import json
import os
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.syntax import nodes
from ptxkit.syntax.nodes import Node, Shape, shape

Key = tuple[str, ...]
"""The shape of a text: literal pieces and, between them, the letters of the slots."""


@frozen
class Slot:
    """A leaf whose text is a slot (or a node that is one)."""

    kind: type[Node]
    index: int


@frozen
class Plan:
    """A composite or statement to be built; its parts are nodes ready made, slots and plans."""

    kind: type[Any]
    form: Shape
    parts: tuple[Any, ...]


def ready(rule: str, key: Key) -> Plan | Slot | Node | None:
    """The plan for a rule and shape, if it was worked out beforehand."""
    found = _table().get((rule, key))
    return None if found is None else _decoded(found)


def shapes() -> list[tuple[str, Key]]:
    """The rules and shapes of all plans that were."""
    return list(_table())


def written(plans: dict[tuple[str, Key], Plan | Slot | Node]) -> str:
    """The text of the file that holds these plans."""
    lines = [json.dumps([rule, key, _encoded(plan)]) for (rule, key), plan in sorted(plans.items(), key=lambda one: one[0])]
    return "[\n" + ",\n".join(lines) + "\n]\n"


@functools.cache
def _table() -> dict[tuple[str, Key], Any]:
    try:
        with open(os.path.join(os.path.dirname(__file__), "plans.json"), encoding="utf-8") as file:
            found = json.load(file)
    except OSError:
        # a package inside a zip file goes without
        return {}
    return {(rule, tuple(key)): plan for rule, key, plan in found}


def _encoded(plan: Plan | Slot | Node) -> list[Any]:
    if isinstance(plan, Slot):
        return [plan.kind.__name__, plan.index]
    if isinstance(plan, Plan):
        return [plan.kind.__name__, plan.form.literals, [_encoded(part) for part in plan.parts]]
    if isinstance(plan, nodes.Leaf):
        return [type(plan).__name__, plan.text]
    assert isinstance(plan, nodes.Composite)
    # what has no slot in it is ready made
    return [type(plan).__name__, plan.shape.literals, [_encoded(child) for child in plan.children], True]


def _decoded(found: list[Any]) -> Any:
    kind: Any = getattr(nodes, found[0])
    if len(found) == 2:
        return Slot(kind, found[1]) if isinstance(found[1], int) else kind(found[1])
    parts = tuple([_decoded(part) for part in found[2]])
    return kind(shape(*found[1]), parts) if len(found) == 4 else Plan(kind, shape(*found[1]), parts)
