"""Random small texts through parse, lint (with the checks), and fmt: none may crash, hang, or lose a byte.

    python benchmarks/fuzz.py --record FILE [--inputs 2000000] [--seconds SECONDS] [--jobs N] [--show]
    python benchmarks/fuzz.py --again SLICE:NUMBER      # one input once more, printed

Inputs are made of real statements (fixtures, examples of rules and of the instruction table, and the reference corpus where it is there),
of a grammar, and of raw bytes; then they are mutated. Each is known by its slice and its number there, so a failure can be made again. A
slice of 1,000 is one line of JSON in the record, and a later run does those that are missing. Of each input:

* parsing raises nothing, and printing gives the same text;
* all rules are applied, none raises, and every finding lies in the text;
* where all can be read as PTX, `fmt` gives a text with the same characters and syntax errors (what stands in the wrong place), which it
  leaves as it is when asked again;
* all this takes less than five seconds of the processor, and four gigabytes.

Exit status 1 if some input fails.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from ptxkit import files, formatter
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import all_rules, in_module
from ptxkit.diagnostics import Severity
from ptxkit.isa.forms import Form
from ptxkit.isa.table import all_forms
from ptxkit.syntax import Module, parse

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SLICE = 1_000
LIMIT = 5.0
MEMORY = 4 * 2**30
SAMPLED = 150_000
"""So many bytes are taken from the start of each real file."""

HEADERS = (
    ".version 8.7\n.target sm_90a\n.address_size 64\n",
    ".version 8.7\n.target sm_100a\n.address_size 64\n",
    ".version 7.0\n.target sm_80\n.address_size 64\n",
    ".version 6.0\n.target sm_30, debug\n.address_size 32\n",
    "",
)
REGISTERS = (
    ".reg .pred %p<9>, p, q;\n.reg .b16 %rs<9>;\n.reg .b32 %r<99>, a, b;\n.reg .b64 %rd<99>, d;\n.reg .f32 %f<99>;\n.reg .f64 %fd<9>;\n"
    ".shared .align 128 .b8 tile[4096];\n.shared .b64 bar;\n"
)
WORDS = r"""
    { } ( ) [ ] < > , ; : + - * / % & | ^ ~ ! = ? . @ # $ _ \ " ' -- // /* */ && == << >>=
    .reg .shared .global .param .const .local .entry .func .visible .extern .align .b32 .u64 .f16x2 .pred .v4 .b8 .loc .file
    .section .pragma .branchtargets .calltargets .callprototype .alias .maxntid .reqntid .version .target .weak .common
    0 1 -1 0x 0xffffffffffffffff 0f3f800000 0d3ff0000000000000 1e999 099 0b1 4294967296 99999999999999999999 1.5 U
    %tid.x %laneid %warpid %ctaid %clock64 %r1 %r2 %rd1 %f1 %p1 %p0 tile bar WARP_SZ generic mask
    bra ret exit call bar.sync mbarrier.init cp.async.commit_group wgmma.fence.sync.aligned ld.global st.shared elect.sync
