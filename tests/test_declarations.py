"""Declarations, directives, calls: what an assembler refuses outside of single instructions, and what it takes."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptxkit import calls, debug_directives, declarations, directives
from ptxkit.isa.directives import directives as table
from ptxkit.machine.calling import SYSTEM
from ptxkit.names import resolve
from ptxkit.problem import Problem
from ptxkit.redeclarations import SYSTEM_FUNCTIONS
from ptxkit.syntax import Index, Module, parse

ROOT = Path(__file__).parents[1]
FIXTURE = ROOT / "fixtures" / "check" / "declarations.ptx"
CONFORMANCE = ROOT.parent / "shared" / "conformance"

SECTIONS = ("5.", "7.", "11.2", "11.3", "11.4", "11.5", "11.6", "11.7")

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
KERNEL = (
    HEAD
    + ".entry k(.param .u32 kp) {{ .reg .pred %p<8>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .b16 %rs<8>;\n{}\nret; }}\n"
)


def found(module: Module) -> Iterator[Problem]:
    """All problems of a module for its own version and target."""
    names = resolve(module)
    target = next((word for word in module.targets if word.startswith("sm_")), None)
    for check in (directives.problems, debug_directives.problems, declarations.problems, calls.problems):
        yield from check(module, names, module.version, target)


def errors(text: str) -> list[Problem]:
    """The problems that are errors, whatever the text is."""
    return [problem for problem in found(parse(text)) if problem.kind != "launch-bound-conflict" and not problem.doubtful]


def of_module(text: str) -> str:
    """A module with these declarations and a kernel."""
    return HEAD + text + "\n.entry main() { ret; }\n"


GOOD = """
.weak .func free(.param .b64 a); .weak .func (.param .b64 r) malloc(.param .b64 a);
.global .align 4 .align 8 .u32 x;
.attribute(.managed) .global .u32 x;
.global .align 2147483648 .u32 x;
.global .u32 x[WARP_SZ];
.extern .shared .b8 x[];
.extern .const .u8 x[70000];
.global .u8 x = 300;
.global .b32 x = 1.5;
.global .u32 x = (2+3)*4;
.global .u32 x[2] = {};
.global .v2 .u32 x[2] = {{1,2},{3,4}};
.global .u32 y; .global .u64 x = generic(y)+4;
.global .u32 y; .global .u8 x = 0xff(y+4);
.func y() { ret; } .const .u64 x = y;
.entry y() { ret; } .global .u64 x = y;
.entry e(.param .v4 .f32 a[2]) { ret; }
.entry e(.param .b8 .align 8 a[12]) { ret; }
.entry e(.param .u16 .ptr .global a) { ret; }
.entry e(.param .b8 a[32764]) { ret; }
.extern .entry e();
.entry e(); .entry e() { ret; }
.visible .func f(); .func f() { ret; }
.func (.reg .u32 r, .reg .u32 s) e() { ret; }
.func e(.param .b8 a[0]) { ret; }
.func e(.reg .v2 .u16 a) { ret; }
.extern .global .u32 x; .visible .global .u32 x = 5;
.extern .global .u32 x[]; .visible .global .u32 x[4];
.func b() { ret; } .extern .func a(); .alias a, b;
.entry e() .maxntid 32 .maxntid 64 { ret; }
.entry e() .blocksareclusters .reqntid 32 .reqnctapercluster 2 { ret; }
.entry e() .pragma "nounroll"; { ret; }
.section .debug_str { .b32 4294967296 }
#line 5 "x"
""".strip().splitlines()

GOOD_STATEMENTS = """
.reg .u32 %tid;
.reg .b8 x;
.reg .v4 .b8 x;
.reg .u32 a<0>;
.reg .u32 a<4>; { .reg .u32 a2; }
.reg .u32 a<4>; a2: ret;
.global .u32 x = 5;
.param .f16x2 x[2];
.param .align 128 .b8 x[16];
bra later; later: ret;
{ bra outer; } outer: ret;
.reg .u32 zz; { mov.u32 zz, 1; .reg .u32 zz; }
@%is_explicit_cluster bra A; A: ret;
p: .callprototype _ ; call %rd0, (), p;
p: .callprototype () _ () ; { call (), %rd0, (), p; }
t: .branchtargets A, A; brx.idx 0, t; A: ret;
.target sm_90
""".strip().splitlines()

BAD = """
misplaced-specifier .global .v4 .align 16 .u32 x;
misplaced-specifier .entry e(.param .ptr .u64 a) { ret; }
unusable-name .global .u32 _;
unusable-name .func f(.param .b32 _) { ret; }
type-not-declarable .global .e4m3 x;
type-not-declarable .global .u33 x;
type-not-declarable .global x;
type-not-declarable .global .u32 .u32 x;
type-not-declarable .global .samplerref x;
type-not-in-space .shared .texref x;
type-not-in-space .const .pred x;
type-not-in-space .entry e(.param .v4 .f32 a) { ret; }
type-not-in-space .func e(.param .texref a) { ret; }
bad-alignment .global .align 3 .u32 x;
bad-alignment .global .align 0 .u32 x;
bad-alignment .global .align 4294967296 .u32 x;
bad-alignment .global .align 4+4 .u32 x;
bad-alignment .func e(.param .align 256 .b8 a[4]) { ret; }
bad-alignment .entry e(.param .u64 .ptr .shared .align 3 a) { ret; }
bad-vector-type .global .v8 .b16 x;
bad-vector-type .global .v4 .f64 x;
bad-vector-type .global .v2 .texref x;
bad-array-size .global .u32 x[];
bad-array-size .global .u32 x[0];
bad-array-size .global .u32 x[-1];
bad-array-size .global .u32 x[2+2];
bad-array-size .global .u32 x[4][];
bad-array-size .const .u8 x[40000]; .const .u8 y[40000];
misplaced-variable .reg .u32 x;
misplaced-variable .param .u32 x;
misplaced-variable .tex .u32 x;
misplaced-variable .shared::cta .u32 x;
bad-linkage .common .const .u32 x;
bad-linkage .extern .visible .global .u32 x;
bad-linkage .global .visible .u32 x;
bad-linkage .common .func f() { ret; }
bad-initializer .shared .u32 x = 5;
bad-initializer .extern .global .u32 x = 5;
bad-initializer .global .u32 x = 1.5;
bad-initializer .global .f32 x = 5;
bad-initializer .global .f16 x = 1.0;
bad-initializer .global .u32 x = {1};
bad-initializer .global .u32 x[2] = {1,2,3};
bad-initializer .global .u32 x[2] = 1;
bad-initializer .global .u32 x[2][2] = {1,2};
bad-initializer .global .u32 x[] = {};
bad-initializer .global .v2 .u32 x = {1};
bad-initializer .global .u32 x[9] = {1,2,3,4.0,5,6,7,8,9};
bad-initializer .global .f32 x[9] = {1.0,2.0,3.0,4,5.0,6.0,7.0,8.0,9.0};
bad-initializer .global .u32 x[8] = {1,2,3,4,5,6,7,8,9};
bad-initializer .global .u32 y; .global .b64 x = y;
bad-initializer .global .u32 y; .global .u64 x = y-4;
bad-initializer .global .u32 y; .global .u64 x = generic(y+4);
bad-initializer .global .u32 y; .global .u8 x = 0xf0(y);
bad-initializer .shared .u32 y; .global .u64 x = y;
bad-initializer .func y() { ret; } .global .u64 x = y+4;
bad-initializer .global .u32 a<4> = 5;
used-before-declaration .global .u64 x = y; .global .u32 y;
used-before-declaration .global .u64 x = x;
used-before-declaration .entry k() { call f; ret; } .func f() { ret; }
bad-attribute .global .attribute(.unified(1)) .u32 x;
bad-attribute .global .attribute(.foo) .u32 x;
bad-attribute .entry .attribute(.unified(1,2)) e() { ret; }
bad-parameter .entry e(.global .u32 a) { ret; }
bad-parameter .entry e(.param .u32 a[]) { ret; }
bad-parameter .entry e(.param .b8 a[32764], .param .u32 b) { ret; }
bad-parameter .entry (.param .u32 r) e() { ret; }
bad-parameter .entry e(.param .u64 .ptr .param a) { ret; }
bad-parameter .func e(.param .u64 .ptr .global a) { ret; }
bad-parameter .func e(.param .b8 a[], .param .u32 b) { ret; }
bad-parameter .func (.param .b8 r[]) e() { ret; }
bad-parameter .func (.param .u32 r, .param .u32 s) e() { ret; }
bad-parameter .func (.param .u32 r) f() { .reg .u32 z; ld.param.u32 z, [r]; ret; }
bad-parameter .func f(.param .u32 r) { st.param.u32 [r], 1; ret; }
bad-directive .entry e() .maxntid 0 { ret; }
bad-directive .entry e() .maxntid 1,2,3,4 { ret; }
bad-directive .entry e() .maxnreg { ret; }
bad-directive .entry e() .maxnreg 1.5 { ret; }
bad-directive .entry e() .maxnctapersm 4 { ret; }
bad-directive .entry e() .maxclusterrank 8 .reqnctapercluster 2 { ret; }
bad-directive .entry e() .blocksareclusters .reqntid 32 { ret; }
bad-directive .entry e() .noreturn { ret; }
bad-directive .func e() .maxntid 32 { ret; }
bad-directive .func (.reg .u32 r) e() .noreturn { trap; }
bad-directive .func e() .abi_preserve 1000 { ret; }
conflicting-declarations .func f(.param .b32 a); .func f(.param .u32 b) { ret; }
conflicting-declarations .func f(); .visible .func f() { ret; }
conflicting-declarations .func f() { ret; } .func f();
conflicting-declarations .func f(); .entry f() { ret; }
conflicting-declarations .extern .func f() { ret; }
conflicting-declarations .weak .func f();
conflicting-declarations .func f();
conflicting-declarations .func f() .noreturn; .func f() { ret; }
conflicting-declarations .extern .global .u32 x; .visible .global .f32 x;
conflicting-declarations .extern .global .u32 x; .global .u32 x;
conflicting-declarations .global .u32 a<4>; .global .u32 a2;
conflicting-declarations .func f(.param .b32 a) { .reg .b32 a; ret; }
bad-alias .visible .func a(); .alias a, b;
bad-alias .weak .func b() { ret; } .func a(); .alias a, b;
bad-alias .func b(.param .b32 x) { ret; } .func a(); .alias a, b;
bad-alias .func b() { ret; } .func a() { ret; } .alias a, b;
bad-alias .entry b() { ret; } .func a(); .alias a, b;
bad-debug-directive .file 1 "a.cu" .file 1 "b.cu"
bad-debug-directive .section .debug_str { .b8 256 }
bad-debug-directive .section .debug_str { .b8 1, 2, 3, 4, 5, 6, 7, 8, 300 }
bad-debug-directive .section foo { .b8 1 }
misplaced-statement .loc 1 1 1
misplaced-statement x:
misplaced-statement { .reg .u32 x; }
misplaced-statement ;
version-too-low .version 7.7 .target sm_80 .entry e() .local_maxnreg 8 { ret; }
target-too-low .version 8.3 .target sm_60 .global .b128 x;
version-too-low .version 8.5 .target sm_100 .entry e() { ret; }
""".strip().splitlines()

BAD_STATEMENTS = """
type-not-declarable .reg .bf16 x;
type-not-declarable .reg .u16x2 x;
type-not-in-space .local .pred x;
type-not-in-space .global .texref x;
bad-vector-type .reg .v2 .pred x;
bad-array-size .reg .u32 x[4];
bad-array-size .reg .u32 a<-1>;
bad-array-size .reg .u32 a<n>;
misplaced-variable .u32 x;
misplaced-variable .sreg .u32 x;
bad-linkage .extern .shared .u32 q[];
bad-initializer .reg .u32 g = 5;
conflicting-declarations .reg .u32 a<4>; .reg .u32 a2;
conflicting-declarations .reg .u32 kp;
used-before-declaration mov.u32 zz, 1; .reg .u32 zz;
used-before-declaration { mov.u32 zz, 1; } .reg .u32 zz<1>; .reg .u32 zz;
guard-not-predicate @%r0 bra A; A: ret;
guard-not-predicate @A bra A; A: ret;
bad-target-list .branchtargets A; A: ret;
bad-target-list t: .branchtargets A, %r0; brx.idx %r0, t; A: ret;
bad-target-list brx.idx %r0, A; A: ret;
bad-call-target call %f0, (1), p;
bad-call-target call kp;
bad-call-target A: call %rd0, (1), A;
used-before-declaration call %rd0, p; p: .callprototype _ ;
argument-mismatch p: .callprototype (.param .b32 _) _ (.param .b32 _); call (%r0), %rd0, (%rd1), p;
argument-mismatch p: .callprototype (.param .b32 _) _ (.param .b32 _); call %rd0, (%r1), p;
bad-parameter p: .callprototype _ (.reg .b32 x[2]); call %rd0, (1), p;
bad-directive p: .callprototype _ .maxntid 32; call %rd0, p;
bad-parameter st.param.u32 [kp], %r0;
misplaced-statement ;
misplaced-statement .file 1 "a.cu"
misplaced-statement .address_size 64
bad-debug-directive .loc 1 4294967296 1
""".strip().splitlines()

CALLS = """
- %r0 .reg .u32 a
- %f0 .reg .b32 a
- 1.5 .param .f32 a
- -5 .param .u32 a
- 5 .param .b8 a
- %rs0 .param .f16 a
argument-mismatch %f0 .reg .u32 a
argument-mismatch %rd0 .param .b32 a
argument-mismatch 5 .param .f32 a
argument-mismatch 0f3F800000 .param .u32 a
argument-mismatch kp .param .u32 a
argument-mismatch %laneid .param .u32 a
argument-mismatch gv .param .u64 a
argument-mismatch %r0 .param .align 8 .b32 a
argument-mismatch %r0 .param .b8 a[4]
argument-mismatch %rs0 .param .u16 a
""".strip().splitlines()

ARRAYS = """
- .param .align 8 .b8 q[12] .param .align 8 .b8 a[12]
- .param .align 8 .b32 q[3] .param .align 8 .b8 a[12]
- .param .align 4 .b8 q[12] .param .align 4 .b8 a[]
argument-mismatch .param .align 4 .b8 q[12] .param .align 8 .b8 a[12]
argument-mismatch .param .align 8 .b8 q[16] .param .align 8 .b8 a[12]
argument-mismatch .param .f32 q[3] .param .u32 a[3]
argument-mismatch .param .u32 q[1] .param .u32 a
argument-mismatch .param .b8 q .param .b8 a[]
argument-mismatch .local .b8 q[4] .param .b8 a[4]
""".strip().splitlines()


def text_of(line: str) -> str:
    """A line of the lists above as a module."""
    return line if line.startswith(".version") else of_module(line)


@pytest.mark.parametrize("line", GOOD)
def test_good_declaration(line: str) -> None:
    assert errors(text_of(line)) == []


@pytest.mark.parametrize("line", GOOD_STATEMENTS)
def test_good_statement(line: str) -> None:
    assert errors(KERNEL.format(line)) == []


@pytest.mark.parametrize("line", BAD)
def test_bad_declaration(line: str) -> None:
    kind, text = line.split(" ", 1)

    problems = errors(text_of(text))

    assert kind in {problem.kind for problem in problems}
    assert all(problem.message and "\n" not in problem.message for problem in problems)


@pytest.mark.parametrize("line", BAD_STATEMENTS)
def test_bad_statement(line: str) -> None:
    kind, text = line.split(" ", 1)
    module = parse(KERNEL.format(text))
    index = Index(module)

    problems = list(found(module))

    assert kind in {problem.kind for problem in problems}
    assert {index.span(problem.path).line for problem in problems} == {5}


@pytest.mark.parametrize("line", CALLS)
def test_argument(line: str) -> None:
    kind, argument, parameter = line.split(" ", 2)
    text = of_module(f".global .u32 gv;\n.func f({parameter}) {{ ret; }}") + KERNEL.removeprefix(HEAD).format(f"call f, ({argument});")

    assert {problem.kind for problem in errors(text)} == ({kind} - {"-"})


@pytest.mark.parametrize("line", ARRAYS)
def test_array_as_argument(line: str) -> None:
    kind, variable, parameter = re.fullmatch(r"(\S+) (.*?) (\.param (?!.*\.param).*)", line).groups()  # type: ignore[union-attr]
    text = of_module(f".func f({parameter}) {{ ret; }}") + KERNEL.removeprefix(HEAD).format(f"{variable}; call f, (q);")

    assert {problem.kind for problem in errors(text)} == ({kind} - {"-"})


@pytest.mark.parametrize(
    ("call", "right"),
    [
        ("call (%r0), f, (%r1, %r2);", True),
        ("call (_), f, (%r1, %r2);", True),
        ("call (%r0), f, (%r1);", False),
        ("call (%r0), f, (%r1, %r2, %r3);", False),
        ("call f, (%r1, %r2);", False),
        ("call (%r0, %r1), f, (%r1, %r2);", False),
        ("call (5), f, (%r1, %r2);", False),
        ("call (%f0), f, (_, %r2);", False),
        ("call f(%r1);", False),
    ],
)
def test_number_of_arguments(call: str, right: bool) -> None:
    text = of_module(".func (.reg .b32 r) f(.reg .b32 a, .reg .b32 b) { ret; }") + KERNEL.removeprefix(HEAD).format(call)

    assert (errors(text) == []) is right


@pytest.mark.parametrize(
    ("bounds", "target", "message"),
    [
        (".minnctapersm 2", "sm_90", "without"),
        (".maxntid 1024,2", "sm_90", "2048 threads"),
        (".maxntid 1024 .minnctapersm 3", "sm_90", "3 CTAs of 1024 threads"),
        (".maxntid 683 .minnctapersm 3", "sm_90", "3 CTAs of 683 threads"),
        (".maxntid 32 .minnctapersm 33", "sm_90", "33 CTAs"),
        (".maxntid 32 .minnctapersm 17", "sm_86", "17 CTAs"),
        (".maxnreg 256", "sm_90", "maxnreg"),
        (".reqntid 1024 .maxnreg 128", "sm_90", "128 registers"),
        (".reqnctapercluster 32", "sm_90", "32 CTAs in a cluster"),
        (".maxclusterrank 1024", "sm_90", ""),
        (".maxntid 1024 .minnctapersm 2", "sm_90", ""),
        (".maxntid 1024 .minnctapersm 2", "sm_86", "2 CTAs"),
        (".maxntid 1024 .maxnreg 255", "sm_90", ""),
    ],
)
def test_launch_bounds(bounds: str, target: str, message: str) -> None:
    problems = list(found(parse(f".version 9.0\n.target {target}\n.address_size 64\n.entry k() {bounds} {{ ret; }}")))

    assert [problem.kind for problem in problems] == ["launch-bound-conflict"] * bool(message)
    assert all(message in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("head", "right"),
    [
        (".version 1.4\n.target sm_10, map_f64_to_f32", True),
        (".version 9.0\n.target compute_90a", True),
        (".version 9.4\n.target sm_107a", True),
        (".version 09.00\n.target sm_90a, texmode_unified, texmode_unified", True),
        (".version 9.0\n.target sm_90a\n.address_size 0x40", True),
        (".version 9\n.target sm_90", False),
        (".version 8.9\n.target sm_90", False),
        (".version 99.0\n.target sm_90", False),
        (".version 9.0\n.target sm_80a", False),
        (".version 9.0\n.target debug", False),
        (".version 9.0\n.target sm_90, debug", False),
        (".version 9.0\n.target sm_90, fastmode", False),
        (".version 9.0\n.target sm_90, map_f64_to_f32", False),
        (".version 9.0\n.target sm_90, texmode_unified, texmode_independent", False),
        (".version 7.0\n.target sm_86", False),
        (".version 9.0\n.target sm_90\n.address_size 48", False),
        (".version 9.0\n.target sm_90\n.address_size 32", False),
        (".version 2.2\n.target sm_20\n.address_size 64", False),
    ],
)
def test_head_of_a_module(head: str, right: bool) -> None:
    assert (errors(head + "\n.entry k() { ret; }\n") == []) is right


def test_what_is_too_new_says_what_would_suffice() -> None:
    (problem,) = errors(".version 7.0\n.target sm_80\n.address_size 64\n.entry k() .reqnctapercluster 2 { ret; }")

    assert problem.kind == "target-too-low"
    assert problem.message == "`.reqnctapercluster` needs sm_90 (from .version 7.8); the file says sm_80"


def test_older_modules_may_declare_registers_outside_of_functions() -> None:
    assert errors(".version 2.3\n.target sm_20\n.reg .u32 x;\n.entry k() { ret; }") == []


def test_a_newer_version_makes_an_unknown_directive_doubtful() -> None:
    (problem,) = found(parse(".version 9.5\n.target sm_90a\n.address_size 64\n.entry k() .novelty 3 { ret; }"))

    assert problem.doubtful


def test_table_of_directives() -> None:
    assert table()[".maxntid"].most == 3
    assert table()[".maxnctapersm"].gone == (2, 1)
    assert all(directive.summary.endswith(".") and directive.section for directive in table().values())


def test_fixture_is_clean() -> None:
    assert errors(FIXTURE.read_text()) == []


def test_no_text_makes_it_fail() -> None:
    chosen = random.Random(3)
    words = re.findall(r"\.?[A-Za-z_%$][\w$:]*|\d[\w.]*|\s+|.", FIXTURE.read_text())
    junk = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        "-1",
        "1.5",
        ".align",
        "<",
        ">",
        ".param",
        "@",
        "_",
        "=",
        ".entry",
        ".func",
        "call",
        "99999999999999999999999",
    ]
    for _ in range(150):
        broken = list(words)
        for _ in range(4):
            at = chosen.randrange(len(broken))
            broken[at : at + chosen.randrange(3)] = [chosen.choice(junk)]
        module = parse("".join(broken))
        index = Index(module)
        for problem in found(module):
            index.span(problem.path)


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="no conformance modules here")
class TestConformance:
    def test_no_error_in_what_is_accepted(self) -> None:
        assert [file.name for file in sorted((CONFORMANCE / "accept").glob("*.ptx")) if errors(file.read_text())] == []

    def test_declarations_that_are_refused(self) -> None:
        with (CONFORMANCE / "reject.tsv").open() as file:
            rows = [row for row in csv.DictReader(file, delimiter="\t") if row["origin"] == "hand" and row["section"].startswith(SECTIONS)]
        missed = []
        for row in rows:
            module = parse((CONFORMANCE / "reject" / row["file"]).read_text())
            names = resolve(module)
            if not errors(module.text) and not module.diagnostics and not names.unresolved and not names.duplicates:
                missed.append((row["file"], row["mistake"]))

        assert len(rows) > 20
        assert missed == []


def test_the_machine_has_what_the_compiler_defines() -> None:
    assert set(SYSTEM) == SYSTEM_FUNCTIONS
