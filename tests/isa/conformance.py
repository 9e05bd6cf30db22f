"""How the table fares against statements of which ptxas's verdict is known.

    python tests/isa/conformance.py --section 9.7.1 --verbose

Reads ../shared/conformance and ../shared/spec/measured.tsv. A stop-gap: it cuts modules into statements with a little splitter of
its own, until the syntax tree does that.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ptxkit.isa import shapes  # noqa: E402
from ptxkit.isa.binding import Bound, bind, check_constants  # noqa: E402
from ptxkit.isa.forms import NotationError  # noqa: E402
from ptxkit.isa.mismatch import Mismatch  # noqa: E402
from ptxkit.isa.registers import special_register  # noqa: E402
from ptxkit.isa.requirements import every, satisfies  # noqa: E402
from ptxkit.isa.shapes import OperandShape  # noqa: E402
from ptxkit.isa.targets import parse_version, runs, targets  # noqa: E402
from ptxkit.isa.types import is_type  # noqa: E402

SHARED = ROOT.parent / "shared"
CLASSES = ("modifier", "operand-type", "immediate", "state-space", "target", "version")
TESTED_SPECIFIC = ["sm_90a", "sm_100f", "sm_100a", "sm_103f", "sm_103a", "sm_110f", "sm_110a", "sm_120f", "sm_120a", "sm_121f", "sm_121a"]
TESTED_BASE = [
    t.name for t in targets().values() if not t.suffix and not t.renamed and 20 <= t.number <= 121 and t.number not in (21, 88, 107)
]

# -- the stop-gap splitter

_COMMENT = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*|^\s*\.section\s[^{]*\{[^}]*\}', re.S | re.M)
_TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_$%.][\w$%.]*(?:::[\w.]+)*|0[fFdD][0-9a-fA-F]+|\d[\w.]*(?:[eE][+-]?\d+)?|\n|<<|>>|\S')
_LINE_DIRECTIVES = (".version", ".target", ".address_size", ".loc", ".file", ".pragma")
_SPACES = (".global", ".shared", ".const", ".local", ".param", ".tex")


@attrs.define
class Module:
    version: str = "9.0"
    target: str = "sm_90a"
    instructions: list[Instruction] = attrs.field(factory=list)


@attrs.define
class Instruction:
    opcode: str
    operands: tuple[OperandShape, ...]
    texts: list[str]
    guard: OperandShape | None

    def __str__(self) -> str:
        return f"{self.opcode} {', '.join(self.texts)}".strip()

    def value_at(self, path: tuple[int, ...]) -> float | None:
        text = self.texts[path[0]]
        for place in path[1:]:
            text = _split(text.strip()[1:-1])[place]
        text = text.replace(" ", "").rstrip("Uu")
        try:
            return int(text, 0) if not re.fullmatch(r"-?0\d+", text) else int(text, 8)
        except ValueError:
            pass
        if re.fullmatch(r"-?\d*\.\d*(e[+-]?\d+)?", text):
            return float(text)
        return None


def read_module(text: str) -> Module:
    module, names = Module(), dict[str, OperandShape]()
    for statement in _statements(text):
        head = statement[0]
        if head == ".version":
            module.version = statement[1]
        elif head == ".target":
            module.target = statement[1]
        elif head.startswith(".") or (len(statement) > 2 and statement[1] == ":" and statement[2].startswith(".")):
            _declare(statement, names)
            if len(statement) > 1 and statement[1] == ":":
                names[head] = shapes.LABEL
        else:
            while len(statement) > 1 and statement[1] == ":":
                names.setdefault(statement[0], shapes.LABEL)
                statement = statement[2:]
            if statement:
                module.instructions.append(_instruction(statement, names))
    return module


def _statements(text: str) -> Iterator[list[str]]:
    """Statements as lists of tokens, braces of blocks left out."""
    text = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)
    now: list[str] = []
    depth = 0
    for token in _TOKEN.findall(text):
        if token == "\n":
            if now and now[0] in _LINE_DIRECTIVES:
                yield now
                now = []
            continue
        if len(now) > 1 and now[0] in _LINE_DIRECTIVES and _ends_line(now[0], token):
            yield now
            now = []
            if token == ";":
                continue
        if token in _LINE_DIRECTIVES and now[1:] == [":"]:
            yield now
            now = []
        if token == "{" and _opens_block(now):
            if now:
                yield now
            now = []
            continue
        if token == "}" and depth == 0:
            if now:
                yield now
            now = []
            continue
        depth += (token == "{") - (token == "}")
        if token == ";" and depth == 0:
            if now:
                yield now
            now = []
            continue
        now.append(token)
    if now:
        yield now


def _opens_block(now: list[str]) -> bool:
    """Whether a brace behind these tokens opens a block, and not a vector or an initialiser."""
    return not now or now[-1] in (")", ":") or ("=" not in now and any(token in (".entry", ".func") for token in now))


def _ends_line(directive: str, token: str) -> bool:
    """Whether a token ends a directive without a semicolon: several may stand on one line."""
    if token == ";":
        return True
    return token.startswith(".") and directive not in (".loc", ".file", ".pragma") and not re.fullmatch(r"\.\d.*", token)


def _declare(statement: list[str], names: dict[str, OperandShape]) -> None:
    """Registers, variables, parameters and functions of a directive."""
    if any(t in (".entry", ".func") for t in statement):
        for place, token in enumerate(statement):
            if token in (".entry", ".func"):
                rest = statement[place + 1 :]
                if rest[:1] == ["("]:
                    rest = rest[rest.index(")") + 1 :]
                if rest:
                    names[rest[0]] = shapes.KERNEL if token == ".entry" else shapes.FUNCTION
        text = " ".join(statement)
        for inner in re.findall(r"\(([^()]*)\)", text):
            for part in inner.split(","):
                _declare(part.split(), names)
        return
    if not statement:
        return
    space, kind, count = "", "", 1
    skip = False
    expect_name = False
    for place, token in enumerate(statement):
        if skip:
            skip = False
        elif token == ".align":
            skip = True
        elif token in (".v2", ".v4", ".v8"):
            count = int(token[2:])
        elif token == ".reg" or (token.split("::")[0] in _SPACES and not space):
            space = token.split("::")[0]
        elif is_type(token):
            kind, expect_name = token, True
        elif token == ",":
            expect_name = True
        elif expect_name and re.match(r"[A-Za-z_$%]", token):
            expect_name = False
            made = shapes.register(kind, count) if space == ".reg" else shapes.symbol(space, kind)
            if statement[place + 1 : place + 2] == ["<"]:
                for number in range(min(int(statement[place + 2]), 1000)):
                    names[f"{token}{number}"] = made
            names[token] = made
        elif token == "=":
            return


def _instruction(statement: list[str], names: dict[str, OperandShape]) -> Instruction:
    guard = None
    if statement[0] == "@":
        negated = statement[1] == "!"
        guard = names.get(statement[2 if negated else 1], shapes.UNKNOWN)
        statement = statement[3 if negated else 2 :]
    opcode, rest = statement[0] if statement else "", statement[1:]
    while rest and rest[0].startswith(".") and len(rest[0]) > 1:
        opcode += rest.pop(0)
    text = _join(rest)
    texts = [t.strip() for t in _split(text)] if text else []
    lists = opcode.split(".")[0] == "call"
    return Instruction(opcode, tuple(_shape(t, names, lists) for t in texts), texts, guard)


def _join(tokens: list[str]) -> str:
    return " ".join(tokens)


def _split(text: str) -> list[str]:
    """At commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _shape(text: str, names: dict[str, OperandShape], lists: bool = False) -> OperandShape:
    text = text.strip()
    if text == "_":
        return shapes.SINK
    if match := re.fullmatch(r"(\{.*\})\s*\|\s*([\w$%.]+)", text):
        return shapes.pair(_shape(match[1], names), _shape(match[2], names))
    if text.startswith("["):
        inner = text[1 : text.rindex("]")]
        return shapes.address(*(_base(part, names) for part in _split(inner)))
    if text.startswith("{"):
        return shapes.vector(*(_shape(part, names) for part in _split(text[1:-1])))
    if lists and text.startswith("("):
        inner = text[1:-1].strip()
        return shapes.operands(*(_shape(part, names) for part in _split(inner))) if inner else shapes.operands()
    if (match := re.fullmatch(r"([\w$%.]+)\s*\|\s*(!?\s*[\w$%.]+)", text)) and not text[0].isdigit():
        return shapes.pair(_shape(match[1], names), _shape(match[2], names))
    if match := re.fullmatch(r"!\s*([A-Za-z_$%][\w$%.]*)", text):
        shape = _shape(match[1], names)
        return shapes.register(shape.type, 1, True) if shape.kind == "register" else shape
    if re.match(r"[-~!(+\d.]", text):
        return _constant(text)
    return _name(text, names)


