"""Probe for the values that instructions produce: how often they are warp-uniform, zero, NaN or infinite, and their range."""

from __future__ import annotations

import struct

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.registers.registers import registers
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.rewriters.engine.edits import After
from ptxkit.rewriters.engine.patterns import Site, pattern, select
from ptxkit.rewriters.manifest import Read, Table, Value, site_columns
from ptxkit.rewriters.probe_code import ACTIVEMASK, REDUX, guard_of, leading, under
from ptxkit.rewriters.probing import Buffer, Plan

ROW = 64
SIGN = {32: 1 << 31, 64: 1 << 63}


def values(plan: Plan, *, at: str = "ld.global") -> None:
    """The results of instructions that match the pattern `at`: zeros, NaNs and infinities, minimum and maximum, and how often they are
    warp-uniform.

    Each element of a vector is a separate site.
    """
    if not plan.knows(REDUX) or not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`redux.sync` needs sm_80 and PTX 7.0")
        return
    wanted = pattern(at)
    found: list[tuple[Site, str, int, str]] = []
    for site in select(plan.routines, wanted):
        routine, i = site.routine, site.index
        named, bound = registers(routine), bindings(routine)[i]
        guard = site.instruction.guard
        if guard is not None and set(named.of(i, guard)) & set(named.writes[i]):
            plan.refuse(routine, i, "guard-overwritten", "the instruction writes the predicate that it is under")
            continue
        for number in named.writes[i]:
            register = named.table[number]
            if register.symbol is None or register.bits not in (16, 32, 64) or "." in register.name:
                plan.refuse(routine, i, "no-value", f"`{register.name}` holds nothing of 16, 32 or 64 bits")
                continue
            kind = _kind(bound.type if isinstance(bound, Bound) else "", register.type, register.bits)
            found.append((site, register.name, register.bits, kind))
    if not found:
        return
    buffer = plan.region("values", ROW, len(found))
    for number, (site, name, bits, kind) in enumerate(found):
        where = plan.site(site.routine, site.index, register=name, type=kind, bits=bits)
        plan.put(After(site, _code(plan, buffer, number, name, bits, kind, guard_of(site.instruction))), site=where)


def _kind(type_: str, declared: str, bits: int) -> str:
    """The interpretation of the bits: f16, bf16, f32, f64, s or u."""
    for one in (type_, declared):
        known = types().get(one)
        if known is not None and known.bits == bits and one in (".f16", ".bf16", ".f32", ".f64"):
            return one[1:]
    known = types().get(type_)
    return "s" if known is not None and known.kind == "signed" else "u"


