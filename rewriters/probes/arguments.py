"""Probe for kernel arguments."""

from __future__ import annotations

import struct

from ptxkit.isa.types import types
from ptxkit.rewriters.engine.edits import AtEntry
from ptxkit.rewriters.engine.parameters import layout
from ptxkit.rewriters.manifest import Read, Table, Value
from ptxkit.rewriters.probing import Plan

HEADER = 128
PREFIX = 32
"""Bytes of a row before the parameters: kernel number, grid and block."""


def arguments(plan: Plan, *, launches: int = 64) -> None:
    """The arguments of each launch, with grid and block, for up to this many launches.

    The first thread of the first block records the parameters as laid out in memory, structures and arrays byte by byte.
    """
    kernels = [routine for routine in plan.routines if routine.function.is_entry]
    if not kernels:
        return
    sizes = [max([one.offset + one.bytes for one in layout(routine.function.header)], default=0) for routine in kernels]
    row = -(-(PREFIX + max(sizes)) // 8) * 8
    buffer = plan.region("launches", row, launches, per="ring", copied=False, header=HEADER)
    base, at, a, b, on, word = [plan.name(role) for role in ("b", "at", "x", "y", "on", "w")]
    described = []
    for number, routine in enumerate(kernels):
        zeros = "\n".join([f"mov.u32 {b}, %{index}.{axis};\nor.b32 {a}, {a}, {b};" for index in ("tid", "ctaid") for axis in "xyz"])
        lines = [
            f"{{ .reg .b64 {base}, {at}, {word}; .reg .b32 {a}, {b}; .reg .pred {on};\nmov.u32 {a}, 0;\n{zeros}",
            f"ld{buffer.space}.u64 {base}, [{buffer.words}];\nsetp.ne.u64 {on}, {base}, 0;\nsetp.eq.and.u32 {on}, {a}, 0, {on};",
            f"mov.u64 {at}, 0;\n@{on} atom.global.add.u64 {at}, [{base}], 1;",
            f"{buffer.word(word, 1)}\nsetp.lt.and.u64 {on}, {at}, {word}, {on};",
            f"mul.lo.u64 {at}, {at}, {row};\nadd.u64 {base}, {base}, {at};",
            f"mov.u32 {a}, {number};\n@{on} st.global.u32 [{base}+{HEADER}], {a};",
        ]
        for i, (index, axis) in enumerate([(index, axis) for index in ("nctaid", "ntid") for axis in "xyz"]):
            lines.append(f"mov.u32 {a}, %{index}.{axis};\n@{on} st.global.u32 [{base}+{HEADER + 4 + 4 * i}], {a};")
        parameters = []
        for parameter in layout(routine.function.header):
            known = types().get(parameter.type)
            if known is None or known.kind == "opaque" or not parameter.bytes:
                continue
            parameters.append([parameter.name, parameter.type, parameter.offset, parameter.bytes])
            lines.append(_copied(parameter.name, parameter.offset, parameter.bytes, known.bytes, on, base, word, a))
        plan.put(AtEntry(routine, "\n".join([*lines, "}"])), site=plan.site(routine, 0))
        described.append({"kernel": routine.name, "parameters": parameters})
    plan.data["kernels"] = described


def _copied(name: str, offset: int, size: int, align: int, on: str, base: str, word: str, a: str) -> str:
    """Code that copies a parameter in pieces as large as its element's alignment allows."""
    lines = []
    at = 0
    step = min(align, 8)
    while at < size:
        register = word if step == 8 else a
        lines.append(f"ld.param.{'b' if step == 8 else 'u'}{8 * step} {register}, [{name}+{at}];")
        lines.append(f"@{on} st.global.{'b' if step == 8 else 'u'}{8 * step} [{base}+{HEADER + PREFIX + offset + at}], {register};")
        at += step
    return "\n".join(lines)


def decode(found: Read) -> list[Table]:
    """The table `arguments`: a row for each argument of each launch; pointers and bits as numbers, structures and arrays in hexadecimal."""
    if not found.use.regions:
        return []
    region = found.placed("launches").region
    ((header, data),) = found.copies("launches")
    (count,) = struct.unpack_from("<Q", header)
    rows: list[tuple[Value, ...]] = []
    for launch in range(min(count, len(data) // region.row)):
        own = data[launch * region.row : (launch + 1) * region.row]
        number, *shape = struct.unpack_from("<7I", own)
        kernel = found.use.data["kernels"][number]
        grid, block = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:]))
        if not kernel["parameters"]:
            rows.append((launch, kernel["kernel"], grid, block, None, None, None, None))
        for index, (name, type_, offset, size) in enumerate(kernel["parameters"]):
            raw = own[PREFIX + offset : PREFIX + offset + size]
            rows.append(
                (
                    launch,
                    kernel["kernel"],
                    grid,
                    block,
                    index,
                    name,
                    type_ if size == types()[type_].bytes else f"{type_}[]",
                    _shown(type_, raw),
                )
            )
    names = ("launch", "kernel", "grid", "block", "index", "parameter", "type", "value")
    notes = [f"{count} launches, of which the first {len(data) // region.row} are here"] if count > len(data) // region.row else []
    return [found.table("arguments", {name: [row[i] for row in rows] for i, name in enumerate(names)}, None, *notes)]


def _shown(type_: str, raw: bytes) -> Value:
    known = types()[type_]
    if len(raw) != known.bytes or len(raw) > 8:
        return raw.hex()
    if known.kind == "float" and type_ in (".f32", ".f64", ".f16"):
        return float(struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(raw)], raw)[0])
    return int.from_bytes(raw, "little", signed=known.kind == "signed")
