"""Every rewriter on many files: does the compiler take what comes out, is its machine code the same where it must be, and does the probe
at every instruction come out again byte for byte?

    python benchmarks/rewriters.py [--all] [--largest BYTES] [--every N] [FOLDER…]

Without --all, files up to 40,000 bytes. A file that the compiler does not take as it is counts for the laws on bytes only.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

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


def _compile(module: ptxkit.Module, using: str) -> Verdict:
    return revalidate(module, using=(using,), isolated=False, relocatable=True)


def _wavers(module: ptxkit.Module, using: str) -> bool:
    """Whether the compiler gives different code for one and the same text, as it does for some large kernels."""
    codes = [_code(verdict.cubin) for verdict in [_compile(module, using) for _ in range(6)] if verdict.cubin]
    return any(code != codes[0] for code in codes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="files of any size")
    parser.add_argument("--largest", type=int, default=40_000)
    parser.add_argument("--every", type=int, default=1, help="only every so-many-th file, by size")
    parser.add_argument("--using", default="nvjitlink", help="nvjitlink, ptxas or none")
    parser.add_argument("--only", default="", help="rewriters whose name contains this")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    arguments = parser.parse_args()
    paths = sorted({path for folder in arguments.folders for path in folder.rglob("*.ptx")}, key=lambda path: (path.stat().st_size, path))
    chosen = [path for path in paths if arguments.all or path.stat().st_size <= arguments.largest][:: arguments.every]
    done: dict[str, Counter[str]] = {}
    refusals: Counter[str] = Counter()
    wrong: list[str] = []
    wavering: set[str] = set()
    unknown = probes = debugging = 0
    start = time.perf_counter()
    for path in chosen:
        text = files.read(str(path))
        module = ptxkit.parse(text, str(path))
        if "debug" in module.targets:
            # `.target debug` asks for code that is not optimised, so without it the code is another: that is measured from here on
            debugging += 1
            module = strip_debug(module).module
            text = module.text
        before = _compile(module, arguments.using) if arguments.using != "none" else None
        using = arguments.using
        if before is not None and before.outcome is Outcome.VALID and before.cubin is None:
            # nvJitLink gives no code where something is to be linked from elsewhere; ptxas does
            by_ptxas = _compile(module, "ptxas")
            if by_ptxas.outcome is Outcome.VALID:
                before, using = by_ptxas, "ptxas"
        taken = before is not None and before.outcome is Outcome.VALID
        unknown += not taken
        for name, transform in _transforms(module):
            if arguments.only not in name:
                continue
            count = done.setdefault(name, Counter())
            count["files"] += 1
            try:
                rewrite = transform()
            except Refused as refused:
                count["refused"] += 1
                refusals[f"{name}: {refused.diagnostics[0].name}"] += 1
                continue
            except Exception as error:
                wrong.append(f"{path}: {name}: {type(error).__name__}: {error}")
                continue
            for refusal in rewrite.refusals if name == "probe before and after" else ():
                refusals[f"a point: {refusal.name}"] += 1
            if name.startswith("probe"):
                probes += len(rewrite.manifest.probes)
                again = ptxkit.parse(rewrite.text)
                if strip(rewrite.module).text == text and strip(again).text == text:
                    count["byte for byte"] += 1
                else:
                    wrong.append(f"{path}: {name}: does not come out again")
            if before is None or not taken:
                continue
            after = _compile(rewrite.module, using)
            count["compiled"] += 1
            if after.outcome is not Outcome.VALID:
                reasons = [found.message for found in after.diagnostics if found.severity is ptxkit.Severity.ERROR]
                wrong.append(f"{path}: {name}: {after.outcome}: {(reasons or [after.reason])[0]}")
                continue
            count["accepted"] += 1
            if before.cubin and after.cubin and name in SAME_CODE + NEARLY:
                count["compared"] += 1
                same = _code(before.cubin) == _code(after.cubin)
                if not same and _wavers(module, using):
                    count["compared"] -= 1
                    wavering.add(str(path))
                    continue
                count["same code"] += same
                if not same and name in SAME_CODE:
                    wrong.append(f"{path}: {name}: other machine code")
    for line in wrong:
        print(line)
    seconds = time.perf_counter() - start
    print(f"\n{len(chosen)} files, {unknown} not compiled as they are, {debugging} stripped of debugging data first")
    print(f"{len(wavering)} of which the compiler gives different code from run to run: not compared where it differed")
    print(f"{probes} probes, {seconds:.0f} s, {arguments.using}")
    print(f"{'rewriter':30} {'files':>6} {'refused':>8} {'accepted':>14} {'same code':>14} {'byte for byte':>14}")
    for name, count in done.items():
        alike = f"{count['same code']}/{count['compared']}" if name in SAME_CODE + NEARLY else "-"
        whole = f"{count['byte for byte']}/{count['files']}" if name.startswith("probe") else "-"
        accepted = f"{count['accepted']}/{count['compiled']}"
        print(f"{name:30} {count['files']:6} {count['refused']:8} {accepted:>14} {alike:>14} {whole:>14}")
    for reason, times in refusals.most_common():
        print(f"refused {times:8}  {reason}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
