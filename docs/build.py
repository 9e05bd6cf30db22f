"""Makes the pages of the instruction set (docs/isa/), of the rules (docs/rules/), of the commands and of the API from what they describe,
and takes away those of what is no longer there.

    python docs/build.py [--check] [--pictures]

With --check nothing is written; the exit code is 1 if a page is not what it should be. --pictures makes docs/pictures/ anew instead, by the
commands that stand in its README.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ptxkit.analyses import Rule, all_rules
from ptxkit.analyses.framework.rule import PTXAS
from ptxkit.cli import main as commands
from ptxkit.isa.forms import Form
from ptxkit.isa.table import all_forms, entry_text

HERE = Path(__file__).resolve().parent
MADE = ("isa/*.md", "rules/*.md", "reference/*.md")
WRITTEN = ("isa/differences.md", "rules/not-done.md")
"""The pages among them that people wrote."""


def isa_pages() -> dict[str, str]:
    """A page a chapter file: its entries in the order of the file."""
    by_file: dict[str, list[Form]] = {}
    for form in all_forms():
        by_file.setdefault(form.file, []).append(form)
    pages = {}
    index = [
        "# The instruction set",
        "",
        "Made from `ptxkit/isa/` by `python docs/build.py`; the notation is [explained here](../isa-notation.md).",
        "",
    ]
    for file, forms in sorted(by_file.items()):
        name = file.removesuffix(".isa")
        title = name if name in {form.mnemonic for form in forms} else name.replace("_", " ").capitalize()
        lines = [f"# {title}", ""]
        seen = set()
        for form in sorted(forms, key=lambda form: form.line):
            if form.entry in seen:
                continue
            seen.add(form.entry)
            entry = entry_text(form)
            heading = ".".join(
                [form.mnemonic, *[slot.choices[0].modifier[1:] for slot in form.slots if len(slot.choices) == 1 and not slot.optional]]
            )
            lines += [f"## `{heading}`", "", "```", entry, "```", ""]
        pages[f"isa/{name}.md"] = "\n".join(lines)
        mnemonics = sorted({form.mnemonic for form in forms})
        index.append(f"* [{title}]({name}.md): {', '.join(f'`{mnemonic}`' for mnemonic in mnemonics)}")
    pages["isa/index.md"] = "\n".join([*index, ""])
    return pages


def rule_page(rule: Rule) -> str:
    return f"""# {rule.id} {rule.name}

{rule.summary[0].upper()}{rule.summary[1:]}. Severity: {rule.severity}{"" if rule.default else "; off by default"}.

{rule.why}

* How it is proved: {rule.proof[0].lower()}{rule.proof[1:]}
* ptxas {PTXAS} {rule.ptxas.rstrip(".")}.
* compute-sanitizer: {rule.sanitizer}

## Bad

```ptx
{rule.bad}
```

## Good

