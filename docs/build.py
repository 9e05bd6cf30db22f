"""Makes the pages of the instruction set (docs/isa/) and of the rules (docs/rules/) from the table and the rules.

    python docs/build.py [--check]

With --check nothing is written; the exit code is 1 if a page is not what it should be.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxkit.analyses import Rule, all_rules
from ptxkit.isa.notation import Form
from ptxkit.isa.table import all_forms, entry_text

HERE = Path(__file__).resolve().parent


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
        title = name.replace("_", " ").capitalize()
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
* ptxas {rule.ptxas}.
* compute-sanitizer: {rule.sanitizer}

## Bad

```
{rule.bad}
```

## Good

```
{rule.good}
```
"""


def rule_pages() -> dict[str, str]:
    pages = {f"rules/{rule.id}.md": rule_page(rule) for rule in all_rules()}
    table = [
        f"| [{rule.id}]({rule.id}.md) | {rule.name} | {rule.severity} | {'yes' if rule.default else 'no'} | {rule.summary} |"
        for rule in all_rules()
    ]
    pages["rules/index.md"] = "\n".join(
        ["# Rules", "", "| id | name | severity | by default | what |", "| --- | --- | --- | --- | --- |", *table, ""]
    )
    return pages


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    stale = 0
    for name, text in {**isa_pages(), **rule_pages()}.items():
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
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