def _code(plan: Plan, buffer: Buffer, number: int, name: str, bits: int, kind: str, guard: str) -> str:
    base, key, sum_, other = [plan.name(role) for role in ("b", "v", "s", "o")]
    mask, copy, x, low = [plan.name(role) for role in ("m", "c", "x", "lo")]
    leader, test, nan = [plan.name(role) for role in ("l", "q", "nan")]
    half, single, double = [plan.name(role) for role in ("hf", "fs", "fd")]
    row = number * ROW
    wide = bits == 64

    def add(offset: int, predicate: str) -> str:
        lines = f"vote.sync.ballot.b32 {x}, {predicate}, {mask};\npopc.b32 {x}, {x};\ncvt.u64.u32 {sum_}, {x};"
        return f"{lines}\nsetp.ne.and.u32 {test}, {x}, 0, {leader};\n@{test} red.global.add.u64 [{base}+{row + offset}], {sum_};"

    lines = [
        f"!mov.pred {test}, 0;",
        f"ld{buffer.space}.u64 {base}, [{buffer.words}];",
        leading(leader, mask, x, base),
        buffer.copied(base, copy),
        f"@{leader} red.global.add.u64 [{base}+{row}], 1;\npopc.b32 {x}, {mask};\ncvt.u64.u32 {sum_}, {x};",
        f"@{leader} red.global.add.u64 [{base}+{row + 8}], {sum_};",
    ]
    # the bits as an unsigned 32-bit or 64-bit number
    if kind == "f16":
        lines.append(f"mov.b16 {half}, {name};\ncvt.f32.f16 {single}, {half};\nmov.b32 {low}, {single};")
    elif kind == "bf16":
        lines.append(f"mov.b16 {half}, {name};\ncvt.u32.u16 {low}, {half};\nshl.b32 {low}, {low}, 16;\nmov.b32 {single}, {low};")
    elif bits == 16:
        lines.append(f"mov.b16 {half}, {name};\ncvt.{kind}32.{kind}16 {low}, {half};")
    elif wide:
        lines.append(f"mov.b64 {key}, {name};")
    else:
        lines.append(f"mov.b32 {low}, {name};")
    size, value = ("64", key) if wide else ("32", low)
    is_float = kind.startswith(("f", "b"))
    lines.append(f"match.all.sync.b{size} {x}|{test}, {value}, {mask};\nand.pred {test}, {test}, {leader};")
    lines.append(f"@{test} red.global.add.u64 [{base}+{row + 16}], 1;\n!mov.pred {nan}, 0;")
    magnitude = SIGN[int(size)] - 1
    infinity = 0x7FF0000000000000 if wide else 0x7F800000
    bare = sum_ if wide else copy
    if is_float:
        lines.append(f"and.b{size} {bare}, {value}, {magnitude};\nsetp.eq.u{size} {test}, {bare}, 0;\n{add(24, test)}")
        lines.append(f"and.b{size} {bare}, {value}, {magnitude};\nsetp.eq.u{size} {test}, {bare}, {infinity};\n{add(40, test)}")
        lines.append(f"and.b{size} {bare}, {value}, {magnitude};\nsetp.gt.u{size} {nan}, {bare}, {infinity};\n{add(32, nan)}")
        # order as unsigned integers: invert all bits of negative numbers, and the sign of the others
        lines.append(
            f"shr.s{size} {bare}, {value}, {int(size) - 1};\nor.b{size} {bare}, {bare}, {SIGN[int(size)]};\n"
            f"xor.b{size} {value}, {value}, {bare};"
        )
    else:
        lines.append(f"setp.eq.u{size} {test}, {value}, 0;\n{add(24, test)}")
        if kind == "s":
            lines.append(f"xor.b{size} {value}, {value}, {SIGN[int(size)]};")
    if wide:
        lines.append(f"setp.ne.u64 {test}, {base}, 0;\n@{nan} mov.pred {test}, 0;\nnot.b64 {other}, {key};")
        lines.append(f"@{test} red.global.max.u64 [{base}+{row + 48}], {key};\n@{test} red.global.max.u64 [{base}+{row + 56}], {other};")
    else:
        lines.append(f"selp.b32 {x}, 0, {low}, {nan};\nredux.sync.max.u32 {x}, {x}, {mask};\ncvt.u64.u32 {sum_}, {x};")
        lines.append(f"@{leader} red.global.max.u64 [{base}+{row + 48}], {sum_};\nnot.b32 {low}, {low};")
        lines.append(f"selp.b32 {x}, 0, {low}, {nan};\nredux.sync.max.u32 {x}, {x}, {mask};\ncvt.u64.u32 {sum_}, {x};")
        lines.append(f"@{leader} red.global.max.u64 [{base}+{row + 56}], {sum_};")
    declared = f"{{ .reg .b64 {base}, {key}, {sum_}, {other}; .reg .b32 {mask}, {copy}, {x}, {low}; .reg .pred {leader}, {test}, {nan};"
    declared += f" .reg .b16 {half}; .reg .f32 {single}; .reg .f64 {double};"
    return f"{declared}\n{under(guard, chr(10).join(lines))} }}"


def decode(found: Read) -> list[Table]:
    """The table `values`: a row for each value; `uniform` counts the executions in which all converged threads had one value."""
    if not found.use.regions:
        return []
    one = found.placed("values")
    rows = [[0] * 8 for _ in range(one.rows)]
    for _, data in found.copies("values"):
        for row, new in zip(rows, struct.iter_unpack("<8Q", data), strict=True):
            for at in range(6):
                row[at] += new[at]
            row[6], row[7] = max(row[6], new[6]), max(row[7], new[7])
    columns = site_columns(found.sites)
    for name in ("register", "type", "bits"):
        columns[name] = [site.details[name] for site in found.sites]
    for at, name in enumerate(("executions", "threads", "uniform", "zeros", "nans", "infinities")):
        columns[name] = [row[at] for row in rows]
    columns["least"], columns["greatest"] = [], []
    for site, row in zip(found.sites, rows, strict=True):
        size = 64 if site.details["bits"] == 64 else 32
        kind = str(site.details["type"])
        numbers = row[1] > row[4]
        columns["least"].append(_number(kind, size, ~row[7] & (1 << size) - 1) if numbers else None)
        columns["greatest"].append(_number(kind, size, row[6]) if numbers else None)
    units = {"executions": "warps", "uniform": "warps"} | dict.fromkeys(("threads", "zeros", "nans", "infinities"), "threads")
    return [found.table("values", columns, units)]


def _number(kind: str, size: int, key: int) -> Value:
    """The number that an ordered key represents."""
    sign = SIGN[size]
    if kind == "u":
        return key
    if kind == "s":
        return key - sign
    bits = key ^ sign if key & sign else ~key & (1 << size) - 1
    return float(struct.unpack("<d" if size == 64 else "<f", bits.to_bytes(size // 8, "little"))[0])