```ptx
{rule.good}
```
"""


def rule_pages() -> dict[str, str]:
    pages = {f"rules/{rule.id}.md": rule_page(rule) for rule in all_rules()}
    table = [
        f"| [{rule.id}]({rule.id}.md) {rule.name} | {rule.summary} | {rule.severity}{'' if rule.default else '; off by default'} |"
        for rule in all_rules()
    ]
    pages["rules/index.md"] = "\n".join(["# Rules", "", "| rule | what it finds | severity |", "| --- | --- | --- |", *table, ""])
    return pages


def command_page() -> dict[str, str]:
    """All commands with their options, as `--help` tells them."""
    lines = ["# Commands", "", "Made from `--help` by `python docs/build.py`. Exit codes: 0 clean, 1 findings, 2 could not run.", ""]
    every = list(_commands(commands, "ptxkit"))
    lines += ["| command | |", "| --- | --- |"]
    for words, command in every:
        lines.append(f"| [`{words}`](#{words.replace(' ', '-')}) | {_cell(_first(command))} |")
    lines.append("")
    for words, command in every:
        usage = [words, *(["[OPTIONS]"] if any(isinstance(one, click.Option) for one in command.params) else [])]
        usage += [_metavar(one) for one in command.params if isinstance(one, click.Argument)]
        said = inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")
        lines += [f"{'##' if words.count(' ') == 1 else '###'} {words}", "", f"`{' '.join(usage)}`", "", _marked(said), ""]
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        if options:
            lines += ["| option | |", "| --- | --- |"]
            lines += [f"| `{_names(one)}{_value(one)}` | {_cell(one.help or '')}{_default(one)} |" for one in options]
            lines.append("")
    return {"commands.md": "\n".join(lines)}


def _commands(group: click.Group, words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield f"{words} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{words} {name}")


def _first(command: click.Command) -> str:
    """The first sentence."""
    said = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    return re.sub(r"(?<=[^.])[.:] .*", ".", said)


def _marked(text: str) -> str:
    """Options as code, outside of what is code already."""
    return re.sub(r"`[^`]*`|(?<![\w-])--[a-z][\w-]*", lambda found: f"`{found[0].strip('`')}`", text)


def _cell(text: str) -> str:
    return _marked(text).replace("|", r"\|")


def _metavar(argument: click.Argument) -> str:
    return argument.metavar or f"{(argument.name or '').upper()}{'…' if argument.nargs != 1 else ''}"


def _names(option: click.Option) -> str:
    return " / ".join([", ".join(names) for names in (option.opts, option.secondary_opts) if names])


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        return " " + r"\|".join(map(str, option.type.choices))
    return f" {option.metavar or ('N' if 'range' in option.type.name else option.type.name.upper())}"


def _default(option: click.Option) -> str:
    return f" Default: {option.default}." if option.show_default and option.default is not None else ""


def api_pages() -> dict[str, str]:
    """A page for each of the three packages, with all that it exports; mkdocstrings puts the docstrings in."""
    pages = {}
    for package in ("ptxkit", "ptxkit.analyses", "ptxkit.rewriters"):
        module = importlib.import_module(package)
        names = sorted(
            (name for name in module.__all__ if name not in ("__version__", "nodes", "analyses", "machine", "rewriters")),
            key=lambda name: (name[0].isupper(), name),
        )
        lines = [f"# {package}", "", (inspect.getdoc(module) or "").partition("\n\n")[0], ""]
        for name in names:
            lines += [f"::: {package}.{name}", ""]
        if package == "ptxkit":
            lines += ["## Counts", "", "::: ptxkit.statistics.statistics", ""]
            lines += ["## The tree", ""]
            for part in ("tree", "leaves", "operands", "declarations", "statements", "module"):
                lines += [f"::: ptxkit.syntax.{part}", ""]
        pages[f"reference/{package.removeprefix('ptxkit.')}.md"] = "\n".join(lines)
    return pages


def make_pictures() -> int:
    """Runs every command of docs/pictures/README.md from the root of the checkout; 1 if one fails."""
    text = (HERE / "pictures" / "README.md").read_text(encoding="utf-8")
    for words in re.findall(r"`ptxkit (cfg .*?)`", text):
        if subprocess.run([sys.executable, "-m", "ptxkit", *shlex.split(words)], cwd=HERE.parent).returncode:
            return 1
    return 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--pictures", action="store_true")
    options = arguments.parse_args()
    if options.pictures:
        return make_pictures()
    check = options.check
    stale = 0
    pages = {**isa_pages(), **rule_pages(), **command_page(), **api_pages()}
    for name, text in pages.items():
        path = HERE / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{path} is not up to date: run python docs/build.py")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    for path in (path for pattern in MADE for path in HERE.glob(pattern)):
        if path.relative_to(HERE).as_posix() not in {*pages, *WRITTEN}:
            stale += 1
            print(f"{path} describes nothing: run python docs/build.py" if check else f"{path} is taken away")
            if not check:
                path.unlink()
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
