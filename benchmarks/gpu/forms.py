"""What an H200 does with every form of the instruction table, and how far the machine does the same.

    python benchmarks/gpu/forms.py prepare [--only GROUP…] [--assemble]         # counts; has ptxas take every text
    python benchmarks/gpu/forms.py run RECORD [--only GROUP…] [--seconds 480]    # on the machine with the GPU; needs ptxas on the PATH
    python benchmarks/gpu/forms.py judge RECORD [--only GROUP…] [--form WORD…] [--show N]
    python benchmarks/gpu/forms.py keep RECORD -o FILE         # of a record what a repository can hold (`kept.py`); `judge` takes it, too

A test is a kernel that executes one instruction on 2,560 sets of operands or more: all pairs of edge values, then random ones, from a
counter (`operands.py`), so that the record holds outputs alone. `judge` makes the same operands, executes the same instruction with the
semantics of `ptxkit.machine` and says for every form how many of its tests give the same bits. `--most N` takes N tests of each form:
first such as have a modifier that none before had, then by lot.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import lzma
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import device
import kept
import launcher
import operands
from formtests import ELSEWHERE, Test, other_register_tests, register_tests

from ptxkit.isa.table import all_forms

SEGMENT = 4 << 20
FILE_LIMIT, TOTAL_LIMIT, FILES = 15_500_000, 52 << 20, 6
MOST_OUTPUT = 64 << 10
KEPT = {"video": 14336, "tensor": 65536, "texture": 16384, "matrix": 16384, "memory": 8192, "atomics": 20480, "wgmma": 8192}
"""Bytes of a test's outputs that are kept, by group; of what is longer, the start and a hash of all."""
LAST = ("comparison", "video", "atomics", "matrix", "tensor", "texture", "surface", "memory")
"""Groups of which outputs are left out first where there is no room for all."""


def all_tests(only: Sequence[str] = ()) -> list[Test]:
    """Every test of these groups (all of them if none is named)."""
    found: list[Test] = []
    for form in all_forms():
        if form.file == "tcgen05.isa" or not form.modelled:
            continue
        has_address = any(rule.role == "addr" for rules in form.rules.values() for rule in rules)
        if not has_address and not form.flow and form.mnemonic not in ELSEWHERE:
            found += register_tests(form)
        found += other_register_tests(form)
    for module in _others():
        found += module.tests()
    return [test for test in {test.key: test for test in found}.values() if not only or test.group in only]


def sample(tests: Sequence[Test], options: argparse.Namespace) -> list[Test]:
    """One in `--every` tests, and of each form `--most`: first such as have a modifier that none before had, then by lot."""
    taken = tests[:: options.every]
    if not options.most:
        return list(taken)
    by_form: dict[str, list[Test]] = {}
    for test in sorted(taken, key=lambda test: zlib.crc32(test.key.encode())):
        by_form.setdefault(test.form, []).append(test)
    chosen: set[str] = set()
    for listed in by_form.values():
        seen: set[str] = set()
        new: list[Test] = []
        rest: list[Test] = []
        for test in listed:
            words = set(re.findall(r"[.:]\w+|//.*", test.name))
            (rest if words <= seen else new).append(test)
            seen |= words
        chosen.update(test.key for test in [*new, *rest][: max(options.most, len(new))])
    return [test for test in taken if test.key in chosen]


def _others() -> list[Any]:
    found = []
    for name in ("memorytests", "matrixtests", "copytests", "texturetests"):
        try:
            found.append(__import__(name))
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return found


# --- prepare ----------------------------------------------------------------------------------------------------------------------


def prepare(options: argparse.Namespace) -> None:
    begun = time.monotonic()
    tests = sample(all_tests(options.only), options)
    groups = Counter(test.group for test in tests)
    sizes: Counter[str] = Counter()
    for test in tests:
        sizes[test.group] += sum(argument.bytes for argument in test.arguments if argument.output)
    for group, count in sorted(groups.items()):
        print(f"{group:20} {count:6} tests, {sizes[group] / 2**20:7.1f} MiB of outputs")
    print(
        f"{len(tests)} tests of {len({test.form for test in tests})} forms, "
        f"in {len(device.chunks(tests))} modules ({time.monotonic() - begun:.0f} s)"
    )
    if not options.assemble:
        return
    refused = assembled(tests)
    for test, said in refused[: options.show]:
        print(f"  {test.form} {test.name}: {said}")
    print(f"ptxas refuses {len(refused)} of {len(tests)}")
    sys.exit(bool(refused))


