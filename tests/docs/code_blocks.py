"""The code blocks of README, CONTRIBUTING and docs/*.md: found, and run.

What a block is follows from the word behind its fence:

* `console`: each `$ command` is run by bash, and what it prints compared with the lines below it. A line that is only `…` stands for any
  number of lines, `…` in a line for any text; a command without lines below it prints nothing.
* `python`: executed, all blocks of a page in one namespace; with `>>>` it is a doctest.
* `ptx`: a module, or statements, without a syntax error. `isa`: entries of the instruction set. `toml`, `json`, `yaml`: what a parser of
  that format reads.
* `cuda`: lines of a `.cu` in fixtures/.
* `title="NAME"` behind the word writes the block to that file first: later blocks of the page find it.

All blocks of a page run in one folder, which holds a copy of fixtures/. A block that can't be run has a line of its own above it:
`<!-- not run: REASON -->` Any other block is an error, and so is code by indentation, which says nothing of its language.

    python tests/docs/code_blocks.py      lists the blocks, and counts them
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("docs/commands.md", "docs/editor-session.md")
"""Made by programs, as docs/isa/ and docs/rules/ are; what they show is run by the tests of those."""

RUN = ("console", "python")
READ = ("ptx", "isa", "cuda", "toml", "json", "yaml")
_MARK = re.compile(r"<!-- not run: (.+) -->")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})\s*(\w*)(.*)")
_TITLE = re.compile(r'title="([^"]+)"')
_SHELL = "|<>&;$*?`\\"
"""What only a shell understands."""


@frozen
class Block:
    """A fenced block: `line` is that of its first line, `reason` why it is not run."""

    path: Path
    line: int
    language: str
    title: str | None
    text: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def kind(self) -> str:
        """`run`, `read`, `not run`, or `unmarked`, which no block may be."""
        if self.reason:
            return "not run"
        if self.language in RUN:
            return "run"
        return "read" if self.language in READ or self.title else "unmarked"


def pages() -> list[Path]:
    """The pages that people wrote."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/tutorials").glob("*.md")),
    ]
    return [path for path in found if str(path.relative_to(ROOT)) not in GENERATED]


def blocks(path: Path) -> list[Block]:
    """The blocks of a page. Code by indentation is given as a block without a language."""
    found = []
    lines = path.read_text(encoding="utf-8").splitlines()
    reason, in_list, number = None, False, 0
    while number < len(lines):
        line = lines[number]
        if fence := _FENCE.fullmatch(line):
            indent, marks, language, rest = fence.groups()
            end = next(at for at in range(number + 1, len(lines)) if lines[at].strip() == marks)
            text = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end])
            title = _TITLE.search(rest)
            found.append(Block(path, number + 2, language, title and title[1], text + "\n", reason))
            number, reason = end, None
        elif line.startswith("    ") and not in_list and number and not lines[number - 1].strip():
            found.append(Block(path, number + 1, "", None, line, reason))
        elif line.strip():
            mark = _MARK.fullmatch(line.strip())
            reason = mark[1] if mark else None
            in_list = line.startswith(("* ", "- ", "1. ", "  ")) or (in_list and line.startswith(" "))
        number += 1
    return found


class Wrong(AssertionError):
    """A block does not do what the page says."""


def run_page(path: Path, folder: Path) -> int:
    """Runs the blocks of a page in `folder`, which is filled first; gives how many did something. Raises `Wrong`."""
    shutil.copytree(ROOT / "fixtures", folder / "fixtures")
    namespace: dict[str, Any] = {"__name__": "__page__"}
    done = 0
    for block in blocks(path):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")
        if block.kind in ("run", "read"):
            with contextlib.chdir(folder):
                _DO.get(block.language, _nothing)(block, namespace)
            done += 1
    return done


def _console(block: Block, namespace: Mapping[str, Any]) -> None:
    for line, command, shown in _commands(block):
        code, printed = _run(command)
        where = f"{block.path.relative_to(ROOT)}:{line}: $ {command}\n"
        if "Traceback" in printed or code > 3:
            raise Wrong(f"{where}exit code {code}\n{printed}")
        if not matches(shown, printed):
            raise Wrong(f"{where}--- shown\n{shown}\n--- printed\n{printed}")


