"""Every rewriter on many files: does the compiler take what comes out, is its machine code the same where it must be, and does the probe
at every instruction come out again byte for byte?

    python benchmarks/rewriters.py [--largest BYTES] [--above N] [--limit SECONDS] [--record FILE [--budget SECONDS]] [FOLDER…]

The files are those of at most `--largest` bytes (0: of any size), and of the larger ones every `--above`-th, by size; for these a compile
may take `--limit` seconds, and what takes longer is counted as slow. A file that the compiler does not take as it is counts for the laws on
bytes only. What a rewriter leaves as it was is not compiled again.

`--record` keeps what was found, a line of JSON a file, and goes on where the last run was stopped; `--budget` stops after that many
seconds (the file in hand is finished). What is printed is of all that is in the record.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ptxkit
from ptxkit import files
from ptxkit.revalidation import Outcome, Verdict, revalidate
from ptxkit.rewriters import Refused, Rewrite
from ptxkit.rewriters.dead_code import dead_code
from ptxkit.rewriters.extract import extract
from ptxkit.rewriters.noop_probe import noop_probe
from ptxkit.rewriters.performance import performance
from ptxkit.rewriters.rename import rename
from ptxkit.rewriters.renumber import renumber
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.specialize import specialize
from ptxkit.rewriters.strip import strip
from ptxkit.rewriters.strip_debug import strip_debug

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")

INTEGERS = (".u32", ".b32", ".s32", ".u64", ".b64")
SAME_CODE = ("strip-debug", "dead-code", "renumber")
"""After these the machine code should be what it was."""

NEARLY = ("probe", "probe before and after")
"""After these it is, unless the compiler decides by the number of instructions, as between a jump table and a chain of comparisons."""

Found = dict[str, Any]
"""What was found of one file, as it stands in the record."""


def _transforms(module: ptxkit.Module) -> Iterator[tuple[str, Callable[[], Rewrite]]]:
    yield "probe", lambda: noop_probe(module)
    yield "probe before and after", lambda: noop_probe(module, after=True)
    yield "probe that stays", lambda: noop_probe(module, after=True, live=True)
    yield "strip-debug", lambda: strip_debug(module)
    yield "dead-code", lambda: dead_code(module)
    yield "renumber", lambda: renumber(module)
    yield "rename symbols", lambda: rename(module, prefix="other_")
    yield "rename labels", lambda: rename(module, prefix="other_", what="labels")
    yield "rename registers", lambda: rename(module, prefix="other_", what="registers")
    kernel = next(iter(module.kernels), None)
    if kernel is not None:
        name = kernel.name
        yield "extract", lambda: extract(module, kernel=name)
        yield "performance", lambda: performance(module, kernel=name, maxnreg=255)
        scalars = [
            parameter.name for parameter in kernel.header.parameters if parameter.type in INTEGERS and not parameter.declarator.dimensions
        ]
        if scalars:
            yield "specialize", lambda: specialize(module, kernel=name, values=f"{scalars[0]}=4")
    yield "retarget", lambda: retarget(module)


def _code(cubin: bytes) -> dict[str, list[bytes]]:
    """The sections of a cubin that hold code and what the loader needs to know of it, by name: not symbols and debugging data."""
    offset, entry_size, count, names_at = struct.unpack_from("<Q", cubin, 40)[0], *struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + i * entry_size) for i in range(count)]
    names = sections[names_at][4]
    found: dict[str, list[bytes]] = {}
    for name, kind, _, _, start, size, *_ in sections:
        end = cubin.index(b"\0", names + name)
        text = cubin[names + name : end].decode()
        if text.startswith((".text.", ".nv.constant", ".nv.global", ".nv.shared")):
            found.setdefault(text, []).append(
                size.to_bytes(8, "little") if kind == 8 or text.startswith(".nv.shared") else cubin[start : start + size]
            )
    return found


class _Compiler:
    """One validator; with a limit of time in a process of its own, else in this one."""

    def __init__(self, name: str, limit: float | None) -> None:
        self.name = name
        self.limit = limit

    def __call__(self, module: ptxkit.Module) -> Verdict:
        if self.limit is None:
            return revalidate(module, using=(self.name,), isolated=False, relocatable=True)
        return revalidate(module, using=(self.name,), timeout=self.limit, relocatable=True)

    def wavers(self, module: ptxkit.Module) -> bool:
        """Whether it gives different code for one and the same text, as it does for some large kernels."""
        codes = [_code(verdict.cubin) for verdict in [self(module) for _ in range(6)] if verdict.cubin]
        return any(code != codes[0] for code in codes)


def _is_slow(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.COMPILER_BUG and verdict.reason.startswith("no answer")


def _said(verdict: Verdict) -> str:
    reasons = [found.message for found in verdict.diagnostics if found.severity is ptxkit.Severity.ERROR]
    return f"{verdict.outcome}: {(reasons or [verdict.reason])[0]}"


def examine(path: Path, using: str, limit: float | None, only: str) -> Found:
    """Every rewriter on one file."""
    text = files.read(str(path))
    module = ptxkit.parse(text, str(path))
    found: Found = {"size": path.stat().st_size, "debugging": "debug" in module.targets, "rewriters": {}, "points": Counter(), "wrong": []}
    if found["debugging"]:
        # `.target debug` asks for code that is not optimised, so without it the code is another: that is measured from here on
        module = strip_debug(module).module
        text = module.text
    compiler = _Compiler(using, limit)
    before = compiler(module) if using != "none" else None
    if before is not None and before.outcome is Outcome.VALID and before.cubin is None:
        # nvJitLink gives no code where something is to be linked from elsewhere; ptxas does
        by_ptxas = _Compiler("ptxas", limit)(module)
        if by_ptxas.outcome is Outcome.VALID:
            before, compiler = by_ptxas, _Compiler("ptxas", limit)
    found["original"] = "not asked" if before is None else "slow" if _is_slow(before) else str(before.outcome)
    for name, transform in _transforms(module):
        if only not in name:
            continue
        one: Found = {}
        found["rewriters"][name] = one
        try:
            rewrite = transform()
        except Refused as refused:
            one["refused"] = refused.diagnostics[0].name
            continue
        except Exception as error:
            found["wrong"].append(f"{name}: {type(error).__name__}: {error}")
            continue
        if name == "probe before and after":
            found["points"].update([refusal.name for refusal in rewrite.refusals])
        if name.startswith("probe"):
            one["probes"] = len(rewrite.manifest.probes)
            again = ptxkit.parse(rewrite.text)
            one["byte for byte"] = strip(rewrite.module).text == text and strip(again).text == text
            if not one["byte for byte"]:
                found["wrong"].append(f"{name}: does not come out again")
        if before is None or before.outcome is not Outcome.VALID:
            continue
        if rewrite.module.text == text:
            one["accepted"], one["unchanged"] = True, True
            continue
        after = compiler(rewrite.module)
        if _is_slow(after):
            one["slow"] = True
            continue
        one["accepted"] = after.outcome is Outcome.VALID
        if not one["accepted"]:
            found["wrong"].append(f"{name}: {_said(after)}")
        elif before.cubin and after.cubin and name in SAME_CODE + NEARLY:
            if _code(before.cubin) == _code(after.cubin):
                one["same code"] = True
            elif compiler.wavers(module):
                one["wavers"] = True
            else:
                one["same code"] = False
                if name in SAME_CODE:
                    found["wrong"].append(f"{name}: other machine code")
    return found


def survived(path: Path, using: str, limit: float, only: str) -> Found:
    """Every rewriter on one file, with the compiler in this process's child for speed; if it kills that, in a child for each compile."""
    parent, child = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=lambda: child.send(examine(path, using, None, only)))
    process.start()
    child.close()
    try:
        return parent.recv()  # type: ignore[no-any-return]
    except EOFError:
        return examine(path, using, limit, only)
    finally:
        process.join()


