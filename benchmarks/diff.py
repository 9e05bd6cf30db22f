"""What `ptxkit diff` says of files renamed and reordered, and of small edits.

Usage: python benchmarks/diff.py [--files N] [--edits N] [--most BYTES]

Equal: each file against itself with registers and labels renamed, and declarations in another order.
Edits: one in a file that is otherwise renamed and reordered (every second one) or as it was: an instruction deleted, put in twice, an
operand changed, a modifier changed, a constant changed, two instructions swapped. Each must be shown, and nothing else: what is
reported is all at the lines that were edited, and there is something.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import attrs

import ptxkit
from ptxkit import files
from ptxkit.analyses.comparison import Comparison, compare
from ptxkit.names import Kind, Names, resolve
from ptxkit.rewriters import Refused, all_rewriters
from ptxkit.syntax import Block, Declaration, Function, Index, Instruction, Module, Name, Node, Number
from ptxkit.syntax import Path as NodePath

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "fixtures" / "kernels", ROOT.parent / "shared" / "corpus")
EDITS = ("delete", "twice", "operand", "modifier", "constant", "swap")


@attrs.frozen
class Edited:
    """A module with an edit, and the lines of the file before and after that it touches."""

    module: Module
    before: frozenset[int]
    after: frozenset[int]


def without_debugging(module: Module) -> Module:
    """The module without debugging data where that names registers, which cannot be renamed then."""
    rewriters = all_rewriters()
    try:
        rewriters["rename"](module, prefix="other_", what="registers")
    except Refused:
        return rewriters["strip-debug"](module).module
    return module


def renamed(module: Module) -> Module:
    """Other names for registers and labels."""
    for what in ("registers", "labels"):
        module = all_rewriters()["rename"](module, prefix="other_", what=what).module
    return module


def reordered(module: Module, chance: random.Random) -> Module:
    """Declarations in another order: neighbours at the top of the module that declare variables, and those of registers in each body."""
    return module.with_children([_inner(child, chance) for child in _shuffled(module.children, chance)])


def _inner(node: Node, chance: random.Random) -> Node:
    if isinstance(node, Function) and node.body is not None:
        return node.with_children((node.header, _inner(node.body, chance)))
    if isinstance(node, Block):
        return node.with_children([_inner(child, chance) for child in _shuffled(node.children, chance)])
    return node


def _shuffled(children: tuple[Node, ...], chance: random.Random) -> list[Node]:
    """Runs of declarations without initial values, which may name what comes before, in another order."""
    found: list[Node] = []
    run: list[Node] = []
    for child in children:
        if isinstance(child, Declaration) and "=" not in child.text:
            run.append(child)
            continue
        chance.shuffle(run)
        found += [*run, child]
        run = []
    chance.shuffle(run)
    return found + run


def edited(module: Module, kind: str, chance: random.Random) -> Edited | None:
    """One real edit of that kind, or None if there is no place for it."""
    names = resolve(module)
    places = [
        ((i, *path), node)
        for i, child in enumerate(module.children)
        if isinstance(child, Function)
        for path, node in child.statements()
        if isinstance(node, Instruction)
    ]
    chance.shuffle(places)
    index = Index(module)
    for path, node in places[:200]:
        new = _edit(module, names, path, node, kind, chance)
        if new is None:
            continue
        at = index.line_column(index.offset(path))[0]
        more = index.line_column(index.offset((*path[:-1], path[-1] + 1)))[0] if kind in ("swap",) else at
        other = Index(new)
        first = other.line_column(other.offset(path))[0] if path[-1] < len(new.at(path[:-1]).children) else 0
        second = other.line_column(other.offset((*path[:-1], path[-1] + 1)))[0] if kind in ("swap", "twice") else first
        return Edited(new, frozenset([at, more]), frozenset() if kind == "delete" else frozenset([first, second]))
    return None


def _edit(module: Module, names: Names, path: NodePath, node: Instruction, kind: str, chance: random.Random) -> Module | None:
    if kind == "delete":
        return module.remove(path)
    if kind == "twice":
        return module.insert_after(path, node)
    if kind == "swap":
        siblings = module.at(path[:-1]).children
        after = siblings[path[-1] + 1] if path[-1] + 1 < len(siblings) else None
        if not isinstance(after, Instruction) or after.text.split() == node.text.split() or "\n" not in after.leading:
            return None
        return module.replace(path, after).replace((*path[:-1], path[-1] + 1), node)
    if kind == "modifier":
        modifiers = node.opcode.modifiers
        if not modifiers:
            return None
        return module.replace(path, node.with_opcode(node.opcode.text.removesuffix(modifiers[-1]) + ".q32"))
    inner = [(where, leaf) for where, leaf in node.walk() if isinstance(leaf, Number if kind == "constant" else Name) and where]
    chance.shuffle(inner)
    for where, leaf in inner:
        if kind == "constant":
            if leaf.text.isdecimal():
                return module.replace((*path, *where), Number(str(int(leaf.text) + 1)))
            continue
        symbol = names.lookup(path, leaf.text)
        if symbol is None or symbol.kind is not Kind.REGISTER or symbol.count is None or module.text.count(leaf.text) < 6:
            continue
        for _ in range(20):
            other = f"{symbol.name}{chance.randrange(symbol.count)}"
            # a register that is known by other uses, so that the edit is no renaming
            if other != leaf.text and module.text.count(f"{other},") + module.text.count(f"{other};") > 3:
                return module.replace((*path, *where), Name(other))
    return None


def judged(found: Comparison, base: Module, edit: Edited) -> str:
    """What is wrong with what is said of an edit; empty if all is well."""
    changes = [change for function in found.functions for change in function.changes] + list(found.module)
    if not changes:
        return "not shown"
    shown = [(sign, line) for change in changes for sign, line in (("-", change.before), ("+", change.after)) if line]
    if all(line.line in (edit.before if sign == "-" else edit.after) for sign, line in shown):
        return ""
    # of equal neighbours any may be the one that went: what is shown is the edit if it says the same
    before, after = Index(base), Index(edit.module)
    said = {("-", _plain(before.line_text(line))) for line in edit.before} | {("+", _plain(after.line_text(line))) for line in edit.after}
    if len(changes) <= 2 and all((sign, _plain(line.text)) in said for sign, line in shown):
        return ""
    return "something else shown"


def _plain(text: str) -> str:
    return " ".join(text.partition("//")[0].split())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=0, help="how many files (all)")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--most", type=int, default=1 << 30, help="leave out larger files")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    paths = [path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.rglob("*.ptx")) if path.stat().st_size <= options.most]
    chance.shuffle(paths)
    paths = paths[: options.files] if options.files else paths
    equal, parsing, comparing, slowest = 0, 0.0, 0.0, 0.0
    for path in paths:
        start = time.process_time()
        module = ptxkit.parse(files.read(str(path)), str(path))
        parsing += time.process_time() - start
        other = ptxkit.parse(reordered(renamed(without_debugging(module)), chance).text)
        start = time.process_time()
        found = compare(module, other)
        took = time.process_time() - start
        comparing, slowest = comparing + took, max(slowest, took)
        equal += found.is_equal
        if not found.is_equal:
            print(f"{path.name}: not equal: {found.module[:1]} {[(one.name, one.changes[:1]) for one in found.functions[:1]]}")
    times_ = f"parse {parsing:.1f} s, compare {comparing:.1f} s, at most {slowest:.1f} s"
    print(f"{equal} of {len(paths)} files equal to themselves renamed; {times_}")
    right = done = tries = 0
    times: list[float] = []
    small = [path for path in paths if path.stat().st_size <= 1 << 20]
    while done < options.edits and tries < 4 * options.edits:
        kind, path, tries = EDITS[done % len(EDITS)], small[tries % len(small)], tries + 1
        base = without_debugging(ptxkit.parse(files.read(str(path)), str(path)))
        # renaming and reordering move no instruction to another line
        other = reordered(renamed(base), chance) if done % 2 else base
        edit = edited(ptxkit.parse(other.text), kind, chance)
        if edit is None:
            continue
        done += 1
        start = time.process_time()
        found = compare(ptxkit.parse(base.text), ptxkit.parse(edit.module.text))
        times.append(time.process_time() - start)
        wrong = judged(found, base, edit)
        right += not wrong
        if wrong:
            shown = [change for function in found.functions for change in function.changes]
            print(f"{path.name}: {kind} at {sorted(edit.before)}: {wrong}: {shown[:3]} ({len(shown)})")
    print(f"{right} of {done} edits shown and nothing else; longest {max(times, default=0):.1f} s")
    return 0 if equal == len(paths) and right == done else 1


if __name__ == "__main__":
    sys.exit(main())
