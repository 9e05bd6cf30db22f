"""Probe for accesses to global memory outside of allocations, through null pointers, or at misaligned addresses."""

from __future__ import annotations

import struct

from ptxkit.rewriters.engine.edits import Before
from ptxkit.rewriters.engine.parameters import bytes_of
from ptxkit.rewriters.manifest import Read, Table, Value, site_columns
from ptxkit.rewriters.probe_code import ThreadAccess, block_number, thread_accesses, thread_number, under
from ptxkit.rewriters.probing import Plan
from ptxkit.syntax import Declaration, Function, Module

KINDS = {1: "null", 2: "misaligned", 3: "out of bounds"}
NULL_BYTES = 4096
"""Addresses below this count as null pointers, possibly with an offset."""
FIRST = 64
MOST_VARIABLES = 32


def bounds(plan: Plan, *, allocations: int = 8, act: str = "record", at: str = "") -> None:
    """Accesses to global memory through null pointers, outside of all allocations, or misaligned: their number, and the first one in
    detail.

    The host lists the accessible memory, up to this many `allocations`; the module's own variables are known. `act` is `record`, after
    which the access is still made, or `trap`, after which the buffer must be in host memory to be readable. Memory that a kernel allocates
    itself is unknown.
    """
    if act not in ("record", "trap"):
        raise ValueError(f"bounds:act is record or trap, not {act!r}")
    found = []
    own = _variables(plan.module)
    for probed in thread_accesses(plan, ("global", "generic"), at, plan.name("a")):
        hidden = _hidden(probed, own)
        if probed.access.bytes is None:
            plan.refuse(probed.routine, probed.access.instruction, "unknown-size", "how many bytes are accessed is not known beforehand")
        elif hidden is not None:
            plan.refuse(probed.routine, probed.access.instruction, "hidden-name", f"`{hidden}` is something else here than the variable")
        else:
            found.append(probed)
    if not found:
        return
    counts = plan.region("counts", 8, len(found), copied=False)
    first = plan.region("first", FIRST, 1, copied=False)
    table = plan.allocations(allocations)
    plan.batch.pinned = plan.batch.pinned or act == "trap"
    a, base, last, word, size = [plan.name(role) for role in ("a", "b", "e", "w", "z")]
    kind, x, y = [plan.name(role) for role in ("k", "x", "y")]
    known = [(f"ld{table.space}.v2.u64 {{{word}, {size}}}, [{table.words}+{16 * n}];", size) for n in range(allocations)]
    known += [(f"mov.u64 {word}, {name};", str(bytes_)) for name, bytes_ in own]
    plan.batch.known.update([name for name, _ in own])
    bad, test, won, here = [plan.name(role) for role in ("bad", "q", "won", "g")]
    for number, probed in enumerate(found):
        width = probed.access.bytes
        assert width is not None
        site = plan.site(probed.routine, probed.access.instruction, space=probed.space, kind=probed.kind, bytes=width)
        checks = [f"mov.u32 {kind}, 3;\n{_last_byte(probed, width, a, last, x)}"]
        for load, end in known:
            # relative to the start of the allocation, so that addresses before it are beyond its end
            checks.append(f"{load}\nsub.u64 {base}, {a}, {word};")
            checks.append(
                f"sub.u64 {word}, {last}, {word};\nsetp.lt.u64 {test}, {base}, {end};\nsetp.lt.and.u64 {test}, {word}, {end}, {test};"
            )
            checks.append(f"selp.u32 {kind}, 0, {kind}, {test};")
        if probed.access.align > 1:
            checks.append(
                f"and.b64 {word}, {a}, {probed.access.align - 1};\nsetp.ne.u64 {test}, {word}, 0;\nselp.u32 {kind}, 2, {kind}, {test};"
            )
        checks.append(f"setp.lt.u64 {test}, {a}, {NULL_BYTES};\nselp.u32 {kind}, 1, {kind}, {test};")
        body = "\n".join(
            [
                *checks,
                f"ld{counts.space}.u64 {base}, [{counts.words}];\nsetp.ne.u64 {test}, {base}, 0;",
                f"setp.ne.and.u32 {bad}, {kind}, 0, {test};",
                f"@{bad} red.global.add.u64 [{base}+{8 * number}], 1;\nld{first.space}.u64 {base}, [{first.words}];",
                f"mov.u32 {x}, 1;\n@{bad} atom.global.cas.b32 {x}, [{base}], 0, {site + 1};\nsetp.eq.and.u32 {won}, {x}, 0, {bad};",
                f"@{won} st.global.u32 [{base}+4], {kind};\n@{won} st.global.u64 [{base}+8], {a};",
                f"{block_number(word, x, size)}\n{thread_number(x, y)}",
                f"@{won} st.global.u64 [{base}+16], {word};\n@{won} st.global.u32 [{base}+24], {x};",
                *([f"@{bad} membar.sys;\n@{bad} trap;"] if act == "trap" else []),
            ]
        )
        declared = f"{{ .reg .b64 {a}, {base}, {last}, {word}, {size}; .reg .b32 {a}_l, {kind}, {x}, {y};"
        declared += f" .reg .pred {bad}, {test}, {won}, {here}; mov.pred {bad}, 0; mov.pred {won}, 0;"
        if probed.access.space:
            code = f"{declared}\n{under(probed.guard, probed.address)}\n{under(probed.guard, body)} }}"
        else:
            # a generic address in another space is not checked; null is in none
            where = f"{probed.address}\n!mov.pred {here}, 0;\nisspacep.global {here}, {a};"
            where += f"\nsetp.lt.u64 {test}, {a}, {NULL_BYTES};\nor.pred {here}, {here}, {test};"
            code = f"{declared}\n{under(probed.guard, where)}\n{under(f'@{here}', body)} }}"
        plan.put(Before(probed.site, probed.around(code)), site=site)


