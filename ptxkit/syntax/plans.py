"""Plans, from which nodes of a shape are built; and the precomputed plans of the most common shapes.

`plans.json` holds the grammar's results for shapes that many files contain (`benchmarks/plans.py` writes it, a test compares). A file
without other shapes does not need the grammar, which takes longer to load than most files.
"""

# importing pathlib would be a large part of the loading time
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
    """A leaf whose text is a slot (or a slot that is a node)."""

    kind: type[Node]
    index: int


@frozen
class Plan:
    """A composite or statement to build; its parts are finished nodes, slots and plans."""

    kind: type[Any]
    form: Shape
    parts: tuple[Any, ...]


def ready(rule: str, key: Key) -> Plan | Slot | Node | None:
    """The plan for a rule and shape, if it was precomputed."""
    found = _table().get((rule, key))
    return None if found is None else _decoded(found)


def shapes() -> list[tuple[str, Key]]:
    """The rules and shapes of all precomputed plans."""
    return list(_table())


def written(plans: dict[tuple[str, Key], Plan | Slot | Node]) -> str:
    """The contents of the file for these plans."""
    lines = [json.dumps([rule, key, _encoded(plan)]) for (rule, key), plan in sorted(plans.items(), key=lambda one: one[0])]
    return "[\n" + ",\n".join(lines) + "\n]\n"


@functools.cache
def _table() -> dict[tuple[str, Key], Any]:
    try:
        with open(os.path.join(os.path.dirname(__file__), "plans.json"), encoding="utf-8") as file:
            found = json.load(file)
    except OSError:
        # not used for a package inside a zip file
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
    # a plan without slots is a finished node
    return [type(plan).__name__, plan.shape.literals, [_encoded(child) for child in plan.children], True]


def _decoded(found: list[Any]) -> Any:
    kind: Any = getattr(nodes, found[0])
    if len(found) == 2:
        return Slot(kind, found[1]) if isinstance(found[1], int) else kind(found[1])
    parts = tuple([_decoded(part) for part in found[2]])
    return kind(shape(*found[1]), parts) if len(found) == 4 else Plan(kind, shape(*found[1]), parts)
