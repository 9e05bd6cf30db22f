"""Removes all information for debuggers and profilers."""

from __future__ import annotations

from ptxkit.rewriters.engine.rewrite import Manifest, Rewrite
from ptxkit.rewriters.engine.tree import without
from ptxkit.syntax import Data, File, Line, Loc, Module, Node, Path, Section, SectionHeader, Target, shape


def strip_debug(module: Module) -> Rewrite:
    """Removes `.loc`, `.file`, debugging sections, `@@DWARF` lines, and the word `debug` of `.target` (11.1.2, 11.5)."""
    counts: dict[str, int] = {}

    def drop(path: Path, node: Node) -> bool:
        is_debug = isinstance(node, Loc | File | Data | SectionHeader) or _is_dwarf(node)
        if is_debug:
            counts[type(node).__name__] = counts.get(type(node).__name__, 0) + 1
        return is_debug

    stripped = without(module, drop)
    children = [without_debug_word(child) if isinstance(child, Target) else child for child in stripped.children]
    changes = tuple([f"{count} {name}" for name, count in counts.items()])
    return Rewrite(stripped.with_children(children), Manifest("strip_debug", changes=changes))


def _is_dwarf(node: Node) -> bool:
    if isinstance(node, Section):
        return node.name.lstrip(".").startswith("debug")
    return isinstance(node, Line) and node.body_text.startswith("@@")


def without_debug_word(target: Target) -> Target:
    """`.target sm_90a, debug` becomes `.target sm_90a`."""
    words = target.words
    if "debug" not in words:
        return target
    i = words.index("debug")
    literals = target.shape.literals
    # the comma before the word is removed too, or the one after it if it is first
    kept = (*literals[:i], *literals[i + 1 :]) if i else (literals[0], *literals[2:])
    return Target(target.leading, shape(*kept), tuple([child for j, child in enumerate(target.children) if j != i]))
