"""Text that no compiler writes: what `parse` and `resolve` make of it, and how long they take.

    python benchmarks/hostile.py [--scale FACTOR] [--only WORD]

Each case runs in a process of its own. It must print back byte for byte, raise nothing, be done in ten seconds (of the
processor, so that a busy machine does not count), and have a diagnostic where it is broken. Exit status 1 if any case fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LIMIT = 10.0
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def in_kernel(body: str) -> str:
    return f"{HEAD}.visible .entry k()\n{{\n{body}\n}}\n"


def numbered(count: int, line: str) -> str:
    """`count` lines, `#` in each replaced by its number."""
    return "".join([line.replace("#", str(i)) + "\n" for i in range(count)])


def word(i: int) -> str:
    """A word of letters for a number, so that no two lines have the same shape."""
    letters = ""
    while True:
        i, digit = divmod(i, 26)
        letters += chr(97 + digit)
        if not i:
            return letters


BROKEN: dict[str, Callable[[int], str]] = {
    "open braces": lambda n: "{" * n,
    "open braces, a line each": lambda n: "{\n" * n,
    "open braces in a kernel": lambda n: in_kernel("{" * n),
    "open braces between instructions": lambda n: in_kernel("{ mov.u32 a, b;\n" * (n // 10)),
    "closing braces": lambda n: "}" * n,
    "closing braces, a line each": lambda n: "}\n" * (n // 10),
    "braces opened and closed": lambda n: "{" * n + "}" * n,
    "parentheses in an expression": lambda n: in_kernel("mov.u32 a, " + "(" * n + "1;"),
    "parentheses balanced": lambda n: in_kernel("mov.u32 a, " + "(" * n + "1" + ")" * n + ";"),
    "parentheses in a dimension": lambda n: ".global .u32 a[" + "(" * n + "];\n",
    "brackets": lambda n: in_kernel("ld.global.u32 a, " + "[" * n + ";"),
    "brackets balanced": lambda n: in_kernel("ld.global.u32 a, " + "[" * n + "a" + "]" * n + ";"),
    "braces in an initialiser": lambda n: ".global .u32 a[] = " + "{" * n + ";\n",
    "braces in an initialiser, balanced": lambda n: ".global .u32 a[] = " + "{" * n + "1" + "}" * n + ";\n",
    "minus signs": lambda n: in_kernel("mov.u32 a, " + "-" * n + "1;"),
    "tildes": lambda n: in_kernel("mov.u32 a, " + "~" * n + "1;"),
    "casts": lambda n: in_kernel("mov.u32 a, " + "(.s64)" * (n // 10) + "1;"),
    "conditionals": lambda n: in_kernel("mov.u32 a, " + "1 ? 2 : " * (n // 10) + "1;"),
    "conditionals unfinished": lambda n: in_kernel("mov.u32 a, " + "1 ? " * (n // 10) + "1;"),
    "applications": lambda n: ".global .u64 a = " + "generic(" * (n // 10) + ";\n",
    "at signs": lambda n: "@" * n,
    "at signs in a kernel": lambda n: in_kernel("@" * n + ";"),
    "guards, a line each": lambda n: in_kernel("@p\n" * (n // 10)),
    "at signs and names": lambda n: "@p " * (n // 10),
    "unclosed comment": lambda n: in_kernel("/*" + "a b;\n" * n),
    "comment openers": lambda n: "/*" * (5 * n),
    "comment openers after a kernel": lambda n: in_kernel("/*" * (5 * n)),
    "stars in an unclosed comment": lambda n: "/*" + "*" * (5 * n),
    "unclosed string": lambda n: '.file 1 "' + "abcd " * n,
    "unclosed string of lines": lambda n: '.file 1 "' + "abcd\n" * (n // 10),
    "string openers": lambda n: '"' * (10 * n + 1),
    "string openers, a line each": lambda n: '"\n' * (n // 10),
    "strings of backslashes": lambda n: '.pragma "' + "\\" * (5 * n),
    "broken statements, same": lambda n: in_kernel(numbered(n // 10, "add.u32 %r#, %r1 %r2;")),
    "broken statements, a shape each": lambda n: in_kernel("".join([f"add.{word(i)} %r1, %r1 %r2;\n" for i in range(n // 10)])),
    "missing semicolons": lambda n: in_kernel(numbered(n // 10, "add.u32 %r#, %r1, %r2")),
    "missing semicolons, a shape each": lambda n: in_kernel("".join([f"add.{word(i)} %r1, %r1, %r2\n" for i in range(n // 10)])),
    "missing semicolons in declarations": lambda n: in_kernel(numbered(n // 10, ".reg .u32 %r#")),
    "missing semicolons in calls": lambda n: in_kernel(numbered(n // 10, "call.uni (r#), f, (a, b)")),
    "unclosed parentheses, a line each": lambda n: in_kernel(numbered(n // 10, "call.uni (r#, f, a;")),
    "unclosed brackets, a line each": lambda n: in_kernel(numbered(n // 10, "ld.u32 a, [r#;")),
    "unclosed brackets without ends": lambda n: in_kernel(numbered(n // 10, "ld.u32 a, [r#")),
    "unclosed brackets, a shape each": lambda n: in_kernel("".join([f"ld.{word(i)} a, [b;\n" for i in range(n // 10)])),
    "function headers": lambda n: ".entry foo(\n" * (n // 10),
    "function headers in one line": lambda n: ".entry foo(" * (n // 10),
    "function headers without body": lambda n: ".entry foo()\n" * (n // 10),
    "function headers and braces": lambda n: ".entry foo() {\n" * (n // 10),
    "unfinished declarations": lambda n: ".global .u32 a[\n" * (n // 10),
    "commas": lambda n: in_kernel("add.u32 " + "," * n + ";"),
    "dots": lambda n: "." * n,
    "colons": lambda n: ":" * n,
    "modifiers of nothing": lambda n: in_kernel("add" + "." * n + ";"),
    "NULs": lambda n: "\0" * n,
    "NULs between statements": lambda n: in_kernel("\0\n" * (n // 10)),
    "NULs, a line": lambda n: in_kernel("\0 " * (n // 10)),
    "lone surrogates": lambda n: "\udcff" * n,
    "lone surrogates, a line each": lambda n: in_kernel("\udc80;\n" * (n // 10)),
    "letters of no alphabet": lambda n: in_kernel("\u00e9 \u4e00;\n" * (n // 10)),
    "equals signs": lambda n: in_kernel("= " * (n // 10)),
    "slashes": lambda n: "/ " * (n // 10),
    "words": lambda n: "word " * n,
    "words, a line each": lambda n: "word\n" * (n // 10),
    "numbers": lambda n: "1 " * n,
    "numbers and commas": lambda n: "1, " * n,
    "malformed numbers": lambda n: in_kernel(numbered(n // 10, "mov.u32 a, 0x#g;")),
    "directives that nobody knows": lambda n: numbered(n // 10, ".nonsense # ;"),
    "directives that nobody knows, a shape each": lambda n: "".join([f".non{word(i)} 1;\n" for i in range(n // 10)]),
    "one name in an expression": lambda n: in_kernel("mov.u32 a, b" + " + b" * n + " +;"),
    "semicolon missing in a long initialiser": lambda n: ".global .u32 a[] = {" + "a, " * n + "a}\n",
}
"""Text that needs a diagnostic."""

STRANGE: dict[str, Callable[[int], str]] = {
    "one name of 10 MB": lambda n: in_kernel("mov.u32 " + "a" * (10 * n) + ", b;"),
    "one opcode of 10 MB": lambda n: in_kernel("mov" + ".a" * (5 * n) + " a, b;"),
    "one number of 10 MB": lambda n: in_kernel("mov.u32 a, " + "1" * (10 * n) + ";"),
    "one comment of 10 MB": lambda n: in_kernel("//" + "a" * (10 * n) + "\nret;"),
    "one string of 10 MB": lambda n: '.pragma "' + "a" * (10 * n) + '";\n',
    "white space of 10 MB": lambda n: in_kernel(" \t\n" * (3 * n)),
    "comments": lambda n: in_kernel("/**/ //\n" * n),
    "operands in one line": lambda n: in_kernel("call f, (" + ", ".join([f"%r{i}" for i in range(n)]) + ");"),
    "statements in one line": lambda n: in_kernel("add.u32 %r1, %r2, %r3; " * (n // 2)),
    "labels in one line": lambda n: in_kernel(" ".join([f"L{i}:" for i in range(n)])),
    "initialiser of numbers": lambda n: ".global .u32 a[] = {" + ", ".join(["123456"] * n) + "};\n",
    "initialiser of names": lambda n: ".global .u64 a[] = {" + ", ".join([f"name{i}" for i in range(n)]) + "};\n",
    "initialiser of short rows": lambda n: ".global .u32 a[][2] = {" + ", ".join(["{1, 2}"] * n) + "};\n",
    "initialiser of long rows": lambda n: ".global .u32 a[][9] = {" + ", ".join(["{1, 2, 3, 4, 5, 6, 7, 8, 9}"] * (n // 3)) + "};\n",
    "declarators in one statement": lambda n: in_kernel(".reg .u32 " + ", ".join([f"a{i}" for i in range(n)]) + ";"),
    "declarations": lambda n: in_kernel(numbered(n // 10, ".reg .u32 a#;")),
    "ranges of one name": lambda n: in_kernel(numbered(n // 10, ".reg .u32 %r<#>;")),
    "ranges, each of another name": lambda n: in_kernel("".join([f".reg .u32 %{word(i)}<4>;\n" for i in range(n // 10)])),
    "names that end in many digits": lambda n: in_kernel(
        ".reg .u32 %r<4>;\nmov.u32 " + ", ".join(["%r" + "1" * 1000 + str(i) for i in range(n // 200)]) + ";"
    ),
    "a name of 10 MB of digits": lambda n: in_kernel(".reg .u32 %r<4>;\nmov.u32 %r" + "1" * (10 * n) + ", 1;"),
    "a count of 10 MB of digits": lambda n: in_kernel(".reg .u32 %r<" + "1" * (10 * n) + ">;\nmov.u32 %r1, 1;"),
    "blocks side by side": lambda n: in_kernel("{}" * n),
    "blocks with declarations": lambda n: in_kernel("{ .reg .u32 a; mov.u32 a, b; }\n" * (n // 10)),
    "functions": lambda n: HEAD + "".join([f".func f{i}() {{ ret; }}\n" for i in range(n // 10)]),
    "functions of one name": lambda n: HEAD + ".func f() { ret; }\n" * (n // 10),
    "parameters of one function": lambda n: HEAD + ".entry k(" + ", ".join([f".param .u32 p{i}" for i in range(n // 4)]) + ") { ret; }\n",
    "instructions, a shape each": lambda n: in_kernel("".join([f"add.{word(i)} %r1, %r1, %r2;\n" for i in range(n // 4)])),
    "declarations, a shape each": lambda n: in_kernel("".join([f".reg .{word(i)} %r1;\n" for i in range(n // 50)])),
    "operands, a shape each": lambda n: in_kernel("".join([f"ld.u32 a, [a].{word(i)};\n" for i in range(n // 50)])),
    "long expressions": lambda n: in_kernel("mov.u32 a, b" + " + b" * (n // 10) + ";"),
    "semicolons": lambda n: in_kernel(";" * n),
    "hash lines": lambda n: "# 1\n" * n,
    "carriage returns": lambda n: "\r" * n,
}
"""Text that is only unusual: a diagnostic or none, as long as it is read."""

CASES = {**BROKEN, **STRANGE}


def run(name: str, size: int) -> None:
    """One case, in this process. Prints what came of it; raises AssertionError if the text does not come back."""
    from ptxkit.names import resolve
    from ptxkit.syntax import Index, parse

    text = CASES[name](size)
    start = time.process_time()
    module = parse(text)
    parsed = time.process_time()
    assert module.text == text
    diagnostics = module.diagnostics
    found = time.process_time()
    assert diagnostics or name in STRANGE, "no diagnostic"
    for diagnostic in diagnostics:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text), diagnostic
        assert len(diagnostic.message) < 300
    Index(module)
    names = resolve(module)
    resolved = time.process_time()
    seconds = resolved - start
    first = f"{diagnostics[0].rule} {diagnostics[0].span.line}:{diagnostics[0].span.column} {diagnostics[0].message}" if diagnostics else ""
    times = f"{parsed - start:5.2f} + {found - parsed:5.2f} + {resolved - found:5.2f} s"
    print(f"{len(text) / 1e6:6.1f} MB  {times}  {len(diagnostics):7} diagnostics, {len(names.unresolved):7} unresolved  {first}")
    assert seconds < LIMIT, f"took {seconds:.1f} s"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--scale", type=float, default=1.0, help="1 is a million braces; less is quicker")
    arguments.add_argument("--only", default="", help="cases whose name has this in it")
    arguments.add_argument("--case", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    size = int(1_000_000 * options.scale)
    if options.case:
        run(options.case, size)
        return
    failed = 0
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    chosen = [name for name in CASES if options.only in name]
    for name in chosen:
        command = [sys.executable, __file__, "--case", name, "--scale", str(options.scale)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=6 * LIMIT, env=environment, check=False)
            trouble = "" if done.returncode == 0 else "  FAILED: " + (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            print(f"{name:44} {done.stdout.strip()}{trouble[:200]}", flush=True)
            failed += done.returncode != 0
        except subprocess.TimeoutExpired:
            print(f"{name:44} FAILED: more than {6 * LIMIT:.0f} s", flush=True)
            failed += 1
    print(f"\n{len(chosen) - failed} of {len(chosen)} cases: printed back, no exception, below {LIMIT:.0f} s, a diagnostic where broken")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
