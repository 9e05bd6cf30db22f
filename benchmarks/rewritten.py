"""Planted bugs, and correct code, written in other words: the rules must say the same of them.

    python benchmarks/rewritten.py [--only WAY,…] [--every N] [--corpus FOLDER [--largest BYTES] [--budget SECONDS]]

Each pair of `../shared/lint` is written anew in each of the ways below, none of which changes what the program does: an address is added up
beforehand, a condition is turned round, blocks stand in another order, shared variables lie in one. Counted is how many of the bugs their
rule still finds, and how much of the correct code gets an error or warning. A text that is invalid after it (an instruction that the target
does not have, say) does not count.

With `--corpus` the same is done to real files, in an order drawn by lot: all errors and warnings that a file gets more or less than as it
was are printed.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from facts import read

from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.linting.linting import lint
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.memo import collect_when_due
from ptxkit.names import Kind, Scope, resolve
from ptxkit.rewriters.engine.rewrite import Refused
from ptxkit.rewriters.noop_probe import noop_probe
from ptxkit.rewriters.rename import rename
from ptxkit.rewriters.renumber import renumber
from ptxkit.syntax import Block, Function, Index, Instruction, Label, Module, parse
from ptxkit.syntax import Path as Place

ROOT = Path(__file__).resolve().parent.parent
LINT = ROOT.parent / "shared" / "lint"
ALIASES = {"R001m": "R008", "R001s": "R008"}
"""Classes of planted bugs that a rule of another id finds (docs/rules/not-done.md)."""

ADDRESS = re.compile(r"\[(%?[\w$]+)(?:\s*\+\s*(-?\d+))?\]")
NUMBER = re.compile(r"(?<=[\s,])(-?\d+)(?=\s*[,;])")
ARITHMETIC = re.compile(r"(?:add|sub|mul\.lo|mad\.lo|setp|and|or|xor|min|max)\b.*\.[sub](32|64)$")
SETP = re.compile(r"setp\.(lt|ge|gt|le|eq|ne)\.([usb]\d\d)\s+(%?[\w$]+),(.*)$", re.S)
INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
SHARED = re.compile(r"^[ \t]*\.shared\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+([\w$%]+)(?:\[(\d+)\])?\s*;", re.M)


class Writer:
    """What an instruction is written with: new registers, and the types of those that there are."""

    def __init__(self) -> None:
        self.count = 0
        self.declared: list[str] = []
        self.scope: Scope | None = None

    def fresh(self, type_: str) -> str:
        """A new register."""
        self.count += 1
        self.declared.append(f"\t.reg {type_} %zz{self.count};")
        return f"%zz{self.count}"

    def width(self, name: str) -> str:
        """`32` or `64` for a register of so many bits, else nothing."""
        symbol = self.scope.lookup(name) if self.scope is not None else None
        is_register = symbol is not None and symbol.kind is Kind.REGISTER and symbol.vector <= 1
        width = (symbol.type or "")[-2:] if symbol is not None and is_register else ""
        return width if width in ("32", "64") else ""


Way = Callable[[str, Writer], str]


def instructions(module: Module) -> Iterator[tuple[int, Instruction, int, Scope]]:
    """The instructions of a module with their functions, offsets and scopes."""
    names, index = resolve(module), Index(module)

    def within(block: Block, path: Place) -> Iterator[tuple[Instruction, int, Scope]]:
        for i, child in enumerate(block.children):
            if isinstance(child, Instruction):
                yield child, index.offset((*path, i)), names.scopes[path]
            elif isinstance(child, Block):
                yield from within(child, (*path, i))

    for place, function in enumerate(module.children):
        if isinstance(function, Function) and function.body is not None:
            for instruction, offset, scope in within(function.body, (place, 1)):
                yield place, instruction, offset, scope


def each(text: str, way: Way) -> str:
    """A module of which each instruction is written in another way."""
    module = parse(text)
    index, writer = Index(module), Writer()
    edits: list[tuple[int, int, str]] = []
    declared: dict[int, list[str]] = defaultdict(list)
    for function, instruction, offset, scope in instructions(module):
        writer.scope, writer.declared = scope, declared[function]
        own = instruction.text[len(instruction.leading) :]
        new = way(own, writer)
        if new != own:
            edits.append((offset, offset + len(own), new))
    for function, lines in declared.items():
        if lines:
            at = text.index("{", index.offset((function, 1))) + 1
            edits.append((at, at, "\n" + "\n".join(lines)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _addressed(own: str, put: Callable[[re.Match[str], list[str]], str]) -> str:
    """An instruction whose addresses are written otherwise, behind what makes them. Parameters are left alone."""
    if re.search(r"\bcall\b|\.param\b|\.const\b|\bmov\b", own):
        return own
    before: list[str] = []
    new = ADDRESS.sub(lambda found: put(found, before), own)
    return "\n\t".join([*before, new])


def added(own: str, writer: Writer) -> str:
    """`[%a+8]` is added up in a register."""

    def put(found: re.Match[str], before: list[str]) -> str:
        width = writer.width(found[1])
        if not width:
            return found[0]
        sum_ = writer.fresh(f".b{width}")
        before.append(f"add.s{width} {sum_}, {found[1]}, {found[2] or 0};")
        return f"[{sum_}]"

    return _addressed(own, put)


def copied(own: str, writer: Writer) -> str:
    """Addresses are copied."""

    def put(found: re.Match[str], before: list[str]) -> str:
        width = writer.width(found[1])
        if not width:
            return found[0]
        copy = writer.fresh(f".b{width}")
        before.append(f"mov.b{width} {copy}, {found[1]};")
        return f"[{copy}+{found[2] or 0}]"

    return _addressed(own, put)


def named(own: str, writer: Writer) -> str:
    """Variables are addressed through registers."""

    def put(found: re.Match[str], before: list[str]) -> str:
        if writer.width(found[1]) or found[1].startswith("%"):
            return found[0]
        copy = writer.fresh(".b64")
        before.append(f"mov.b64 {copy}, {found[1]};")
        return f"[{copy}+{found[2] or 0}]"

    return _addressed(own, put)


def generic(own: str, writer: Writer) -> str:
    """Shared memory is read and written through generic addresses."""
    access = re.match(r"((?:@!?%?[\w$]+\s+)?(?:ld|st)(?:\.volatile)?)\.shared((?:\.\w+)+\s.*)$", own, re.S)
    if access is None or "::" in own:
        return own

    def put(found: re.Match[str], before: list[str]) -> str:
        name, width = found[1], writer.width(found[1])
        if not width and name.startswith("%"):
            return found[0]
        if width != "64":
            wide = writer.fresh(".b64")
            before.append(f"cvt.u64.u32 {wide}, {name};" if width else f"mov.b64 {wide}, {name};")
            name = wide
        address = writer.fresh(".b64")
        before.append(f"cvta.shared.u64 {address}, {name};")
        return f"[{address}+{found[2] or 0}]"

    return _addressed(access[1] + access[2], put)


def numbers(own: str, writer: Writer) -> str:
    """Numbers stand in registers."""
    found = ARITHMETIC.match(re.sub(r"^@!?%?[\w$]+\s+", "", own).split()[0])
    if found is None:
        return own
    before: list[str] = []

    def put(number: re.Match[str]) -> str:
        register = writer.fresh(f".b{found[1]}")
        before.append(f"mov.b{found[1]} {register}, {number[1]};")
        return register

    new = NUMBER.sub(put, own)
    return "\n\t".join([*before, new])


def branches(own: str, writer: Writer) -> str:
    """A branch leads round another one."""
    found = re.match(r"@(!?)(%?[\w$]+)\s+bra\s+([\w$]+)\s*;", own)
    if found is None:
        return own
    writer.count += 1
    label = f"$ZZ{writer.count}"
    return f"@{'' if found[1] else '!'}{found[2]} bra {label};\n\tbra {found[3]};\n{label}:"


def guards(own: str, writer: Writer) -> str:
    """Guards are turned round."""
    found = re.match(r"@(!?)(%?[\w$]+)(\s+)", own)
    if found is None:
        return own
    other = writer.fresh(".pred")
    return f"not.pred {other}, {found[2]};\n\t@{'' if found[1] else '!'}{other}{found[3]}{own[found.end() :]}"


def inverse(own: str, writer: Writer) -> str:
    """Comparisons are turned round."""
    found = SETP.match(own)
    if found is None:
        return own
    other = writer.fresh(".pred")
    return f"setp.{INVERSE[found[1]]}.{found[2]} {other},{found[4]}\n\tnot.pred {found[3]}, {other};"


def selected(own: str, writer: Writer) -> str:
    """What a comparison says becomes a number."""
    found = SETP.match(own)
    if found is None:
        return own
    first, number = writer.fresh(".pred"), writer.fresh(".b32")
    said = f"setp.{found[1]}.{found[2]} {first},{found[4]}"
    return f"{said}\n\tselp.b32 {number}, 1, 0, {first};\n\tsetp.ne.b32 {found[3]}, {number}, 0;"


def shifts(own: str, writer: Writer) -> str:
    """Shifts and masks become products, quotients and remainders."""
    found = re.match(r"(shl\.b|shr\.u|and\.b)(32|64)\s+(%?[\w$]+), (%?[\w$]+), (\d+);", own)
    if found is None:
        return own
    number = int(found[5])
    if found[1] == "and.b":
        return own if number & number + 1 else f"rem.u{found[2]} {found[3]}, {found[4]}, {number + 1};"
    operation = "mul.lo.u" if found[1] == "shl.b" else "div.u"
    return f"{operation}{found[2]} {found[3]}, {found[4]}, {1 << number};"


def sums(own: str, writer: Writer) -> str:
    """Sums become differences, and products with one."""
    found = re.match(r"add\.s(32|64)\s+(%?[\w$]+), (%?[\w$]+), (-?\d+|%[\w$]+);", own)
    if found is None:
        return own
    if found[4].startswith("%"):
        return f"mad.lo.s{found[1]} {found[2]}, {found[4]}, 1, {found[3]};"
    return f"sub.s{found[1]} {found[2]}, {found[3]}, {-int(found[4])};"


def places(own: str, writer: Writer) -> str:
    """`%tid.x` goes through 64 bits."""
    found = re.match(r"mov\.[bus]32\s+(%?[\w$]+), %tid\.x;", own)
    if found is None:
        return own
    narrow, wide = writer.fresh(".b32"), writer.fresh(".b64")
    return f"mov.u32 {narrow}, %tid.x;\n\tcvt.u64.u32 {wide}, {narrow};\n\tcvt.u32.u64 {found[1]}, {wide};"


def barriers(own: str, writer: Writer) -> str:
    """`bar.sync` is `barrier.cta.sync.aligned`, and the other way round."""
    new = re.sub(r"^((?:@!?%?[\w$]+\s+)?)bar\.(sync|arrive)\b", r"\1barrier.cta.\2.aligned", own)
    return new if new != own else re.sub(r"^((?:@!?%?[\w$]+\s+)?)barrier\.(?:cta\.)?(sync|arrive)\.aligned", r"\1bar.\2", own)


def scoped(text: str) -> str:
    """Bodies stand in a block of their own."""
    module = parse(text)
    index = Index(module)
    for place in reversed(range(len(module.children))):
        function = module.children[place]
        if isinstance(function, Function) and function.body is not None:
            start = text.index("{", index.offset((place, 1)))
            end = start + len(function.body.text.strip()) - 1
            text = f"{text[:start]}{{{{{text[start + 1 : end]}}}\n\tret;\n}}{text[end + 1 :]}"
    return text


def moved(text: str) -> str:
    """The blocks behind the first label stand in the opposite order."""
    module = parse(text)
    index = Index(module)
    for place in reversed(range(len(module.children))):
        function = module.children[place]
        if not isinstance(function, Function) or function.body is None:
            continue
        children = function.body.children
        items = [(child, index.offset((place, 1, i)), child.text[len(child.leading) :]) for i, child in enumerate(children)]  # type: ignore[attr-defined]
        starts = [i for i, (child, _, _) in enumerate(items) if isinstance(child, Label)]
        unmoved = any(isinstance(child, Block) or re.match(r"\.(branchtargets|callprototype|pragma|loc)", said) for child, _, said in items)
        if len(starts) < 2 or unmoved:
            continue
        groups = [items[start:end] for start, end in zip(starts, [*starts[1:], len(items)], strict=True)]
        names = [group[0][2].rstrip(":").strip() for group in groups]
        blocks = []
        for group, after in zip(groups, [*names[1:], ""], strict=True):
            ends = re.match(r"(ret|exit|bra|brx\.idx|trap)\b", group[-1][2])
            on = "" if ends else f"\n\tbra {after};" if after else "\n\tret;"
            blocks.append("\n\t".join([said for _, _, said in group]) + on)
        start, end = items[starts[0]][1], items[-1][1] + len(items[-1][2])
        text = f"{text[:start]}\n\tbra {names[0]};\n" + "\n".join(reversed(blocks)) + text[end:]
    return text


def packed(text: str, *, is_open: bool = False) -> str:
    """The shared variables lie in one, which may have no declared size."""
    found = list(SHARED.finditer(text))
    offsets: dict[str, int] = {}
    at = 0
    for one in found:
        size = int(one[2]) // 8
        align = max(int(one[1] or 1), size)
        at = (at + align - 1) // align * align
        offsets[one[3]] = at
        at += size * int(one[4] or 1)
    if not offsets or len(offsets) < len(found) or ".extern .shared" in text:
        return text
    for one in reversed(found):
        text = text[: one.start()] + text[one.end() :]
    head = re.search(r"^\.address_size.*$", text, re.M)
    if head is None:
        return text
    declared = ".extern .shared .align 1024 .b8 zz_all[];" if is_open else f".shared .align 1024 .b8 zz_all[{at}];"
    text = f"{text[: head.end()]}\n{declared}{text[head.end() :]}"
    names = "|".join([re.escape(name) for name in sorted(offsets, key=len, reverse=True)])
    text = re.sub(rf"(?<![\w$%.])({names})(?![\w$])", lambda name: f"zz_all+{offsets[name[1]]}", text)
    return re.sub(r"zz_all\+(\d+)\+(\d+)", lambda sum_: f"zz_all+{int(sum_[1]) + int(sum_[2])}", text)


WAYS: dict[str, Callable[[str], str]] = {
    "renumber": lambda text: renumber(parse(text)).module.text,
    "rename": lambda text: rename(parse(text), prefix="zz_", what="all").module.text,
    "noop-probe": lambda text: noop_probe(parse(text)).module.text,
    **{
        way.__name__: lambda text, way=way: each(text, way)  # type: ignore[misc]
        for way in (
            *(added, copied, named, generic, numbers, branches, guards, inverse),
            *(selected, shifts, sums, places, barriers),
        )
    },
    "scoped": scoped,
    "moved": moved,
    "packed": packed,
    "packed, of open size": lambda text: packed(text, is_open=True),
}


def findings(text: str, *selection: str) -> list[Diagnostic]:
    """What the rules say of a text."""
    return list(lint(parse(text), select(selection)))


def invalid(found: list[Diagnostic]) -> int:
    """How many say that the text is not valid PTX of its version and target."""
    return sum([one.rule[0] in "EV" and one.severity is Severity.ERROR for one in found])


def loud(found: list[Diagnostic]) -> Counter[str]:
    """The errors and warnings by rule."""
    return Counter([one.rule for one in found if one.severity is not Severity.INFO])


def pairs(ways: list[str], every: int = 1) -> bool:
    """Prints, for each way, how many bugs are found and how much correct code is reported. Whether none is missed or false."""
    with (LINT / "cases.tsv").open(encoding="utf-8") as lines:
        cases = list(csv.DictReader(lines, delimiter="\t"))
    fine = True
    for number, name in enumerate(ways):
        counts: Counter[str] = Counter()
        for case in cases[number % every :: every]:
            rule = case["bug_class"].split()[0]
            for kind, selection in (("bad", ("ALL",)), ("good", ())):
                text = read(LINT / f"{case['name']}.{kind}.ptx")
                new = WAYS[name](text)
                if new == text:
                    continue
                found = findings(new, *selection)
                if invalid(found) > invalid(findings(text, "E", "V")):
                    counts["invalid"] += 1
                    continue
                counts[kind] += 1
                if kind == "bad" and not any(one.rule == ALIASES.get(rule, rule) for one in found):
                    print(f"  {name}: {case['name']}: {rule} is not found")
                    counts["missed"] += 1
                elif kind == "good" and loud(found):
                    print(f"  {name}: {case['name']}: {', '.join(loud(found))} is reported")
                    counts["false"] += 1
        said = f"{counts['bad'] - counts['missed']} of {counts['bad']} bugs found, {counts['false']} of {counts['good']} correct reported"
        print(f"{name:22} {said}" + (f", {counts['invalid']} invalid" if counts["invalid"] else ""), flush=True)
        fine &= not counts["missed"] and not counts["false"]
    return fine


def corpus(folder: Path, ways: list[str], largest: int, budget: float) -> bool:
    """Prints what is said otherwise of real files. Whether nothing is."""
    paths = sorted([path for path in folder.rglob("*.ptx") if path.stat().st_size <= largest])
    random.Random(1).shuffle(paths)
    end = time.monotonic() + budget
    texts = done = 0
    fine = True
    for path in paths:
        if time.monotonic() > end:
            break
        text = read(path)
        before = findings(text)
        done += 1
        for name in ways:
            try:
                new = WAYS[name](text)
            except Refused:
                continue
            if new == text:
                continue
            found = findings(new)
            if invalid(found) > invalid(before):
                continue
            texts += 1
            more, less = loud(found) - loud(before), loud(before) - loud(found)
            if more or less:
                fine &= not more
                print(f"  {path.name}: {name}: more {dict(more)}, less {dict(less)}", flush=True)
        collect_when_due()
    print(f"{texts} texts made of {done} files")
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--largest", type=int, default=60_000)
    parser.add_argument("--budget", type=float, default=600)
    asked = parser.parse_args()
    ways = [name for name in WAYS if not asked.only or name in asked.only.split(",")]
    sys.exit(not (corpus(asked.corpus, ways, asked.largest, asked.budget) if asked.corpus else pairs(ways, asked.every)))


if __name__ == "__main__":
    main()