def _constant(text: str) -> OperandShape:
    if re.search(r"(?<![\w])0[fF][0-9a-fA-F]{8}", text):
        return shapes.immediate("f32")
    if re.search(r"(?<![\w])0[dD][0-9a-fA-F]{16}|\d\.|\.\d|(?<![\w])\d+[eE][+-]?\d", text):
        return shapes.immediate("f64")
    return shapes.immediate("int")


def _name(text: str, names: dict[str, OperandShape]) -> OperandShape:
    name = re.match(r"[\w$%.]*", text)
    word = name[0] if name else text
    if word in names:
        return names[word]
    if word == "WARP_SZ":
        return shapes.immediate("int")
    if word.startswith("%") and special_register(word):
        return shapes.special(word)
    stem, _, component = word.rpartition(".")
    if component in ("x", "y", "z", "w", "r", "g", "b", "a") and stem in names:
        return shapes.register(names[stem].type)
    return shapes.UNKNOWN


def _base(text: str, names: dict[str, OperandShape]) -> OperandShape:
    text = text.strip()
    if text.startswith("{"):
        return _shape(text, names)
    return _shape(re.split(r"\s*[+]|\s+-", text, maxsplit=1)[0] if not text[:1].isdigit() else text, names)


# -- the comparison


@attrs.define
class Finding:
    file: str
    section: str
    about: str
    text: str