def _last_byte(probed: ThreadAccess, width: int, a: str, last: str, x: str) -> str:
    """Code for the address of the last byte accessed; `x` is a 32-bit register."""
    if probed.active and probed.number_of_bytes:
        return f"mov.u32 {x}, {probed.part};\ncvt.u64.u32 {last}, {x};\nadd.u64 {last}, {last}, {a};\nsub.u64 {last}, {last}, 1;"
    return f"add.u64 {last}, {a}, {max(width, 1) - 1};"


def _hidden(probed: ThreadAccess, variables: list[tuple[str, int]]) -> str | None:
    """A variable that is hidden by another declaration at this point."""
    scope = probed.routine.names.scope_of(probed.routine.where(probed.access.instruction))
    module = probed.routine.names.scope_of(())
    return next((name for name, _ in variables if scope.lookup(name) is not module.lookup(name)), None)


def _variables(module: Module) -> list[tuple[str, int]]:
    """The variables in global memory that are declared before the first function body, with their bytes: accesses to them are valid."""
    found = []
    for child in module.children:
        if isinstance(child, Function) and child.body is not None:
            break
        if isinstance(child, Declaration) and child.space == ".global" and child.linkage != ".extern":
            found += [(one.name.text, bytes_of(child, one)) for one in child.declarators]
    return [one for one in found if one[1]][:MOST_VARIABLES]


def decode(found: Read) -> list[Table]:
    """The tables `bounds`, a row for each failing access with its count, and `bounds-first`, the very first failure."""
    if not found.use.regions:
        return []
    failed = [(site, count) for site, count in zip(found.sites, found.sums("counts"), strict=True) if count]
    columns = site_columns([site for site, _ in failed])
    for name in ("space", "kind", "bytes"):
        columns[name] = [site.details[name] for site, _ in failed]
    columns["failures"] = [count for _, count in failed]
    ((_, data),) = found.copies("first")
    number, kind, address, block, thread = struct.unpack_from("<IIQQI", data)
    sites = {site.id: site for site in found.sites}
    shown = [sites[number - 1]] if number else []
    one = site_columns(shown)
    values: dict[str, Value] = {"failure": KINDS.get(kind, str(kind)), "address": f"{address:#x}", "block": block, "thread": thread}
    for name, value in values.items():
        one[name] = [value] if shown else []
    return [found.table("bounds", columns, {"failures": "threads", "bytes": "bytes"}), found.table("bounds-first", one)]
