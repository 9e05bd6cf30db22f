"""Pairs functions of two modules whose names differ: a template with other arguments, or a renamed kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ptxkit.demangling import base
from ptxkit.syntax import Function, Module, parse

LEAST = 0.6
"""Minimum similarity of the instructions of paired functions."""
SAME_NAME = 0.3
"""The bonus for a common source name, without template arguments and parameters."""
MOST = 100_000
"""Maximum number of function pairs that are compared."""


def pairs(before: Module, after: Module, said: Mapping[str, str] | None = None) -> dict[str, str]:
    """By the name of each function whose name differs in `after`, its name there: as given in `said`, otherwise the most similar one."""
    said = dict(said or {})
    old, new = _defined(before), _defined(after)
    gone = [name for name in old if name not in said and (name not in new or name in said.values())]
    come = [name for name in new if name not in said.values() and (name not in old or name in said)]
    if len(gone) * len(come) > MOST:
        return said
    mixes = {id(one): _mix(one) for one in (*[old[name] for name in gone], *[new[name] for name in come])}
    found = []
    for i, a in enumerate(gone):
        for j, b in enumerate(come):
            if old[a].is_entry is new[b].is_entry:
                score = _common(mixes[id(old[a])], mixes[id(new[b])]) + SAME_NAME * (base(a) == base(b))
                if score >= LEAST:
                    found.append((-score, i, j))
    for _, i, j in sorted(found):
        if gone[i] not in said and come[j] not in said.values():
            said[gone[i]] = come[j]
    return said


def displaced(before: Module, names: Mapping[str, str]) -> dict[str, str]:
    """New names for the functions of `before` that have no partner, but a name that a renamed function takes."""
    taken = {now for old, now in names.items() if old != now}
    return {one.name: f"{one.name}$before" for one in before.functions if one.name in taken and one.name not in names}


def renamed(module: Module, names: Mapping[str, str]) -> Module:
    """The module with functions renamed, and with them the parameters that are named after them."""
    if not names:
        return module
    word = re.compile(r"(?<![\w$.%])(" + "|".join(map(re.escape, names)) + r")(?=_param_\d|(?![\w$]))")
    return parse(word.sub(lambda match: names[match[1]], module.text), module.path or "")


def _defined(module: Module) -> dict[str, Function]:
    return {child.name: child for child in module.children if isinstance(child, Function) and child.body is not None}


def _mix(function: Function) -> Counter[str]:
    return Counter([instruction.opcode.mnemonic for instruction in function.instructions])


def _common(a: Counter[str], b: Counter[str]) -> float:
    """The similarity of two sets of instructions, from 0 to 1 (the Sørensen–Dice coefficient)."""
    every = a.total() + b.total()
    return 2 * (a & b).total() / every if every else 1.0