def report(record: Mapping[str, Found]) -> bool:
    """Prints what was found of all files; whether nothing is wrong."""
    for path, found in record.items():
        for line in found["wrong"]:
            print(f"{path}: {line}")
    originals = Counter([found["original"] for found in record.values()])
    print(
        f"\n{len(record)} files, {sum(found['size'] for found in record.values()) / 1e6:.1f} MB, the largest of "
        f"{max([found['size'] for found in record.values()], default=0)} bytes; as they are: "
        + ", ".join([f"{count} {outcome}" for outcome, count in originals.items()])
    )
    print(
        f"{sum(found['debugging'] for found in record.values())} stripped of debugging data first, "
        f"{sum(found['seconds'] for found in record.values()):.0f} s"
    )
    print(
        f"{'rewriter':24} {'files':>6} {'refused':>8} {'accepted':>12} {'unchanged':>10} {'slow':>5} {'same code':>12} {'wavers':>7} "
        f"{'byte for byte':>14} {'probes':>9}"
    )
    names = dict.fromkeys([name for found in record.values() for name in found["rewriters"]])
    refusals: Counter[str] = Counter()
    for name in names:
        mine = [found["rewriters"][name] for found in record.values() if name in found["rewriters"]]
        refusals.update([f"{name}: {one['refused']}" for one in mine if "refused" in one])

        def share(key: str, mine: list[Found] = mine) -> str:
            there = [one[key] for one in mine if key in one]
            return f"{sum(there)}/{len(there)}" if there else "-"

        print(
            f"{name:24} {len(mine):6} {sum('refused' in one for one in mine):8} {share('accepted'):>12} "
            f"{sum('unchanged' in one for one in mine):10} {sum('slow' in one for one in mine):5} {share('same code'):>12} "
            f"{sum('wavers' in one for one in mine):7} {share('byte for byte'):>14} {sum(one.get('probes', 0) for one in mine):9}"
        )
    for found in record.values():
        refusals.update({f"a point: {name}": count for name, count in found["points"].items()})
    for reason, times in refusals.most_common():
        print(f"refused {times:8}  {reason}")
    return not any(found["wrong"] for found in record.values())