def _run(command: str) -> tuple[int, str]:
    """Exit code and output with standard error. A plain call of `ptxkit` is made in this process: half of its time would be imports."""
    environment = _environment()
    bare = re.sub(r"'[^']*'|\s#.*", "", command)
    if command.startswith("ptxkit ") and not set(_SHELL) & set(bare):
        from ptxkit.cli import main

        made = CliRunner().invoke(main, shlex.split(command, comments=True)[1:], env=environment)
        if made.exception is not None and not isinstance(made.exception, SystemExit):
            raise made.exception
        return made.exit_code, made.output
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=300, check=False
    )
    return done.returncode, done.stdout


def _commands(block: Block) -> Iterator[tuple[int, str, str]]:
    """Line, command, and the output that is shown."""
    lines = block.text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    if starts[:1] != [0]:
        raise Wrong(f"{block.place}: a console block begins with a command")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        after = start + 1
        while lines[after - 1].endswith("\\"):
            after += 1
        yield block.line + start, "\n".join([lines[start][2:], *lines[start + 1 : after]]), "\n".join(lines[after:end])


def matches(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown, with `…` for what was left out; blanks at the ends of lines don't count."""
    if shown.strip() == "…":
        return True
    pattern = ""
    for line in shown.strip("\n").splitlines():
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n" if printed.strip() else "") is not None


def _environment() -> dict[str, str]:
    """`ptxkit` is this checkout, with wide lines and no colours; nothing of CUDA is found by its path."""
    shims = Path.cwd() / ".bin"
    if not shims.is_dir():
        shims.mkdir()
        for name, words in (("ptxkit", '-m ptxkit "$@"'), ("python", '"$@"')):
            (shims / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n')
            (shims / name).chmod(0o755)
    path = [
        str(shims),
        *[part for part in os.environ.get("PATH", "").split(os.pathsep) if not (Path(part) / "ptxas").exists()],
        "/usr/bin",
        "/bin",
    ]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT),
        "PTXKIT_CACHE_DIR": str(Path.cwd() / ".cache"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
    }


def _python(block: Block, namespace: dict[str, Any]) -> None:
    if block.text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, namespace, block.place, str(block.path), block.line - 1)
        said = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        if runner.run(test, out=said.write, clear_globs=False).failed:
            raise Wrong(f"{block.place}\n{said.getvalue()}")
        namespace.update(test.globs)
        return
    code = compile("\n" * (block.line - 1) + block.text, str(block.path), "exec")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, namespace)


def _ptx(block: Block, namespace: Mapping[str, Any]) -> None:
    from ptxkit import parse

    found = parse(block.text).diagnostics
    if found and parse(f".func f() {{\n{block.text}\n}}").diagnostics:
        raise Wrong(f"{block.place}: {found[0].message}")


def _isa(block: Block, namespace: Mapping[str, Any]) -> None:
    from ptxkit.isa.notation import parse_entries

    assert list(parse_entries(block.text, block.place))


def _cuda(block: Block, namespace: Mapping[str, Any]) -> None:
    def lines(text: str) -> str:
        return "\n".join(line.strip() for line in text.splitlines())

    if not any(lines(block.text) in lines(path.read_text(encoding="utf-8")) for path in ROOT.glob("fixtures/*/*.cu")):
        raise Wrong(f"{block.place}: not an excerpt of a file in fixtures/")


def _yaml(block: Block, namespace: Mapping[str, Any]) -> None:
    try:
        import yaml
    except ImportError:  # comes with mkdocs
        return
    yaml.safe_load(block.text)


def _nothing(block: Block, namespace: Mapping[str, Any]) -> None:
    """A file that other blocks use."""


_DO = {
    "console": _console,
    "python": _python,
    "ptx": _ptx,
    "isa": _isa,
    "cuda": _cuda,
    "toml": lambda block, _: tomllib.loads(block.text),
    "json": lambda block, _: json.loads(block.text),
    "yaml": _yaml,
}


def main() -> int:
    every = [block for page in pages() for block in blocks(page)]
    for block in every:
        print(f"{block.place:36} {block.language or '?':8} {block.kind}{f': {block.reason}' if block.reason else ''}")
    counts = {kind: sum(block.kind == kind for block in every) for kind in ("run", "read", "not run", "unmarked")}
    print(f"\n{len(every)} blocks: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    return 1 if counts["unmarked"] else 0


if __name__ == "__main__":
    sys.exit(main())
