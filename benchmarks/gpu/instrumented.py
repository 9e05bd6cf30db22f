"""Variants with every probe in them, and what their tables must say.

Counts are compared with numbers found another way: a plain atomic addition in every block, one table with another, the addresses of a trace
worked on here, and what the launch itself says (threads, blocks, arguments).
"""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plan import LARGE, ROOT, WORK, Fixture, Variant, fixtures

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import routines
from ptxkit.rewriters import AddToModule, Before, Site, apply, fresh
from ptxkit.rewriters.counting import functions_of
from ptxkit.rewriters.manifest import LaunchShape, Layout, ProbeManifest, Read, Table
from ptxkit.rewriters.probe_code import point_in
from ptxkit.rewriters.probes.memory_trace import is_sampled
from ptxkit.rewriters.probing import instrument
from ptxkit.syntax import Module, parse

ROWS = 1 << 12
ALLOCATIONS = 16
SETS: dict[str, tuple[str, ...]] = {
    "counts": ("block-counts", "edge-counts:derive=no", "warp-masks", "edge-counts:registers=1"),
    "memory": ("memory-trace:rings=1,space=global+shared+generic", "sectors", "bank-conflicts", "block-counts", "values:at=ld"),
    "sampled": ("memory-trace:rings=64,sample=4,keep=last",),
    "launch": ("cycles", "arguments", f"bounds:allocations={ALLOCATIONS}"),
    "hidden": (f"bounds:allocations={ALLOCATIONS}", "memory-trace:rings=1,space=global+generic"),
    "all": ("block-counts", "warp-masks", "memory-trace", "sectors", "bank-conflicts", "cycles", "values", "arguments", "bounds"),
    "hardware": ("sectors", "bank-conflicts"),
    "alone": ("block-counts",),
}
HEAP = {"printf_assert", "coop_groups"}
"""Fixtures whose kernels touch memory that the host does not know of: a heap on the device, a buffer for text, a grid's workspace."""


def subjects(only: Sequence[str]) -> Iterator[Fixture]:
    """The fixtures in all their shapes, and the kernels that are hard for probes in blocks of many sizes."""
    yield from fixtures(only=only, shapes=True)
    for name in ("shapes", "exits"):
        if only and name not in only:
            continue
        text = (ROOT / "fixtures" / "probes" / f"{name}.ptx").read_text()
        kernels = []
        shapes = ((1, 1, 1), (33, 1, 1), (50, 1, 1), (7, 5, 3), (128, 1, 1))
        for function, block, n in itertools.product(parse(text).kernels, shapes, (2, 5)):
            grid = [3, 2, 1]
            threads = math.prod(grid) * math.prod(block)
            args = [{"buffer": "u32", "length": max(16384, 8 * threads), "fill": "zeros", "output": True}, {"scalar": "i32", "value": n}]
            id_ = f"{function.name} {'x'.join(map(str, block))} {n}"
            kernels.append(
                {"entry": function.name, "id": id_, "grid": grid, "block": list(block), "args": args if function.header.parameters else []}
            )
        yield Fixture(name, "sm_80", text, tuple(kernels))


def brute(module: Module) -> tuple[Module, str, dict[str, int]]:
    """The module with a plain atomic addition in each block of each function, the array's name, and where the functions start in it."""
    name = fresh(module).symbol("brute")
    starts: dict[str, int] = {}
    edits: list[Any] = []
    total = 0
    for routine in routines(module):
        blocks = control_flow(routine).blocks
        starts[routine.name] = total
        for block in blocks:
            at = point_in(routine, block)
            if block.index in control_flow(routine).reachable and at is not None:
                edits.append(Before(Site(routine, at), f"red.global.add.u64 [{name}+{8 * (total + block.index)}], 1;"))
        total += len(blocks)
    edits.append(AddToModule(f".visible .global .align 8 .b64 {name}[{max(total, 1)}];"))
    return apply(module, edits, "brute", partly=True).module, name, {**starts, "": total}


def layout_of(manifest: ProbeManifest, kernel: Mapping[str, Any]) -> Layout:
    """The layout for a launch of the plan."""
    return manifest.layout(LaunchShape(tuple(kernel["grid"]), tuple(kernel["block"])), rows=ROWS)


