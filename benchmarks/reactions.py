"""What ptxas says of the bad example of each rule: refused, a warning, a note, or nothing.

    python benchmarks/reactions.py

Needs ptxas. Each answer is compared with what the rule's file says in `ptxas`, which `ptxkit explain` and the rules' pages show; where they
differ, what to write there is printed. Good examples have to be taken. Exit status 1 if one is not, or if an answer differs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ptxkit.analyses.framework.rule import PTXAS, SILENT, all_rules, in_module

LIMIT = 60
OLDEST = 75
"""ptxas 13 makes code for no older target; what is written for them it takes."""
DULL = re.compile(r"bytes (gmem|stack)|Compiling entry|Function properties|Used \d|Compile time|Compilation|^\s*$")


def reaction(text: str, *options: str) -> str:
    """What ptxas does about a module, in the words of `Rule.ptxas`, with the first thing that it says."""
    target = re.search(r"^\.target\s+sm_(\w+)", text, re.M)
    chip = target[1] if target and (not target[1].isdigit() or int(target[1]) >= OLDEST) else str(OLDEST)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "example.ptx"
        source.write_text(text, encoding="utf-8")
        command = ["ptxas", "-v", f"-arch=sm_{chip}", *options, str(source), "-o", str(Path(folder) / "out.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    lines = (done.stdout + done.stderr).replace(f"{folder}/", "").splitlines()
    lines = [line for line in lines if not DULL.search(line) and "aborted due to errors" not in line]
    said = next((message(line) for line in lines), "")
    if done.returncode:
        return f"refuses the bad example: {said}"
    kinds = [("warns", "warning"), ("notes", "info")]
    for verdict, word in kinds:
        line = next((line for line in lines if re.search(rf"\b{word}\b", line)), None)
        if line is not None:
            return f"takes the bad example, and {verdict}: {message(line)}"
    return SILENT


def message(line: str) -> str:
    """A line of ptxas without the place and the severity."""
    return re.sub(r"^ptxas\b.*?(?:error|warning|info|fatal)\s*:\s*", "", line).strip()


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    version = subprocess.run(["ptxas", "--version"], capture_output=True, text=True, check=True).stdout
    if f"V{PTXAS}" not in version:
        print(f"the rules say what ptxas {PTXAS} does; this one is another: {version.splitlines()[-1]}")
    bad = {rule.id: answer for rule in all_rules() if (answer := reaction(in_module(rule.bad))) != rule.ptxas}
    # -c: what is declared need not be there
    good = {rule.id: answer for rule in all_rules() if (answer := reaction(in_module(rule.good), "-c")).startswith("refuses")}
    for rule, answer in bad.items():
        print(f"{rule}: {answer}")
    for rule, answer in good.items():
        print(f"{rule}: the good example is refused{answer.removeprefix('refuses the bad example')}")
    print(f"{len(all_rules())} rules, {len(bad)} other answers, {len(good)} good examples refused")
    sys.exit(bool(bad or good))


if __name__ == "__main__":
    main()
