"""`ptxkit lint` on kernels written by somebody who did not know its rules: planted bugs found and missed, alarms in correct code.

    python benchmarks/blind.py [FOLDER …] [--verify] [--show]
    python benchmarks/blind.py FOLDER --rebuild

A folder (default: each of fixtures/blind) has PTX files and `labels.tsv`: the file; `bad`, `good` (the twin of a bad one), or `trap`
(correct, but it looks wrong); the rules that would name the mistake, with commas; the section of the ISA by which it is one; and the line
where it shows. A bad file is found if an error or a warning is of one of these rules, or has the line, itself or as a related place. An
alarm is any error or warning in a correct file. `--verify` also executes each file as `ptxkit verify` does, one CTA, or two where `%ctaid`
is read, all arguments made up; `--show` prints the findings of all bad files. `--rebuild` compiles NAME.cu of the folder with nvcc anew,
for NAME.good.ptx, for NAME.bad.ptx with `BAD` defined, and for NAME.mistake.bad.ptx with `MISTAKE` too.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import attrs

from ptxkit.analyses.linting.linting import lint
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = {0: "verified", 1: "refuted", 2: "could not run", 3: "undecided"}
"""What `ptxkit verify` says by its exit code."""


@attrs.frozen
class Label:
    """What the author says of a file; line 0 in a correct one."""

    path: Path
    label: str
    rules: tuple[str, ...]
    line: int


def labels(folder: Path) -> list[Label]:
    """The files of a folder, as its `labels.tsv` has them."""
    with (folder / "labels.tsv").open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t")
        return [Label(folder / row["file"], row["label"], tuple(row["kind"].split(",")), int(row["line"] or 0)) for row in rows]


def findings(path: Path) -> list[Diagnostic]:
    """Errors and warnings of the default rules."""
    return [d for d in lint(parse(path.read_text(encoding="utf-8"), str(path))) if d.severity is not Severity.INFO]


def is_about(diagnostic: Diagnostic, label: Label) -> bool:
    return diagnostic.rule in label.rules or label.line in {diagnostic.span.line, *[place.span.line for place in diagnostic.related]}


def verdict(path: Path) -> str:
    """What `ptxkit verify` says of a file."""
    text = path.read_text(encoding="utf-8")
    grid = "2" if "%ctaid" in text else "1"
    most = re.search(r"\.maxntid (\d+)", text)
    block = [] if ".reqntid" in text else ["--block", most[1] if most else "64"]
    command = [sys.executable, "-m", "ptxkit", "verify", str(path), "--grid", grid, *block, "--budget", "20"]
    return VERDICTS.get(subprocess.run(command, capture_output=True, check=False).returncode, "broke off")


def examine(folder: Path, with_verdicts: bool, show: bool) -> None:
    """Prints what is missed and what is false in a folder, and the counts."""
    counts: Counter[str] = Counter()
    verdicts: Counter[tuple[str, str]] = Counter()
    for one in labels(folder):
        loud = findings(one.path)
        counts[one.label] += 1
        is_found = any(is_about(d, one) for d in loud)
        is_right = is_found if one.label == "bad" else not loud
        counts["found" if one.label == "bad" else f"{one.label} with an alarm"] += is_right == (one.label == "bad")
        said = verdict(one.path) if with_verdicts else ""
        verdicts[one.label, said] += 1
        if not is_right or show or (said and (said == "refuted") != (one.label == "bad")):
            what = ("found" if is_found else "missed") if one.label == "bad" else "alarm" if loud else "silent"
            print(f"  {one.path.name}: {what}{', ' + said if said else ''} ({one.label}; {','.join(one.rules)} at {one.line})")
            for d in loud:
                print(f"    {d.span.line}: {d.severity.value}[{d.rule}] {d.message}")
    correct = ", ".join(f"{counts[f'{label} with an alarm']} of {counts[label]} {label}" for label in ("good", "trap"))
    print(f"{folder.name}: found {counts['found']} of {counts['bad']}; alarms in {correct}")
    if with_verdicts:
        print("; ".join(f"{label} {said} {number}" for (label, said), number in sorted(verdicts.items())))


def rebuild(folder: Path) -> None:
    """Compiles the CUDA sources of a folder into the files that its labels name, for the target on their first line."""
    for one in labels(folder):
        source = folder / f"{one.path.name.split('.')[0]}.cu"
        if not source.exists():
            continue
        target = re.match(r"// (sm_\w+)", source.read_text(encoding="utf-8"))
        assert target is not None, source
        defined = [f"-D{word.upper()}" for word in one.path.name.split(".")[1:-1] if word != "good"]
        subprocess.run(["nvcc", "-O3", f"-arch={target[1]}", "-ptx", *defined, str(source), "-o", str(one.path)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=sorted((ROOT / "fixtures" / "blind").iterdir()))
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--rebuild", action="store_true")
    options = parser.parse_args()
    for folder in options.folders:
        if options.rebuild:
            rebuild(folder)
        else:
            examine(folder, options.verify, options.show)


if __name__ == "__main__":
    main()