def made(fixture: Fixture, name: str) -> tuple[str, ProbeManifest, dict[str, int], str]:
    """The text of a variant, its manifest, where the functions start in the array of plain additions (empty if none), its name."""
    module = parse(fixture.text)
    if name != "counts":
        found = instrument(module, SETS[name])
        return found.text, found.manifest, {}, ""
    # first, for probes may add blocks of their own
    module, symbol, starts = brute(module)
    found = instrument(module, SETS[name])
    return found.text, found.manifest, starts, symbol


def sets_of(fixture: Fixture) -> tuple[str, ...]:
    """The sets of probes that are tried on a fixture."""
    return ("alone",) if len(fixture.text) > LARGE else tuple(SETS)


def probe_variants(fixture: Fixture, counts: Counter[str]) -> list[Variant]:
    """The variants of a fixture, one for each set of probes."""
    variants = [Variant("control", fixture.text)]
    for name in sets_of(fixture):
        text, manifest, starts, symbol = made(fixture, name)
        _remember(fixture, name, text, manifest, starts)
        watch = {kernel["id"]: _watch(layout_of(manifest, kernel), starts, symbol, name, kernel) for kernel in fixture.kernels}
        counts[f"{name}: sites"] += len(manifest.sites)
        for refused in manifest.refused:
            counts[f"{name}: left out: {refused.reason}"] += 1
        variants.append(Variant(name, text, watch=watch, about={"set": name, "text": zlib.crc32(text.encode("utf-8", "surrogateescape"))}))
    return variants


def _path(fixture: Fixture, name: str) -> Path:
    return WORK / "manifests" / f"{fixture.name}.{fixture.target}.{name}.json"