def judge(module: Module) -> list[Finding]:
    """What is wrong with a module, as far as the table can tell."""
    found = []
    for instruction in module.instructions:
        bound = bound_of(instruction)
        wrong = bound if isinstance(bound, Mismatch) else check_constants(bound, instruction.value_at)
        if wrong is not None:
            found.append(Finding("", "", wrong.kind, f"{instruction}: {wrong.message}"))
        elif isinstance(bound, Bound):
            about = _availability(bound, module)
            if about:
                found.append(Finding("", "", "availability", f"{instruction}: {about}"))
    return found


def bound_of(instruction: Instruction) -> Bound | Mismatch:
    """What binding says; an entry that cannot be read counts as not written yet."""
    try:
        return bind(instruction.opcode, instruction.operands)
    except NotationError as error:
        if str(error) not in _BROKEN:
            _BROKEN.add(str(error))
            print(f"broken entry: {error}")
        return Mismatch("unknown-opcode", str(error), None)


_BROKEN: set[str] = set()


def unknown(found: Bound | Mismatch) -> bool:
    """Whether the mnemonic is not in the table (its chapter may not be written yet)."""
    return isinstance(found, Mismatch) and found.kind == "unknown-opcode"


def _availability(bound: Bound, module: Module) -> str:
    if module.target not in targets():
        return f"unknown target {module.target}"
    version = parse_version(module.version)
    if not satisfies(version, module.target, bound.requirement):
        return f"needs {bound.requirement}, not {module.target} with {module.version}"
    for removed in bound.removed:
        if version >= removed.version and (removed.target is None or runs(module.target, removed.target.target)):
            return f"removed in {removed.version}"
    return ""


