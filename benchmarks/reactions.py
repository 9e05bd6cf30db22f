"""What ptxas says of the bad example of each rule: refused, a warning, a note, or nothing.

    python benchmarks/reactions.py [--write]

Needs ptxas. With `--write` the answers become `analyses/rules/ptxas.tsv`, which `ptxkit explain` and the pages of the rules tell; without,
they are compared with it. Good examples have to be taken: exit status 1 if one is not, or if an answer is another than the one written.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ptxkit.analyses.framework.reactions import FILE, Reaction, reactions, written
from ptxkit.analyses.framework.rule import all_rules, in_module

LIMIT = 60
OLDEST = 75
"""ptxas 13 makes code for no older target; what is written for them it takes."""
DULL = re.compile(r"bytes (gmem|stack)|Compiling entry|Function properties|Used \d|Compile time|Compilation|^\s*$")


def reaction(text: str, *options: str) -> Reaction:
    """What ptxas does about a module: its first word about it."""
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
        return Reaction("refuses", said)
    kinds = [("warns", "warning"), ("notes", "info")]
    for verdict, word in kinds:
        line = next((line for line in lines if re.search(rf"\b{word}\b", line)), None)
        if line is not None:
            return Reaction(verdict, message(line))
    return Reaction("silent", "")


def message(line: str) -> str:
    """A line of ptxas without the place and the severity."""
    return re.sub(r"^ptxas\b.*?(?:error|warning|info|fatal)\s*:\s*", "", line).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    found = {rule.id: reaction(in_module(rule.bad)) for rule in all_rules()}
    # -c: what is declared need not be there
    refused = [(rule.id, good.message) for rule in all_rules() if (good := reaction(in_module(rule.good), "-c")).verdict == "refuses"]
    for rule, said in refused:
        print(f"{rule}: the good example is refused: {said}")
    version = subprocess.run(["ptxas", "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"V(\d+\.\d+\.\d+)", version)
    assert release is not None
    if asked.write:
        FILE.write_text(written(release[1], found), encoding="utf-8")
    other = [rule for rule in found if reactions().get(rule) != found[rule]] if not asked.write else []
    for rule in other:
        print(f"{rule}: {found[rule]} is not what is written")
    sys.exit(bool(refused or other))


if __name__ == "__main__":
    main()
