"""What other readers of PTX on PyPI make of the same files: pyptx and ptx-parser, beside ptxkit, in one run.

    pip install pyptx ptx-parser
    python benchmarks/neighbours.py [FOLDER] [--files N] [--most BYTES] [--seed N] [--record FILE]

Of each file, for each reader:

* reads: it gives a tree and neither raises nor reports an error;
* prints: the tree, printed, is the file byte for byte (`no tree`: there is nothing that prints one);
* prints without the source: the same after the copy of the source that a reader keeps, if it keeps one, was taken away;
* edits: the first `add`, `mul` or `mad` becomes another instruction in the tree, and what is printed has it in its place, and is else
  what it was;
* time: of the processor, to read it, as a multiple of what ptxkit takes (the better of two, in turn; files of at least 10 kB).

Files are chosen by lot. A reader that is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import attrs

import ptxkit

HERE = Path(__file__).resolve().parent.parent
OPCODES = ("add", "mul", "mad")
NEW = "sub"


class Reader(Protocol):
    name: str

    def read(self, text: str, /) -> Any: ...
    def printed(self, tree: Any) -> str | None: ...
    def without_source(self, tree: Any) -> Any: ...
    def edited(self, tree: Any) -> Any: ...


class Ptxkit:
    name = "ptxkit"

    def read(self, text: str, /) -> Any:
        module = ptxkit.parse(text)
        if module.diagnostics:
            raise ValueError(module.diagnostics[0].message)
        return module

    def printed(self, tree: Any) -> str | None:
        return str(tree.text)

    def without_source(self, tree: Any) -> Any:
        return tree  # keeps none

    def edited(self, tree: Any) -> Any:
        for path, node in tree.walk():
            if isinstance(node, ptxkit.Instruction) and node.opcode.mnemonic in OPCODES:
                return tree.replace(path, node.with_opcode(node.opcode.text.replace(node.opcode.mnemonic, NEW, 1)))
        return None


class Pyptx:
    name = "pyptx"

    def __init__(self) -> None:
        from pyptx.emitter import emit
        from pyptx.parser import parse

        self._parse, self._emit = parse, emit

    def read(self, text: str, /) -> Any:
        return self._parse(text)

    def printed(self, tree: Any) -> str | None:
        return str(self._emit(tree))

    def without_source(self, tree: Any) -> Any:
        import dataclasses

        return dataclasses.replace(tree, raw_source=None)

    def edited(self, tree: Any) -> Any:
        import dataclasses

        for at, directive in enumerate(tree.directives):
            for line, statement in enumerate(getattr(directive, "body", None) or ()):
                if getattr(statement, "opcode", None) in OPCODES:
                    new = dataclasses.replace(statement, opcode=NEW)
                    body = (*directive.body[:line], new, *directive.body[line + 1 :])
                    function = dataclasses.replace(directive, body=body)
                    return dataclasses.replace(tree, directives=(*tree.directives[:at], function, *tree.directives[at + 1 :]))
        return None


class PtxParser:
    name = "ptx-parser"

    def __init__(self) -> None:
        from ptx_parser import parse_ptx

        self._parse = parse_ptx

    def read(self, text: str, /) -> Any:
        return self._parse(text)

    def printed(self, tree: Any) -> str | None:
        return None

    def without_source(self, tree: Any) -> Any:
        return None

    def edited(self, tree: Any) -> Any:
        return None


def readers() -> list[Reader]:
    found: list[Reader] = [Ptxkit()]
    for kind in (Pyptx, PtxParser):
        try:
            found.append(kind())
        except ImportError:
            print(f"{kind.name} is not installed: left out", file=sys.stderr)
    return found


@attrs.frozen
class Outcome:
    reads: bool
    prints: bool | None
    without_source: bool | None
    edits: bool | None
    seconds: float
    error: str = ""


def outcome(reader: Reader, text: str) -> Outcome:
    """What one reader makes of one file. Whatever it raises counts as not read, or not printed."""
    start = time.process_time()
    try:
        tree = reader.read(text)
    except Exception as error:
        return Outcome(False, None, None, None, time.process_time() - start, f"{type(error).__name__}: {error}"[:120])
    seconds = time.process_time() - start
    if reader.printed(tree) is None:
        return Outcome(True, None, None, None, seconds)
    expected = re.compile(rf"^(\s*(?:@!?\S+\s+)?)(?:{'|'.join(OPCODES)})(?=\.)", re.MULTILINE).sub(rf"\1{NEW}", text, count=1)
    edited = reader.edited(tree)
    return Outcome(
        True,
        _prints(reader, tree, text),
        _prints(reader, reader.without_source(tree), text),
        _prints(reader, edited, expected) if edited is not None else None,
        seconds,
    )


def _prints(reader: Reader, tree: Any, expected: str) -> bool:
    try:
        return reader.printed(tree) == expected
    except Exception:
        return False


def share(values: list[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known)} of {len(known)}" if known else "no tree"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parent / "shared" / "corpus"
    arguments.add_argument("folder", nargs="?", type=Path, default=default if default.is_dir() else HERE / "fixtures" / "kernels")
    arguments.add_argument("--files", type=int, default=100)
    arguments.add_argument("--most", type=int, default=500_000, help="largest file that counts, bytes")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--record", type=Path)
    options = arguments.parse_args()
    paths = sorted(path for path in options.folder.rglob("*.ptx") if path.stat().st_size <= options.most)
    random.Random(options.seed).shuffle(paths)
    found: dict[str, list[Outcome]] = defaultdict(list)
    ratios: dict[str, list[float]] = defaultdict(list)
    every = readers()
    for path in paths[: options.files]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        outcomes = {reader.name: outcome(reader, text) for reader in every}
        again = {reader.name: min(outcomes[reader.name].seconds, outcome(reader, text).seconds) for reader in every}
        for name, one in outcomes.items():
            found[name].append(one)
            if one.reads and len(text) >= 10_000:
                ratios[name].append(again[name] / again["ptxkit"])
    size = sum(path.stat().st_size for path in paths[: options.files])
    print(f"{len(paths[: options.files])} files of {options.folder.name}, {size / 1e6:.1f} MB")
    for name, of in found.items():
        said = f"x{statistics.median(ratios[name]):.1f} over {len(ratios[name])} files" if ratios[name] else "-"
        shares = {
            "reads": share([one.reads for one in of]),
            "prints": share([one.prints for one in of]),
            "without the source": share([one.without_source for one in of]),
            "edits": share([one.edits for one in of]),
        }
        release = ptxkit.__version__ if name == "ptxkit" else version(name)
        print(f"{name} {release}: {'; '.join(f'{what} {many}' for what, many in shares.items())}; time {said}")
    if options.record:
        rows = {name: [attrs.asdict(one) for one in of] for name, of in found.items()}
        options.record.write_text(json.dumps({"files": [path.name for path in paths[: options.files]], "readers": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
