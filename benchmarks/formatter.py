"""The formatter on many files: is its layout stable, is the machine code the same before and after, how long does it take beside parsing?

    python benchmarks/formatter.py [--using nvjitlink] [--limit SECONDS] [--record FILE [--budget SECONDS]] [FOLDER…]

The files are taken by size, the smallest first. Both texts are compiled with the same validator in a child process (where nvJitLink gives
no code, mostly because something is to be linked from elsewhere, with ptxas); a compile that takes longer than `--limit` seconds counts as
slow.
The cubins are compared byte by byte; a file with debugging data has the lines of its PTX in the cubin, so there all sections are
compared but those that hold these lines and the tables of names. Where another section differs (what refers to symbols by their number
does), the bytes have to be equal when both texts are without debugging data. `--using none` compiles nothing.

`--record` keeps what was found, a line of JSON a file, and goes on where the last run was stopped; `--budget` stops after that many
seconds. What is printed is of all that is in the record.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import ptxkit
from ptxkit import files
from ptxkit.formatter import CannotFormat, format_module
from ptxkit.memo import collector_paused
from ptxkit.revalidation import Outcome, Verdict, revalidate
from ptxkit.rewriters.strip_debug import strip_debug

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")
NAMES = ("strtab", "symtab")
"""How the names of tables of names and symbols end: the sections with lines of the PTX are among these."""
LINES = ("nv_debug_line_sass", "nv_debug_ptx_txt")
"""What stands in the names of sections with lines of the PTX: its text, and which line an instruction comes from."""
NO_BYTES = (".nv.shared", ".nv.global")

Found = dict[str, Any]
"""What was found of one file, as it stands in the record."""


def sections(cubin: bytes) -> list[tuple[str, bytes]]:
    """The sections of a cubin with their names, without those that have lines of the PTX in them."""
    offset, entry_size, count, names_at = struct.unpack_from("<Q", cubin, 40)[0], *struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + i * entry_size) for i in range(count)]
    names = headers[names_at][4]
    found = []
    for name, kind, _, _, start, size, *_ in headers:
        text = cubin[names + name : cubin.index(b"\0", names + name)].decode()
        if not text.endswith(NAMES) and not any(word in text for word in LINES):
            empty = kind == 8 or text.startswith(NO_BYTES)
            found.append((text, size.to_bytes(8, "little") if empty else cubin[start : start + size]))
    return found


def differing(one: bytes, other: bytes) -> set[str]:
    """The names of the sections that are not equal."""
    left, right = sections(one), sections(other)
    if [name for name, _ in left] != [name for name, _ in right]:
        return {"the list of sections"}
    return {name for (name, content), (_, again) in zip(left, right, strict=True) if content != again}


def compiled(text: str, path: str, using: str, limit: float) -> tuple[str, Verdict]:
    """The verdict on a text, with the validator that gave it."""
    module = ptxkit.parse(text, path)
    verdict = revalidate(module, using=(using,), relocatable=True, timeout=limit)
    if using == "nvjitlink" and verdict.cubin is None:
        return "ptxas", revalidate(module, using=("ptxas",), relocatable=True, timeout=limit)
    return using, verdict


def outcome(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.COMPILER_BUG and verdict.reason.startswith("no answer"):
        return "slow"
    return str(verdict.outcome)


def examine(path: Path, using: str, limit: float) -> Found:
    text = files.read(str(path))
    found: Found = {"size": path.stat().st_size}
    with collector_paused():
        start = time.process_time()
        module = ptxkit.parse(text, str(path))
        middle = time.process_time()
        try:
            after = format_module(module)
        except CannotFormat as error:
            found["refused"] = str(error)
            return found
        found["parse"], found["format"] = middle - start, time.process_time() - middle
    found["stable"] = format_module(ptxkit.parse(after)) == after
    if using == "none":
        return found
    start_wall = time.perf_counter()
    validator, verdict = compiled(text, str(path), using, limit)
    found["original"] = outcome(verdict)
    if verdict.outcome is Outcome.VALID and verdict.cubin is not None:
        _, again = compiled(after, str(path), validator, limit)
        found["formatted"] = outcome(again)
        if again.outcome is Outcome.VALID and again.cubin is not None:
            found["same"] = "bytes" if verdict.cubin == again.cubin else "sections"
            differ = differing(verdict.cubin, again.cubin) if found["same"] == "sections" else set()
            if differ and not any(".text" in name for name in differ):
                stripped = [strip_debug(ptxkit.parse(one)).text for one in (text, after)]
                cubins = [compiled(one, str(path), validator, limit)[1].cubin for one in stripped]
                if cubins[0] is not None and cubins[0] == cubins[1]:
                    found["same"], differ = "stripped", set()
            if differ:
                found["same"], found["differ"] = "no", sorted(differ)
                # some kernels come out in one of several ways, from one and the same text
                ways = [[compiled(one, str(path), validator, limit)[1].cubin for _ in range(6)] for one in (text, after)]
                if any(one and other and not differing(one, other) for one in ways[0] for other in ways[1]):
                    found["same"] = "one of several"
        elif found["formatted"] != "slow":
            found["said"] = [str(said.message) for said in again.diagnostics][:3] or again.reason
    found["compile"] = time.perf_counter() - start_wall
    return found


def report(record: dict[str, Found]) -> bool:
    """Prints what was found of all files; whether nothing is wrong."""
    everything = list(record.values())
    done = [found for found in everything if "stable" in found]
    wrong = [
        path
        for path, found in record.items()
        if not found.get("stable") or found.get("same") == "no" or ("formatted" in found and found["formatted"] not in ("valid", "slow"))
    ]
    for path in wrong:
        print(f"{path}: {record[path]}")
    size = sum(found["size"] for found in everything) / 1e6
    print(f"{len(everything)} files, {size:.1f} MB, the largest of {max([found['size'] for found in everything], default=0)} bytes")
    print(f"stable: {sum(found['stable'] for found in done)}/{len(done)}, refused: {len(everything) - len(done)}")
    originals = Counter(found.get("original", "not compiled") for found in done)
    print("as they are: " + ", ".join(f"{count} {what}" for what, count in originals.items()))
    compared = [found for found in done if "same" in found]
    kinds = Counter(found["same"] for found in compared)
    print(
        f"machine code compared: {len(compared)} files, {sum(found['size'] for found in compared) / 1e6:.1f} MB; equal by bytes: "
        f"{kinds['bytes']}, by sections: {kinds['sections']}, without debugging data: {kinds['stripped']}, one of several "
        f"that the compiler makes of one text: {kinds['one of several']}, other: {kinds['no']}"
    )
    large = [found["format"] / found["parse"] for found in done if found["size"] >= 100_000]
    total = sum(found["format"] for found in done) / sum(found["parse"] for found in done) if done else 0
    if large:
        print(
            f"formatting over parsing: {total:.2f} in all; files of 100 kB or more: median {statistics.median(large):.2f}, "
            f"worst {max(large):.2f}"
        )
    return not wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--using", default="nvjitlink", choices=("nvjitlink", "ptxas", "none"))
    arguments.add_argument("--limit", type=float, default=60)
    arguments.add_argument("--record", type=Path)
    arguments.add_argument("--budget", type=float, default=float("inf"))
    options = arguments.parse_args()
    record: dict[str, Found] = {}
    if options.record and options.record.exists():
        record = {line["path"]: line for line in map(json.loads, options.record.read_text().splitlines())}
    paths = [path for folder in options.folders or FOLDERS for path in ([folder] if folder.is_file() else folder.rglob("*.ptx"))]
    start = time.monotonic()
    for path in sorted(set(paths), key=lambda path: (path.stat().st_size, path)):
        if str(path) in record:
            continue
        if time.monotonic() - start > options.budget:
            print(f"stopped after {options.budget:.0f} s", file=sys.stderr)
            break
        record[str(path)] = found = {"path": str(path), **examine(path, options.using, options.limit)}
        if options.record:
            with options.record.open("a") as file:
                file.write(json.dumps(found) + "\n")
    sys.exit(0 if report(record) else 1)


if __name__ == "__main__":
    main()
