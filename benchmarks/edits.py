"""Random edits of single nodes over a corpus: exactly the node's bytes differ, and undoing gives the original.

    python benchmarks/edits.py [FOLDER…] [--edits N] [--seed N]

As many edits as there are files allow, at every level of the tree: leaves, operands, opcodes, guards, statements, what leads them, whole
functions. Exit status 1 if one edit changes another byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from ptxkit.syntax import Index, Module, Node, Statement, nodes, parse

HERE = Path(__file__).resolve().parent.parent


def level(path: nodes.Path, module: Module, node: Node) -> str:
    """What kind of place a node stands in."""
    if isinstance(node, nodes.Function | nodes.Section | nodes.Block):
        return "container"
    if isinstance(node, Statement):
        return "statement"
    if isinstance(node, nodes.Opcode | nodes.Guard):
        return type(node).__name__.lower()
    if isinstance(module.at(path[:-1]), nodes.Instruction):
        return "operand"
    return "leaf" if isinstance(node, nodes.Leaf) else "part"


def a_place(module: Module, lot: random.Random) -> nodes.Path:
    """The path of a node by lot: down from the top, and at each level maybe no further."""
    path: tuple[int, ...] = ()
    node: Node = module
    while node.children and (not path or lot.random() < (0.95 if isinstance(node, nodes.Function | nodes.Block) else 0.7)):
        # most of a file is bodies
        step = len(node.children) - 1 if isinstance(node, nodes.Function) and lot.random() < 0.9 else lot.randrange(len(node.children))
        path, node = (*path, step), node.children[step]
    return path


def edit(module: Module, text: str, index: Index, path: nodes.Path, lot: random.Random, counts: Counter[str]) -> bool:
    """Edits the node at a path, and says whether only its bytes changed and came back."""
    node = module.at(path)
    leading = len(getattr(node, "leading", ""))
    start = index.offset(path)
    if isinstance(node, Statement) and lot.random() < 0.3:
        counts["leading"] += 1
        new: Node = node.with_leading(" /* edited */\n")
        expected = text[: start - leading] + " /* edited */\n" + text[start:]
    else:
        counts[level(path, module, node)] += 1
        new = nodes.Name("<edited>")
        expected = text[: start - leading] + "<edited>" + text[start - leading + len(node.text) :]
    edited = module.replace(path, new)
    return edited.text == expected and edited.replace(path, node).text == text


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = HERE.parent / "shared"
    arguments.add_argument("folders", nargs="*", type=Path, default=[shared / "corpus"] if shared.is_dir() else [HERE / "fixtures"])
    arguments.add_argument("--edits", type=int, default=20_000, help="at least so many")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    files = sorted(path for folder in options.folders for path in folder.rglob("*.ptx"))
    lot = random.Random(options.seed)
    counts: Counter[str] = Counter()
    wrong = 0
    start = time.perf_counter()
    each = -(-options.edits // len(files))
    for path in files:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        module = parse(text)
        index = Index(module)
        for _ in range(each if module.children else 0):
            place = a_place(module, lot)
            if not edit(module, text, index, place, lot, counts):
                wrong += 1
                print(f"{path}: an edit at {place} changed other bytes")
    print(f"{counts.total()} edits in {len(files)} files, {wrong} that changed other bytes ({time.perf_counter() - start:.0f} s)")
    print("  " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