"""
COMMENTS = ("// ptxkit: ignore[C001]\n", "/* ptxkit: ignore[ALL] */", "// begin inline asm\n", "// end inline asm\n")
TOKENS = (*WORDS.split(), *COMMENTS, "\0", "\t", "\r", "\n", "\r\n", "\n\n", "\u00e9", "\udcff", "\ufeff")
ENTRIES = (".visible .entry k(.param .u64 p, .param .u32 n)", ".entry k()\n.reqntid 128", ".func (.reg .b32 r) f(.reg .b32 x)")
LIMITS = ("", "\n.maxntid 128, 1, 1", "\n.reqntid 32\n.maxnreg 64", "\n.minnctapersm 1", "\n.reqnctapercluster 2")
SPACES = (".global", ".const", ".shared", ".extern .shared", ".visible .global", ".weak .global", ".common .global")
TYPES = (".b8", ".u32", ".f32", ".b64", ".v4 .f32", ".align 16 .b8", ".attribute(.managed) .u32", ".texref", ".pred")
SIZES = ("", "[4]", "[]", "[2][2]", "[0]", "[1+2]", "[-1]")
VALUES = ("", " = 1", " = {1, 2}", " = {{1}, {2, 3}}", " = generic(k)", " = {k, 0f00000000}", " = mask(0xff) + 1")
DIRECTIVES = ('.file 1 "a.cu"', '.pragma "nounroll";', ".alias f, g;", ".section .debug_str { .b8 1, 2\n.b32 L }", ".func f();")
PARAMETERS = (".param .u64 p", ".param .u64 .ptr .global .align 8 p", ".param .align 16 .b8 p[32]", ".reg .f32 p", "")
JUMPS = ("call f;", "call (%r1), f, (%r2);", "call (a), %rd1, (b), proto;", "brx.idx %r1, ts;", "ret;", "exit;")
LISTS = ("ts: .branchtargets L, M;", "proto: .callprototype (.param .b32 _) _ (.param .b64 _);", ".loc 1 2 3")
LEAVES = ("0", "1", "-1", "31", "0xffffffff", "0f3f800000", "tile", "bar", "p", "n", "%tid.x", "%laneid", "1.5", "L")


class TookTooLong(BaseException):
    """The limit of time has passed. No Exception, so that nothing takes it for one of its own."""


# --- what inputs are made of


@functools.cache
def statements() -> tuple[str, ...]:
    """Lines of real files that hold a statement or a label, each shape once, in the order of the files."""
    paths = sorted((ROOT / "fixtures").rglob("*.ptx")) + sorted(CORPUS.rglob("*.ptx"))[::12]
    lines: dict[str, str] = {}
    digits = str.maketrans("0123456789", "##########")
    for path in paths:
        with path.open("rb") as file:
            for line in files.decode(file.read(SAMPLED)).split("\n"):
                if len(line) < 200 and line.rstrip().endswith((";", ":")):
                    lines.setdefault(line.translate(digits), line)
    for form in forms():
        lines.update((example, f"{example};" if ";" not in example else example) for example in form.examples)
    return tuple(lines.values())


@functools.cache
def forms() -> tuple[Form, ...]:
    """The instruction table."""
    return tuple(all_forms())


@functools.cache
def examples() -> tuple[str, ...]:
    """The examples of the rules."""
    return tuple([_whole(text) for rule in all_rules() for text in (rule.bad, rule.good) if len(text) < 2000])


def _whole(example: str) -> str:
    return in_module(example) if ".entry" in example or ".func" in example else example


def kernel(chance: random.Random, body: str) -> str:
    return f"{chance.choice(HEADERS)}{chance.choice(ENTRIES)}\n{{\n{REGISTERS}{body}\n}}\n"


def of_statements(chance: random.Random) -> str:
    """Statements that follow each other somewhere, or come from anywhere."""
    pool = statements()
    count = chance.randrange(1, 5)
    if chance.random() < 0.5:
        at = chance.randrange(len(pool))
        return kernel(chance, "\n".join(pool[at : at + count]))
    return kernel(chance, "\n".join(chance.choices(pool, k=count)))


def of_examples(chance: random.Random) -> str:
    """An example of a rule."""
    text = chance.choice(examples())
    return text if ".version" in text else kernel(chance, text)


def of_table(chance: random.Random) -> str:
    """Instructions with modifiers that their forms allow, and any operands."""
    lines = []
    for _ in range(chance.randrange(1, 3)):
        form = chance.choice(forms())
        chosen = [chance.choice(slot.choices).modifier for slot in form.slots if not slot.optional or chance.random() < 0.3]
        operands = ", ".join([operand(chance, 2) for _ in range(chance.randrange(6))])
        guard = chance.choice(("", "", "@%p1 ", "@!p "))
        lines.append(f"{guard}{form.mnemonic}{''.join(chosen)} {operands};")
    return kernel(chance, "\n".join(lines))


def operand(chance: random.Random, depth: int) -> str:
    """An operand, most of them sensible."""
    kind = chance.randrange(9 if depth else 5)
    if kind < 3:
        return f"%{chance.choice(('r', 'rd', 'f', 'rs', 'fd', 'p'))}{chance.randrange(9)}"
    if kind < 5:
        return chance.choice(LEAVES)
    inner = operand(chance, depth - 1)
    if kind == 5:
        return f"[{inner}{chance.choice(('', '+4', '+-8', '+8192'))}]"
    if kind == 6:
        return "{" + ", ".join([operand(chance, 0) for _ in range(chance.choice((1, 2, 4, 8)))]) + "}"
    if kind == 7:
        return f"{inner}{chance.choice((' + ', ' - ', ' * ', ' << ', '|', ' ? 1 : '))}{operand(chance, depth - 1)}"
    return chance.choice((f"-{inner}", f"({inner})", f"!{inner}", f"{inner}.x", f"[{inner}, {{{operand(chance, 0)}}}]", f"(.s64){inner}"))


def of_grammar(chance: random.Random) -> str:
    """Directives, functions, blocks, branches and calls."""
    return chance.choice(HEADERS) + "\n".join([_top(chance) for _ in range(chance.randrange(1, 4))]) + "\n"


def _top(chance: random.Random) -> str:
    match chance.randrange(7):
        case 0:
            name = chance.choice(("g", "k", "tile", "x"))
            return f"{chance.choice(SPACES)} {chance.choice(TYPES)} {name}{chance.choice(SIZES)}{chance.choice(VALUES)};"
        case 1:
            return chance.choice(DIRECTIVES)
        case 2:
            space, name = chance.choice((".reg", ".param")), chance.choice("fgk")
            return f".func ({space} .b32 r) {name}({_parameters(chance)})\n{_block(chance, 2)}"
        case _:
            head = chance.choice((".visible ", "", ".weak ")) + ".entry " + chance.choice("kfg")
            return f"{head}({_parameters(chance)}){chance.choice(LIMITS)}\n{_block(chance, 2)}"


def _parameters(chance: random.Random) -> str:
    return ", ".join(filter(None, chance.choices(PARAMETERS, k=chance.randrange(3))))


def _block(chance: random.Random, depth: int) -> str:
    lines = [REGISTERS] if depth == 2 and chance.random() < 0.7 else []
    for _ in range(chance.randrange(7)):
        match chance.randrange(8):
            case 0:
                lines.append(f"{chance.choice('LMN')}:")
            case 1:
                lines.append(f"{chance.choice(('', '@%p1 ', '@!p '))}bra{chance.choice(('', '.uni'))} {chance.choice('LMN')};")
            case 2:
                lines.append(_block(chance, depth - 1) if depth else "{ }")
            case 3:
                lines.append(chance.choice(JUMPS))
            case 4:
                lines.append(chance.choice(LISTS))
            case _:
                lines.append(chance.choice(statements()))
    return "{\n" + "\n".join(lines) + "\n}"


def of_bytes(chance: random.Random) -> str:
    """Bytes, or words in any order."""
    if chance.random() < 0.5:
        return files.decode(chance.randbytes(chance.randrange(1, 300)))
    return "".join([chance.choice(TOKENS) + chance.choice(("", " ")) for _ in range(chance.randrange(1, 60))])


MAKERS: tuple[tuple[Callable[[random.Random], str], int], ...] = (
    (of_statements, 35), (of_examples, 15), (of_table, 20), (of_grammar, 20), (of_bytes, 10),
)  # fmt: skip


def mutated(chance: random.Random, text: str) -> str:
    """The text with a piece taken out, put in, doubled, moved or changed."""
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.choice((1, 1, 2, 4, 8, 30)))
    match chance.randrange(8):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:]
        case 2:
            return text[:at] + chance.choice(TOKENS) + text[at:]
        case 3:
            return text[:at] + chance.choice(TOKENS) + text[end:]
        case 4:
            other = chance.randrange(len(text) + 1)
            return text[:other] + text[at:end] + text[other:]
        case 5:
            return text[:at]
        case 6:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            return "\n".join(lines)
        case _:
            return text[:at] + chr(chance.choice((chance.randrange(256), chance.randrange(0x20, 0x7F)))) + text[end:]


def inputs(number: int) -> Iterator[tuple[str, str]]:
    """The inputs of a slice, each with the name of what made it."""
    for i in range(SLICE):
        yield one_input(number, i)


def one_input(number: int, i: int) -> tuple[str, str]:
    """An input and the name of what made it."""
    chance = random.Random(f"{number}:{i}")
    (make,) = chance.choices([maker for maker, _ in MAKERS], [weight for _, weight in MAKERS])
    text = make(chance)
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 3, 5))):
        text = mutated(chance, text)
    return make.__name__[3:], text


# --- what is asked of each


def examine(text: str) -> str:
    """How far a text comes: `formatted`, or `refused` by fmt for its syntax. Raises whatever goes wrong."""
    module = parse(text)
    assert module.text == text, "parsing loses text"
    for found in lint(module, all_rules()):
        for span in (found.span, *[related.span for related in found.related]):
            assert 0 <= span.start <= span.end <= len(text), f"{found.rule} lies outside of the text"
        assert found.message, f"{found.rule} says nothing"
    errors = _errors(module)
    try:
        laid_out = formatter.format_module(module)
    except formatter.CannotFormat:
        assert errors, "fmt refuses what has no syntax error"
        return "refused"
    again = parse(laid_out)
    assert _characters(laid_out) == _characters(text), "fmt loses something"
    assert _errors(again) == errors, "fmt changes the syntax errors"
    assert formatter.format_module(again) == laid_out, "fmt changes what it has made"
    return "formatted"


def _errors(module: Module) -> Counter[str]:
    return Counter([found.message for found in module.diagnostics if found.severity is Severity.ERROR])


def _characters(text: str) -> list[str]:
    """All that is no white space; sorted, since modifiers may change places."""
    return sorted("".join(text.split()))


def run_slice(number: int) -> dict[str, Any]:
    """Examines the inputs of a slice; what came of them, as plain data."""
    signal.signal(signal.SIGVTALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts: Counter[str] = Counter()
    failures = []
    slowest = 0.0
    began = time.process_time()
    for i, (kind, text) in enumerate(inputs(number)):
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        try:
            outcome = examine(text)
        except (Exception, TookTooLong) as error:
            outcome = "failed"
            failures.append({"input": f"{number}:{i}", "kind": kind, "why": _why(error), "text": text})
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        counts[kind] += 1
        counts[outcome] += 1
        slowest = max(slowest, time.process_time() - start)
    took = time.process_time() - began
    return {"slice": number, "inputs": SLICE, "counts": counts, "seconds": took, "slowest": slowest, "failures": failures}


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise TookTooLong(f"more than {LIMIT:.0f} s")


def _why(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"[:300]


# --- the run


def run(record: Path, most: int, seconds: float, jobs: int) -> None:
    """Examines slices that the record does not have, until there are enough inputs or the time is over."""
    done = {entry["slice"] for entry in read(record)}
    missing = [number for number in range(-(-most // SLICE)) if number not in done]
    end = time.monotonic() + seconds
    if jobs == 1:
        for number in missing:
            if time.monotonic() > end:
                return
            _keep(record, run_slice(number))
        return
    with ProcessPoolExecutor(jobs) as pool:
        for start in range(0, len(missing), jobs):
            if time.monotonic() > end:
                return
            for entry in pool.map(run_slice, missing[start : start + jobs]):
                _keep(record, entry)


def _keep(record: Path, entry: dict[str, Any]) -> None:
    with record.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")


def read(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()] if record.exists() else []


def tell(entries: list[dict[str, Any]], show: bool) -> bool:
    """Prints what a record holds. Whether nothing failed."""
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update(entry["counts"])
    failures = [failure for entry in entries for failure in entry["failures"]]
    total, seconds = sum(entry["inputs"] for entry in entries), sum(entry["seconds"] for entry in entries)
    print(f"{total} inputs ({', '.join(f'{counts[maker.__name__[3:]]} {maker.__name__[3:]}' for maker, _ in MAKERS)})")
    print(f"fmt laid out {counts['formatted']} and refused {counts['refused']} for their syntax; {len(failures)} failed")
    if entries:
        slowest = max(entry["slowest"] for entry in entries)
        print(f"{1000 * seconds / total:.1f} ms of the processor each, {slowest:.2f} s the slowest")
    for why, count in Counter(failure["why"] for failure in failures).most_common():
        first = next(failure for failure in failures if failure["why"] == why)
        print(f"  {count} × {why}, first {first['input']}" + (f"\n{first['text']!r}" if show else ""))
    return not failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--inputs", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="the first text of each failure")
    parser.add_argument("--again", metavar="SLICE:NUMBER")
    asked = parser.parse_args()
    if asked.again:
        number, i = map(int, asked.again.split(":"))
        text = one_input(number, i)[1]
        sys.stdout.buffer.write(files.encode(text) + b"\n")
        print(examine(text))
        return
    if asked.record is None:
        parser.error("--record FILE is needed")
    run(asked.record, asked.inputs, asked.seconds, asked.jobs)
    sys.exit(not tell(read(asked.record), asked.show))


if __name__ == "__main__":
    main()