def chosen(folders: list[Path], largest: int, above: int) -> Iterator[tuple[Path, bool]]:
    """The files, by size, and whether they are of the larger ones."""
    paths = {path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.ptx"))}
    ordered = sorted(paths, key=lambda path: (path.stat().st_size, path))
    small = [path for path in ordered if not largest or path.stat().st_size <= largest]
    yield from [(path, False) for path in small]
    if above:
        yield from [(path, True) for path in ordered[len(small) :: above]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=40_000)
    parser.add_argument("--above", type=int, default=0, help="of the larger files every so-many-th too")
    parser.add_argument("--every", type=int, default=1, help="only every so-many-th file of all")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a compile of one of the larger files")
    parser.add_argument("--budget", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--using", default="nvjitlink", help="nvjitlink, ptxas or none")
    parser.add_argument("--only", default="", help="rewriters whose name contains this")
    parser.add_argument("folders", nargs="*", type=Path, default=list(FOLDERS), help="or files")
    options = parser.parse_args()
    record: dict[str, Found] = {}
    if options.record and options.record.is_file():
        record = {found.pop("path"): found for found in map(json.loads, options.record.read_text().splitlines())}
    begun = time.monotonic()
    left = 0
    for path, large in list(chosen(options.folders, options.largest, options.above))[:: options.every]:
        name = f"{path.parent.name}/{path.name}"
        if name in record:
            continue
        if time.monotonic() - begun > options.budget:
            left += 1
            continue
        start = time.monotonic()
        found = (examine if large else survived)(path, options.using, options.limit, options.only)
        found["seconds"] = round(time.monotonic() - start, 2)
        record[name] = found
        if options.record:
            with options.record.open("a") as out:
                out.write(json.dumps({"path": name, **found}) + "\n")
    right = report(record)
    if left:
        print(f"{left} files are left for another run")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
