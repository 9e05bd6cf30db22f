"""Every file of a folder, once through everything: does it print back, has it errors, what do the rules on registers and memory say, and
how long do all facts take beside parsing?

    python benchmarks/corpus.py [FOLDER] [--rules R,S] [--least BYTES] [--record FILE] [--budget SECONDS]

Counted are files that do not print byte for byte, the syntax errors, and the findings of the rules whose ids begin with one of `--rules`,
by rule and severity; the files of the folder are taken to be correct, so an error is a false alarm. Timed, with the cyclic garbage
collector off, in time of the processor and as the better of two, are parsing; all facts about control and registers (those of
`benchmarks/facts.py`); memory accesses, with the values that they need; and every value. Printed are the ratios to parsing, of the files
of at least --least bytes and of all.

A process for each file. `--record` keeps what was found, a line of JSON a file, and goes on where the last run was stopped; `--budget`
stops after that many seconds.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from facts import FACTS, read, timed
from values import every

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.linting.linting import lint
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent.parent

Found = dict[str, Any]
"""What was found of one file, as it stands in the record."""

TIMED = ("facts", "accesses", "values")


def examine(path: Path, rules: tuple[str, ...]) -> Found:
    """One file."""
    text = read(path)
    module = parse(text)
    findings = Counter([f"{found.rule} {found.severity}" for found in lint(module, select(rules))])
    best = {"parsing": float("inf"), **dict.fromkeys(TIMED, float("inf"))}
    for _ in range(2):
        best["parsing"] = min(best["parsing"], timed(lambda: parse(text)))
        for name, seconds in _times(text).items():
            best[name] = min(best[name], seconds)
    return {
        "size": len(text),
        "functions": len(routines(module)),
        "prints back": module.text == text,
        "syntax errors": sum(found.severity == "error" for found in module.diagnostics),
        "findings": findings,
        "seconds": {name: round(seconds, 6) for name, seconds in best.items()},
    }


def _times(text: str) -> dict[str, float]:
    """Seconds for each kind of fact of all functions of a module that nothing is known of yet; each builds on those before."""
    found = routines(parse(text))
    work = {
        "facts": lambda: [fact(routine) for routine in found for fact in FACTS],
        "accesses": lambda: [accesses(routine) for routine in found],
        "values": lambda: [every(routine) for routine in found],
    }
    return {name: timed(run) for name, run in work.items()}


def report(record: Mapping[str, Found], least: int) -> bool:
    """Prints what was found; whether nothing is wrong."""
    found = record.values()
    not_back = [path for path, one in record.items() if not one["prints back"]]
    erring = [path for path, one in record.items() if one["syntax errors"]]
    print(f"{len(record)} files, {sum(one['size'] for one in found) / 1e6:.1f} MB, {sum(one['functions'] for one in found)} functions")
    print(f"print back byte for byte: {len(record) - len(not_back)}{''.join([f', not {path}' for path in not_back])}")
    print(f"parse without an error: {len(record) - len(erring)}{''.join([f', not {path}' for path in erring])}")
    counts: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for one in found:
        counts.update(one["findings"])
        files.update(one["findings"].keys())
    print("findings (rule, severity, files):" + ("" if counts else " none"))
    for rule in sorted(counts):
        print(f"  {rule:16} {counts[rule]:7} in {files[rule]:4} files")
    for path, one in record.items():
        for rule in one["findings"]:
            if rule.endswith("error"):
                print(f"  {path}: {rule}")
    for what, chosen in ((f"of at least {least} bytes", least), ("of all sizes", 0)):
        mine = {path: one["seconds"] for path, one in record.items() if one["size"] >= chosen}
        if not mine:
            continue
        print(f"over parsing, {len(mine)} files {what}:")
        for names in (("facts",), ("accesses",), ("accesses", "values"), TIMED):
            ratios = {path: sum(seconds[name] for name in names) / seconds["parsing"] for path, seconds in mine.items()}
            worst = max(ratios, key=ratios.__getitem__)
            print(f"  {' + '.join(names):28} median {statistics.median(ratios.values()):6.2f}, most {ratios[worst]:6.2f} ({worst})")
    return not not_back and not erring and not any(rule.endswith("error") for rule in counts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    arguments.add_argument("--rules", default="R,S")
    arguments.add_argument("--least", type=int, default=100_000)
    arguments.add_argument("--record", type=Path)
    arguments.add_argument("--budget", type=float, default=float("inf"))
    options = arguments.parse_args()
    record: dict[str, Found] = {}
    if options.record and options.record.is_file():
        record = {found.pop("path"): found for found in map(json.loads, options.record.read_text().splitlines())}
    names = {path: f"{path.parent.name}/{path.name}" for path in sorted(options.folder.rglob("*.ptx"))}
    rest = [path for path, name in names.items() if name not in record]
    rules = tuple(options.rules.split(","))
    if rest:
        examine(HERE / "fixtures" / "kernels" / "reduce.sm_80.ptx", rules)  # what is imported and read here, no process reads again
    begun = time.monotonic()
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for path, found in zip(rest, pool.imap(functools.partial(examine, rules=rules), rest), strict=False):
            record[names[path]] = found
            if options.record:
                with options.record.open("a") as out:
                    out.write(json.dumps({"path": names[path], **found}) + "\n")
            if time.monotonic() - begun > options.budget:
                pool.terminate()
                break
    right = report(record, options.least)
    if len(record) < len(names):
        print(f"{len(names) - len(record)} files are left for another run")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