def assembled(tests: Sequence[Test]) -> list[tuple[Test, str]]:
    """The tests that ptxas refuses, each with its reason."""
    import tempfile

    def work(chunk: Sequence[Test]) -> list[tuple[Test, str]]:
        with tempfile.TemporaryDirectory() as folder:
            _, rejected = device.compiled(chunk, Path(folder))
        return [(chunk[number], said) for number, said in rejected.items()]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [one for found in pool.map(work, device.chunks(tests)) for one in found]


# --- run --------------------------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> None:
    begun = time.monotonic()
    tests = sample(all_tests(options.only), options)
    made_of = operands.fingerprint()
    print(f"{len(tests)} tests ({time.monotonic() - begun:.0f} s)", flush=True)
    index: dict[str, Any] = {}
    blobs: dict[str, bytes] = {}
    ranks: dict[str, int] = {}
    counts: Counter[str] = Counter()

    def say(words: str) -> None:
        print(f"{time.monotonic() - begun:.0f} s: {words}", flush=True)

    for test, result in device.run_all(tests, options.workers, options.limit, begun + options.seconds, say):
        counts[result.status] += 1
        entry: dict[str, Any] = {"status": result.status, "form": test.form}
        if result.detail:
            entry["detail"] = result.detail[:300]
        if result.status == "ran":
            digest = hashlib.blake2b(result.outputs, digest_size=12).hexdigest()
            entry.update(digest=digest, bytes=len(result.outputs))
            kept = test.about.get("keep", KEPT.get(test.group, MOST_OUTPUT))
            if digest not in blobs or len(blobs[digest]) < min(kept, len(result.outputs)):
                blobs[digest] = result.outputs[:kept]
            ranks[digest] = min(ranks.get(digest, 99), LAST.index(test.group) + 1 if test.group in LAST else 0)
        elif counts[result.status] <= options.show:
            print(f"  {result.status}: {test.form} {test.name}: {result.detail[:200]}", flush=True)
        index[test.key] = entry
    say(f"ran: {dict(counts)}; packing {sum(map(len, blobs.values())) / 2**20:.0f} MiB")
    try:
        about = launcher.describe()
    except (OSError, launcher.DriverError) as error:
        about = {"device": str(error)}
    about["operands"] = made_of
    write(options.record, about, index, dict(sorted(blobs.items(), key=lambda item: ranks[item[0]])))
    say(str(about))


def write(folder: Path, about: dict[str, Any], index: dict[str, Any], blobs: dict[str, bytes]) -> None:
    """Writes the index and the outputs in files of limited size; of outputs for which there is no room, only the hash is left."""
    folder.mkdir(parents=True, exist_ok=True)
    segments: list[list[str]] = [[]]
    size = 0
    for digest, data in blobs.items():
        if size > SEGMENT:
            segments.append([])
            size = 0
        segments[-1].append(digest)
        size += len(data)

    def pack(segment: Sequence[str]) -> bytes:
        return lzma.compress(b"".join([blobs[digest] for digest in segment]), preset=1)

    where: dict[str, tuple[int, int, int]] = {}
    placed: list[tuple[int, int, int]] = []
    file, at, total = 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for segment, packed in zip(segments, pool.map(pack, segments), strict=True):
            if at + len(packed) > FILE_LIMIT:
                file, at = file + 1, 0
            if file >= FILES or total + len(packed) > TOTAL_LIMIT:
                print(f"no room for {len(segment)} outputs")
                continue
            with (folder / f"outputs{file}").open("ab" if at else "wb") as out:
                out.write(packed)
            offset = 0
            for digest in segment:
                where[digest] = (len(placed), offset, len(blobs[digest]))
                offset += len(blobs[digest])
            placed.append((file, at, len(packed)))
            at += len(packed)
            total += len(packed)
    text = json.dumps({"machine": about, "segments": placed, "outputs": where, "tests": index})
    (folder / "index.xz").write_bytes(lzma.compress(text.encode(), preset=2))