@cache
def rows(name: str) -> list[dict[str, str]]:
    with (SHARED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def in_section(section: str, wanted: str) -> bool:
    return not wanted or section == wanted or section.startswith((wanted.rstrip(".") + ".", wanted + "-"))


@cache
def module_of(path: Path) -> Module:
    return read_module(path.read_text(encoding="utf-8", errors="replace"))


def mnemonics_of(section: str) -> set[str]:
    """The mnemonics that a section is about: those in at least half of its accepted statements."""
    counts: Counter[tuple[str, str]] = Counter()
    sections = Counter(row["section"] for row in rows("conformance/accept.tsv") if in_section(row["section"], section))
    for row in rows("conformance/accept.tsv"):
        if row["section"] in sections:
            counts.update({(row["section"], word) for word in re.findall(r"(?:^|;)\s*(?:@\S+\s+)?([a-z]\w*)[.\s;]", row["statement"])})
    return {word for (where, word), n in counts.items() if 2 * n >= sections[where]}


def rejected(section: str, mnemonics: set[str]) -> Iterator[dict[str, str]]:
    """Rejected modules of a section; those without a section by the mnemonic of the mistake."""
    for row in rows("conformance/reject.tsv"):
        if row["class"] not in CLASSES:
            continue
        if row["section"] not in ("", "-"):
            if in_section(row["section"], section):
                yield row
            continue
        opcode = row["mistake"].rpartition(" -- ")[2]
        if not section or opcode.partition(".")[0] in mnemonics:
            yield row


def compare_accepted(section: str) -> tuple[int, list[Finding]]:
    total, wrong = 0, []
    for row in rows("conformance/accept.tsv"):
        if not in_section(row["section"], section):
            continue
        total += 1
        for finding in judge(module_of(SHARED / "conformance/accept" / row["file"])):
            wrong.append(attrs.evolve(finding, file=row["file"], section=row["section"]))
    return total, wrong


def compare_rejected(section: str) -> tuple[int, list[Finding], list[Finding]]:
    total, missed, found = 0, [], []
    mnemonics = mnemonics_of(section)
    for row in rejected(section, mnemonics):
        total += 1
        module = module_of(SHARED / "conformance/reject" / row["file"])
        findings = [f for f in judge(module) if f.about != "unknown-opcode"]
        about = f"{row['class']}: {row['mistake']}"
        said = row["first_error"].partition(";")[2].strip()
        if not findings:
            last = module.instructions[-2:-1] or module.instructions[-1:]
            texts = " / ".join(str(i) for i in last)
            missed.append(Finding(row["file"], row["section"], about, f"{texts}   [{said}]"))
        else:
            found.append(Finding(row["file"], row["section"], about, f"{findings[0].text}   [{said}]"))
    return total, missed, found


def compare_measured(section: str) -> tuple[int, list[Finding]]:
    """Where the minimum version and target differ from those that ptxas was measured to accept."""
    total, wrong = 0, []
    for row in rows("spec/measured.tsv"):
        path = SHARED / "conformance/accept" / row["file"]
        if not in_section(row["section"], section) or not path.exists():
            continue
        module = module_of(path)
        bounds = [bound_of(i) for i in module.instructions]
        if not all(isinstance(b, Bound) or (unknown(b) and i.opcode == "ret") for b, i in zip(bounds, module.instructions, strict=True)):
            continue
        total += 1
        needed = every(b.requirement for b in bounds if isinstance(b, Bound))
        base = next((t for t in TESTED_BASE if needed.version_for(t)), "")
        specific = [] if base else [t for t in TESTED_SPECIFIC if needed.version_for(t)]
        first = base or next(iter(row["specific_targets_accepting"].split()), "") or next(iter(specific), "")
        version = needed.version_for(first) if first else None
        least = max(version, (2, 3)) if version else None
        ours = (base, " ".join(specific), f"{least[0]}.{least[1]}" if least else "-")
        theirs = (
            row["min_base_target"],
            " ".join(t for t in TESTED_SPECIFIC if t in row["specific_targets_accepting"].split()),
            row["min_version_at_that_target"],
        )
        if ours != theirs:
            text = f"{row['statement'][:100]}: table {' '.join(filter(None, ours))}; ptxas {' '.join(filter(None, theirs))}"
            wrong.append(Finding(row["file"], row["section"], "minimum", text))
    return total, wrong


def show(title: str, findings: list[Finding], total: int, verbose: bool, limit: int) -> None:
    files = {f.file for f in findings}
    print(f"{title}: {len(files)} of {total}")
    for finding in findings if verbose else findings[:limit]:
        print(f"  {finding.file} §{finding.section} ({finding.about}) {finding.text}")
    if not verbose and len(findings) > limit:
        print(f"  … and {len(findings) - limit} more (--verbose)")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", default="", help="a section, with those below it, as 9.7.1 or N:9.7.9; all if left out")
    parser.add_argument("--mnemonic", default="", help="of the rejected modules, only those whose mistake is with this mnemonic")
    parser.add_argument("--verbose", action="store_true", help="everything, not the first few")
    parser.add_argument("--messages", action="store_true", help="also what is said of the mistakes that are found")
    parser.add_argument("--limit", type=int, default=15)
    parser.add_argument("--per-section", action="store_true", help="one line a section")
    given = parser.parse_args(arguments)
    if given.per_section:
        return per_section(given.section)
    total, wrong = compare_accepted(given.section)
    absent = [f for f in wrong if f.about == "unknown-opcode"]
    missing = Counter(f.text.partition(":")[0].split()[0].partition(".")[0] for f in absent)
    if missing:
        print(f"not in the table yet: {', '.join(f'{m} ({n})' for m, n in missing.most_common())}")
    show("accepted by ptxas, error here", [f for f in wrong if f.about != "unknown-opcode"], total, given.verbose, given.limit)
    total, missed, found = compare_rejected(given.section)
    show("rejected by ptxas, nothing found here", missed, total, given.verbose, given.limit)
    if given.messages:
        show("rejected by ptxas, found here", found, total, given.verbose, given.limit)
    total, wrong = compare_measured(given.section)
    show("minimum version or target differs", wrong, total, given.verbose, given.limit)
    return 0


def per_section(wanted: str) -> int:
    """One line a section: false errors, misses, differing minima."""
    sections = sorted({r["section"] for r in rows("conformance/accept.tsv")}, key=_section_key)
    print(f"{'section':28} {'false':>12} {'missed':>12} {'minima':>12}")
    for section in sections:
        if not in_section(section, wanted):
            continue
        accepted, wrong = compare_accepted(section)
        total, missed, _ = compare_rejected(section)
        measured, differ = compare_measured(section)
        wrong = [f for f in wrong if f.about != "unknown-opcode"]
        counts = [(len({f.file for f in wrong}), accepted), (len(missed), total), (len(differ), measured)]
        print(f"{section:28} " + " ".join(f"{f'{n}/{of}':>12}" for n, of in counts))
    return 0


def _section_key(section: str) -> tuple[list[int], str]:
    return [int(n) for n in re.findall(r"\d+", section)], section


if __name__ == "__main__":
    raise SystemExit(main())
