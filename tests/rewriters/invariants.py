"""What must be the same after code was put in, by a second route that shares nothing with the engine but the parser and the names.

What was put in is known by its mark. Everything else is compared statement by statement.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from ptxkit.names import Names, Symbol, names_in, resolve
from ptxkit.syntax import Block, Function, Instruction, Label, Loc, Module, Node, Path, Pragma

MARK = "/*ptxkit"
CARRY = re.compile(r"\b(?:add|sub|mad)c?\.[a-z0-9.]*cc\b|\b(?:add|sub|mad)c\b")


def broken(before: Module, after: Module) -> list[str]:
    """What is wrong with the second module, given that it should be the first with code put in."""
    found: list[str] = []
    for (i, old), (j, new) in zip(_functions(before), _functions(after), strict=True):
        found += _places(_flat(old, (i,)), _flat(new, (j,)))
    return [*found, *_meanings(before, after)]


def _functions(module: Module) -> Iterator[tuple[int, Function]]:
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and MARK + "+" not in child.leading:
            yield i, child


def _flat(function: Function, path: Path) -> list[tuple[Path, Node, bool]]:
    """All statements with their paths in the module, and whether they were put in (or stand in what was)."""
    found = []
    inside: list[Path] = []
    for at, statement in function.statements():
        added = MARK + "+" in statement.leading or any(at[: len(block)] == block for block in inside)  # type: ignore[attr-defined]
        if added and isinstance(statement, Block):
            inside.append(at)
        found.append(((*path, *at), statement, added))
    return found


def _places(old: list[tuple[Path, Node, bool]], new: list[tuple[Path, Node, bool]]) -> Iterator[str]:
    kept = [(n, statement) for n, (_, statement, added) in enumerate(new) if not added]
    originals = [statement for _, statement, _ in old]
    if [_own_text(statement) for _, statement in kept if not _is_edited(statement)] != [
        _own_text(one) for one, (_, other) in zip(originals, kept, strict=False) if not _is_edited(other)
    ]:
        yield "the original statements are others"
        return
    loc_before: Loc | None = None
    loc_after: str | None = None
    steps = iter(new)
    for (n, statement), original in zip(kept, originals, strict=True):
        for _, one, _ in steps:
            if one is statement:
                break
            loc_after = one.text.split(MARK)[-1] if isinstance(one, Loc) else loc_after
        if isinstance(original, Loc):
            loc_before, loc_after = original, statement.text
        if isinstance(original, Instruction) and (loc_before.text if loc_before else None) != loc_after:
            yield f"another .loc at {original.text.strip()}"
        added = new[n - 1][2] if n else False
        previous = next((one for _, one, was_added in reversed(new[:n]) if not was_added), None)
        if added and isinstance(previous, Loc) and isinstance(original, Instruction):
            yield f".loc no longer before {original.text.strip()}"
        if added and isinstance(previous, Label) and isinstance(original, Pragma):
            yield f"code between a label and its {original.text.strip()}"
        if added and isinstance(previous, Pragma) and isinstance(original, Instruction | Loc):
            between = list(itertools.takewhile(lambda step: step[2], reversed(new[:n])))
            if any(isinstance(one, Label) for _, one, _ in between) or "used_bytes" in previous.text:
                yield f"code between {previous.text.strip()} and {original.text.strip()}"
    instructions = [(n, statement) for n, statement in kept if isinstance(statement, Instruction)]
    for at, (_, call) in enumerate(instructions):
        if call.opcode.mnemonic != "call":
            continue
        first = last = at
        while first and _passes(instructions[first - 1][1], "st", call):
            first -= 1
        while last + 1 < len(instructions) and _passes(instructions[last + 1][1], "ld", call):
            last += 1
        if any(added for _, _, added in new[instructions[first][0] : instructions[last][0]]):
            yield f"code between the parts of {call.body_text}"
    writer = -1
    for n, one in instructions:
        if writer >= 0 and CARRY.search(one.opcode.text) and "c" in one.opcode.mnemonic[3:]:
            texts = [other.body_text for _, other, added in new[writer + 1 : n] if added and isinstance(other, Instruction)]
            if any(map(CARRY.search, texts)):
                yield f"the carry of {one.body_text} is another"
        if ".cc" in one.opcode.text:
            writer = n


def _own_text(statement: Node) -> str:
    return statement.leading + "{" + statement.close if isinstance(statement, Block) else statement.text


def _is_edited(statement: Node) -> bool:
    return MARK + "=" in getattr(statement, "leading", "")


def _passes(instruction: Instruction, mnemonic: str, call: Instruction) -> bool:
    """Whether an instruction stores an argument of a call, or loads its result."""
    found = re.search(r"\[([\w$%]+)", instruction.body_text)
    opcode = instruction.opcode
    return (
        opcode.mnemonic == mnemonic and ".param" in opcode.text and found is not None and f"{found[1]}" in re.findall(r"[\w$%]+", call.text)
    )


def _meanings(before: Module, after: Module) -> Iterator[str]:
    """Every name of an original instruction must mean the declaration that it meant."""
    old, new = resolve(before), resolve(after)
    olds, news = _ordinals(before, old), _ordinals(after, new)
    for (i, function), (j, other) in zip(_functions(before), _functions(after), strict=True):
        originals = [(path, one) for path, one, _ in _flat(function, (i,))]
        kept = [(path, one) for path, one, added in _flat(other, (j,)) if not added]
        for (path, one), (where, same) in zip(originals, kept, strict=True):
            if _is_edited(same) or not isinstance(one, Instruction):
                continue
            for _, name in names_in(one):
                was, now = old.lookup(path, name.text), new.lookup(where, name.text)
                if (was and olds[was.path]) != (now and news.get(now.path)):
                    yield f"{name.text} means another thing in {one.body_text}"


def _ordinals(module: Module, names: Names) -> dict[Path, int]:
    """The declarations that were there from the first, counted."""
    symbols: list[Symbol] = []
    for scope in names.all_scopes:
        symbols += [*scope.symbols.values(), *[one for family in scope.ranges.values() for one in family]]
    own = [symbol.path for symbol in symbols if not _is_marked(module, symbol.path)]
    return {path: number for number, path in enumerate(sorted(own))}


def _is_marked(module: Module, path: Path) -> bool:
    node: Node = module
    for step in path:
        node = node.children[step]
        if MARK + "+" in getattr(node, "leading", ""):
            return True
    return False