class Record:
    """A record as `run` wrote it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = json.loads(lzma.decompress((folder / "index.xz").read_bytes()))
        self.machine, self.segments, self.outputs, self.tests = found["machine"], found["segments"], found["outputs"], found["tests"]
        self._open: dict[int, bytes] = {}

    def output(self, digest: str) -> bytes | None:
        """The outputs with this hash, or their start; None if they were not kept."""
        if digest not in self.outputs:
            return None
        segment, offset, length = self.outputs[digest]
        if segment not in self._open:
            file, at, size = self.segments[segment]
            with (self.folder / f"outputs{file}").open("rb") as data:
                data.seek(at)
                if len(self._open) > 8:
                    self._open.pop(next(iter(self._open)))
                self._open[segment] = lzma.decompress(data.read(size))
        return self._open[segment][offset : offset + length]


class Records:
    """Several records, of which a later one has the word where it ran a test."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.machine = records[-1].machine
        self.tests: dict[str, Any] = {}
        for record in records:
            self.tests.update({key: entry for key, entry in record.tests.items() if entry["status"] == "ran" or key not in self.tests})

    def output(self, digest: str) -> bytes | None:
        """The longest that was kept of the outputs with this hash."""
        found = [data for record in self.records if (data := record.output(digest)) is not None]
        return max(found, key=len, default=None)


def opened(paths: Sequence[Path]) -> Any:
    """The record at these places: a file that `keep` wrote, or folders that `run` wrote."""
    return kept.Kept(paths[0]) if paths[0].is_file() else Records([Record(path) for path in paths])


def judged(options: argparse.Namespace) -> None:
    import judging

    record = opened(options.record)
    sys.exit(judging.judge(record, [test for test in sample(all_tests(options.only), options) if test.key in record.tests], options))


def keep(options: argparse.Namespace) -> None:
    record = opened(options.record)
    same = None
    if options.judged is not None:
        verdicts = [one for listed in json.loads(options.judged.read_text()).values() for one in listed]
        same = {one["test"] for one in verdicts if (one["kind"], one["total"]) == ("equal", 1)}
    tests = [test for test in sample(all_tests(options.only), options) if test.key in record.tests]
    size = kept.keep(record, tests, options.output, same)
    print(f"{options.output}: {size} bytes, {len(record.tests)} tests")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(dest="command", required=True)
    for name, action in (("prepare", prepare), ("run", run), ("judge", judged), ("keep", keep)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        if name != "prepare":
            command.add_argument("record", type=Path, nargs=None if name == "run" else "+", help="of several, a later one overrides")
        command.add_argument("--only", nargs="*", default=[], help="groups of tests, as integer")
        command.add_argument("--every", type=int, default=1, help="only one in so many tests")
        command.add_argument("--most", type=int, default=0, help="only so many tests of each form")
        command.add_argument("--show", type=int, default=20)
        if name == "prepare":
            command.add_argument("--assemble", action="store_true")
        if name == "run":
            command.add_argument("--workers", type=int, default=16)
            command.add_argument("--limit", type=float, default=40, help="seconds for one launch")
            command.add_argument("--seconds", type=float, default=480, help="after which no module is begun")
        if name == "keep":
            command.add_argument("-o", "--output", type=Path, required=True)
            command.add_argument("--judged", type=Path, help="what `judge --json` wrote of the same record, so that nothing is executed")
        if name == "judge":
            command.add_argument("--form", nargs="*", default=[], help="words of which one is in the instruction or the form's place")
            command.add_argument("--machine", action="store_true", help="launch the kernels, also where the semantics alone would do")
            command.add_argument("--json", type=Path)
    options = arguments.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
