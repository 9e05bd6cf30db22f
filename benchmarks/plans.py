"""Works out the plans of the commonest shapes of statements: `python benchmarks/plans.py [FOLDER] [--least FILES]`.

Writes `ptxkit/syntax/plans.json` with the plan of each shape that at least so many files of the folder have, up to 300 kB each. Without a
folder, those that it has are worked out anew: to be done when the grammar changes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from unittest import mock

from ptxkit import files
from ptxkit.syntax import Node, parse, plans, shapes
from ptxkit.syntax.plans import Key, Plan, Slot

PLACE = Path(plans.__file__).with_name("plans.json")
MOST_BYTES = 300_000
MOST_PIECES = 60
"""Longer shapes, of which few files have the same one, would make the most of the file."""


HEADERS = [f"{linkage}{kind} f()" for linkage in ("", ".visible ") for kind in (".entry", ".func")]
TYPES = (".pred", ".b16", ".b32", ".b64", ".u32", ".u64", ".s32", ".s64", ".f32", ".f64")
LISTS = ["", *[", ".join([f".param {type_} p"] * count) for type_ in (".u64", ".u32", ".b64", ".b32") for count in (1, 2, 3)]]
LISTS += [f".param .u64 p, .param {type_} p" for type_ in (".u32", ".b32")]
REGISTERS = [f".reg {type_} {names};" for type_ in TYPES for names in ("a", "a, a", "a, a, a", "a<1>")]
SHORT = "".join([header + body for header in HEADERS for body in (" {}\n", "\n{\n}\n")])
SHORT += "".join([f"{kind} f({parameters}) {{}}\n" for kind in (".entry", ".visible .entry") for parameters in LISTS])
SHORT += "".join([f"{register}\n" for register in REGISTERS])
"""What short examples, as people write them by hand, begin with."""


def met(text: str) -> set[tuple[str, Key]]:
    """The rules and shapes that parsing a text asks for."""
    asked: set[tuple[str, Key]] = set()
    plan = shapes.plan

    def noted(rule: str, key: Key) -> object:
        asked.add((rule, key))
        return plan(rule, key)

    with mock.patch.object(shapes, "plan", noted):
        parse(text)
    return asked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--least", type=int, default=3)
    asked = parser.parse_args()
    wanted = [*met(SHORT), *(plans.shapes() if asked.folder is None else ())]
    if asked.folder is not None:
        paths = [path for path in sorted(asked.folder.rglob("*.ptx")) if path.stat().st_size < MOST_BYTES]
        count = Counter(found for path in paths for found in met(files.read(str(path))))
        wanted += [found for found, number in count.items() if number >= asked.least]
    wanted = [found for found in dict.fromkeys(wanted) if len(found[1]) <= MOST_PIECES]
    made = {(rule, key): plan for rule, key in wanted if isinstance(plan := shapes.by_grammar(rule, key), Plan | Slot | Node)}
    PLACE.write_text(plans.written(made), "utf-8")
    print(f"{len(made)} plans in {PLACE}")


if __name__ == "__main__":
    main()