def _remember(fixture: Fixture, name: str, text: str, manifest: ProbeManifest, starts: dict[str, int]) -> None:
    """Keeps what is needed to read the buffers, for the day when the probes are made otherwise."""
    path = _path(fixture, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    crc = zlib.crc32(text.encode("utf-8", "surrogateescape"))
    path.write_text(json.dumps({"crc": crc, "manifest": manifest.to_json(), "starts": starts}))


def recalled(fixture: Fixture, name: str, crc: int) -> tuple[ProbeManifest, dict[str, int]]:
    """The manifest of a variant, and where the functions start in the array of plain additions. Exits where it is of other text."""
    kept = json.loads(_path(fixture, name).read_text())
    if kept["crc"] != crc:
        raise SystemExit(f"{fixture.name}.{fixture.target}: {name} was prepared anew since it ran")
    return ProbeManifest.from_json(kept["manifest"]), kept["starts"]


def _watch(layout: Layout, starts: dict[str, int], symbol: str, name: str, kernel: Mapping[str, Any]) -> dict[str, Any]:
    manifest = layout.manifest
    found: dict[str, Any] = {
        "symbol": layout.symbol,
        "symbol_bytes": manifest.symbol_bytes,
        "bytes": layout.bytes,
        "regions": [[placed.offset, placed.rows, placed.stride] for placed in layout.placed],
        "allocations": manifest.allocations,
        "variables": [variable for variable, _ in manifest.variables],
    }
    if symbol:
        found["globals"] = [[symbol, 8 * max(1, starts[""])]]
    if name == "all":
        found["keep"] = False
    if name == "hidden":
        found["hide"] = hidden(kernel)
    return found


def hidden(kernel: Mapping[str, Any]) -> int:
    """The argument that the probe is not told of: the last buffer."""
    return max([i for i, argument in enumerate(kernel["args"]) if "buffer" in argument], default=-1)


# --- judging ----------------------------------------------------------------------------------------------------------------------


class Judge:
    """Compares what was read back with what must be. `checks` counts numbers compared, `wrong` says which were not as they must be."""

    def __init__(self) -> None:
        self.checks: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.made: dict[tuple[str, str, str], tuple[ProbeManifest, dict[str, int]]] = {}

    def same(self, what: str, where: str, found: object, wanted: object) -> None:
        self.checks[what] += 1
        if found != wanted:
            self.wrong.append(f"{where}: {what}: {found!r}, must be {wanted!r}")

    def result(self, fixture: Fixture, kernel: dict[str, Any], name: str, data: bytes, arguments: Sequence[str], crc: int) -> None:
        """Looks at one launch."""
        key = (fixture.name, fixture.target, name)
        if key not in self.made:
            self.made[key] = recalled(fixture, name, crc)
        manifest, starts = self.made[key]
        layout = layout_of(manifest, kernel)
        where = f"{fixture.name}.{fixture.target} {kernel['id']} {name}"
        tables = {table.name: table for table in layout.decode(data[: layout.bytes])}
        reads = [Read(layout, number, data) for number in range(len(manifest.probes))]
        if name == "counts":
            words = [int.from_bytes(data[at : at + 8], "little") for at in range(layout.bytes, len(data), 8)]
            self._counts(where, kernel, reads, tables, words, starts)
        elif name == "memory":
            self._memory(where, reads, tables)
        elif name == "launch":
            self._launch(where, fixture, kernel, tables, arguments)
        elif name == "hidden":
            self._hidden(where, fixture, kernel, tables, arguments)
        elif name == "sampled":
            self._sampled(where, kernel, tables.get("memory-trace"))
        elif name == "alone":
            self._entry(where, kernel, tables["block-counts"])

    def _entry(self, where: str, kernel: Mapping[str, Any], table: Table) -> None:
        threads = math.prod(kernel["grid"]) * math.prod(kernel["block"])
        for row in table.rows():
            if row["function"] == kernel["entry"] and row["block"] == 0 and kernel["entry"] != "loop_at_entry":
                self.same("entry block = threads", where, row["count"], threads)
                return

    def _counts(
        self,
        where: str,
        kernel: Mapping[str, Any],
        reads: Sequence[Read],
        tables: Mapping[str, Table],
        words: Sequence[int],
        starts: Mapping[str, int],
    ) -> None:
        if "block-counts" not in tables:
            return
        self._entry(where, kernel, tables["block-counts"])
        for name, column in (("block-counts", "count"), ("warp-masks", "threads")):
            for row in tables[name].rows():
                block = row["block"]
                assert isinstance(block, int)
                wanted = words[starts[str(row["function"])] + block]
                self.same(f"{name} = plain additions", f"{where} {row['function']} block {block}", row[column], wanted)
        derived, direct, few = [functions_of(reads[number]) for number in (0, 1, 3)]
        for (function, counts), (_, plain), (_, memory) in zip(derived, direct, few, strict=True):
            for way, count, other, third in zip(function["ways"], counts, plain, memory, strict=True):
                self.same("derived ways = counted ways", f"{where} {function['function']} {way}", count, other)
                self.same("counters in registers = in memory", f"{where} {function['function']} {way}", count, third)
            if not function["direct"]:
                into: Counter[int] = Counter()
                for way, count in zip(function["ways"], plain, strict=True):
                    into[way[1]] += count
                    into[way[0]] -= count
                self.same("ways in = ways out", f"{where} {function['function']}", {n for n, count in into.items() if count}, set())

    def _memory(self, where: str, reads: Sequence[Read], tables: Mapping[str, Table]) -> None:
        if "memory-trace" not in tables:
            return
        totals = tables["memory-trace-totals"].rows()[0]
        complete = totals["accesses"] == totals["kept"]
        self.checks["traces whole" if complete else "traces cut"] += 1
        records: dict[tuple[str, int, str], list[list[int]]] = {}
        for row in tables["memory-trace"].rows():
            key = (str(row["function"]), int(row["line"] or 0), str(row["kind"]))
            records.setdefault(key, []).append([int(address, 16) for address in str(row["addresses"]).split()])
        if not complete:
            return
        threads = sum([len(one) for own in records.values() for one in own])
        self.same("trace: threads", where, threads, totals["threads"])
        for name, by in (("sectors", "sectors"), ("bank-conflicts", "passes")):
            for row in tables[name].rows() if name in tables else ():
                if row["space"] == "generic":
                    continue
                own = records.get((str(row["function"]), int(row["line"] or 0), str(row["kind"])), [])
                width = int(row["bytes"] or 1)
                work = [len({address // 32 for address in one}) for one in own] if by == "sectors" else None
                at = f"{where} line {row['line']} {row['instruction']}"
                self.same(f"{name}: requests = trace", at, row["requests"], len(own))
                self.same(f"{name}: threads = trace", at, row["threads"], sum(map(len, own)))
                if work is not None:
                    self.same("sectors = those of the trace's addresses", at, row["sectors"], sum(work))
                elif width <= 4:
                    self.same("passes = those of the trace's addresses", at, row["passes"], sum([passes(one) for one in own]))
        # a block that control cannot reach has no row, and its accesses no record
        blocks = Counter({(row["function"], row["block"]): row["count"] for row in tables["block-counts"].rows()})
        sites = reads[0].sites
        twins = Counter([(site.function, site.line, site.details["kind"]) for site in sites])
        for site in sites:
            key = (site.function, site.line, str(site.details["kind"]))
            # a copy that is told how many bytes to read may read none
            if not site.text.startswith("@") and twins[key] == 1 and not re.match(r"cp\.async\.c[ag]\b.*,.*,.*,", site.text):
                found = sum(map(len, records.get(key, [])))
                self.same("trace: threads of a site = its block", f"{where} line {site.line}", found, blocks[site.function, site.block])
        values = tables["values"].column("threads") if "values" in tables else ()
        refused = {(one.function, one.instruction) for one in reads[4].layout.manifest.refused if one.probe == 4}
        for threads_, site in zip(values, reads[4].sites, strict=True):
            if not site.text.startswith("@") and (site.function, site.instruction) not in refused:
                self.same("values: threads = its block", f"{where} line {site.line}", threads_, blocks[site.function, site.block])

    def _launch(self, where: str, fixture: Fixture, kernel: Mapping[str, Any], tables: Mapping[str, Table], given: Sequence[str]) -> None:
        blocks, size = math.prod(kernel["grid"]), math.prod(kernel["block"])
        warps = tables["warp-cycles"]
        self.same("cycles: warps", where, len(warps), blocks * -(-size // 32))
        self.same("cycles: threads", where, sum([int(n or 0) for n in warps.column("threads")]), blocks * size)
        self.same("cycles: all were seen to end", where, [note for note in warps.notes if "not seen" in note], [])
        self.same("cycles: none ends before it starts", where, [n for n in warps.column("cycles") if int(n or 0) < 0], [])
        rows = tables["arguments"].rows()
        self.same("arguments: kernel and shape", where, {(row["kernel"], row["grid"], row["block"]) for row in rows}, {
            (kernel["entry"], "x".join(map(str, kernel["grid"])), "x".join(map(str, kernel["block"])))
        })  # fmt: skip
        for row in rows:
            if row["index"] is None or int(row["index"]) >= len(given):
                continue
            raw = bytes.fromhex(given[int(row["index"])])
            value = row["value"]
            shown = raw.hex() if isinstance(value, str) else int.from_bytes(raw, "little", signed=isinstance(value, int) and value < 0)
            if isinstance(value, float):
                continue
            self.same("arguments: value", f"{where} {row['parameter']}", value, shown)
        if fixture.name not in HEAP and "bounds" in tables:
            self.same("bounds: nothing found", where, [(r["line"], r["failures"]) for r in tables["bounds"].rows()], [])

    def _hidden(self, where: str, fixture: Fixture, kernel: Mapping[str, Any], tables: Mapping[str, Table], given: Sequence[str]) -> None:
        if not {"memory-trace", "bounds"} <= tables.keys() or fixture.name in HEAP or hidden(kernel) < 0:
            return
        totals = tables["memory-trace-totals"].rows()[0]
        if totals["accesses"] != totals["kept"]:
            return
        argument = kernel["args"][hidden(kernel)]
        start = int.from_bytes(bytes.fromhex(given[hidden(kernel)]), "little")
        item = {"8": 1, "16": 2, "32": 4, "64": 8}[argument["buffer"].lstrip("iufb")]
        end = start + argument["length"] * item
        wanted: Counter[tuple[object, object]] = Counter()
        for row in tables["memory-trace"].rows():
            wanted[row["function"], row["line"]] += sum([start <= int(address, 16) < end for address in str(row["addresses"]).split()])
        found: Counter[tuple[object, object]] = Counter()
        for row in tables["bounds"].rows():
            found[row["function"], row["line"]] += int(row["failures"] or 0)
        self.same("bounds: accesses to memory it was not told of", where, +found, +wanted)
        if +wanted:
            first = {(row["function"], row["line"]) for row in tables["bounds-first"].rows()}
            self.same("bounds: the first is one of them", where, first <= set(+wanted), True)

    def _sampled(self, where: str, kernel: Mapping[str, Any], table: Table | None) -> None:
        warps = -(-math.prod(kernel["block"]) // 32)
        for row in table.rows() if table is not None else ():
            number = int(row["block"] or 0) * warps + int(row["warp"] or 0)
            self.same("sampled: the warp is one of the sample", where, is_sampled(number, 4), True)


def passes(addresses: Sequence[int]) -> int:
    """How often the banks must be asked for the words of these addresses."""
    words = {address // 4 for address in addresses}
    return max(Counter([word % 32 for word in words]).values())
