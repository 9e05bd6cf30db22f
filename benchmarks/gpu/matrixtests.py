"""Tests of what moves matrices between registers and memory, and of wgmma."""

# ruff: noqa: E501 -- PTX stands as it is written

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from formtests import Buffer, Test, bound_as, element, opcodes, place_of, possible, unknown
from memorytests import HEAD
from operands import offsets

from ptxkit.isa.forms import Form
from ptxkit.isa.table import forms
from ptxkit.isa.types import types

COUNT, BLOCK = 2048, 128
WARP_BYTES = 4096
"""Memory of a warp for wmma: room for a matrix with rows twice as long as they need be."""


def tests() -> Iterator[Test]:
    """All of this module."""
    for form in forms("ldmatrix"):
        if form.modelled:
            yield from _ldmatrix(form)
    for form in forms("stmatrix"):
        yield from _stmatrix(form)
    for form in forms("wmma"):
        if ".load" in form.syntax or ".store" in form.syntax:
            yield from _wmma(form)
    for form in forms("wgmma"):
        if "mma_async" in form.syntax:
            yield from _wgmma(form)


def _able(form: Form) -> Iterator[Any]:
    for candidate in opcodes(form):
        for variant in form.variants:
            bound = bound_as(candidate, variant, [unknown(item) for item in variant])
            if bound is not None and possible(bound.requirement) and not bound.removed:
                yield candidate, variant, bound
                break


def _end(code: list[str], registers: list[str], bits: int, count: int) -> str:
    kinds = [f"b{bits}"] * len(registers)
    for register, offset in zip(registers, offsets(kinds, count), strict=False):
        code += [element("%tout", offset, bits // 8), f"st.global.b{bits} [%tp], {register};"]
    return "\n".join([*code, "ret;", "}"])


def _ldmatrix(form: Form) -> Iterator[Test]:
    for candidate, _, bound in _able(form):
        width = bound.operand("r").width
        space = candidate.slots.get(".ss", "")
        names = [f"%d{n}" for n in range(width)]
        opcode = form.mnemonic + "".join(candidate.modifiers)
        # 64 rows of 16 bytes for each warp: a thread brings two, and names any
        code = [
            HEAD.format(
                more="", variables=f".shared .align 16 .b8 rows[{32 * BLOCK}]; .reg .b32 {', '.join(names)}, %row; .reg .b64 %x0, %x1;"
            )
        ]
        code.append(
            "mul.wide.u32 %tq, %ti, 32; add.u64 %tp, %tin, %tq; mov.u64 %ta, rows; mov.u32 %tt, %tid.x; mul.wide.u32 %tq, %tt, 32; add.u64 %ta, %ta, %tq;"
        )
        code += [f"ld.global.v2.b64 {{%x0, %x1}}, [%tp+{at}]; st.shared.v2.b64 [%ta+{at}], {{%x0, %x1}};" for at in (0, 16)]
        code.append("bar.sync 0;")
        code.append(f"mul.wide.u32 %tq, %ti, 4; add.u64 %tp, %tin, %tq; ld.global.b32 %row, [%tp+{32 * COUNT}]; and.b32 %row, %row, 63;")
        code.append(
            "and.b32 %tt, %tt, -32; mul.wide.u32 %tq, %tt, 32; mov.u64 %ta, rows; add.u64 %ta, %ta, %tq; mul.wide.u32 %tq, %row, 16; add.u64 %ta, %ta, %tq;"
        )
        if not space:
            code.append("cvta.shared.u64 %ta, %ta;")
        instruction = f"{opcode} {{{', '.join(names)}}}, [%ta];"
        code.append(instruction)
        arguments = (Buffer("sets", ("b64", "b32"), 4 * COUNT), Buffer("zeros", ("b32",) * width, COUNT, output=True))
        yield Test(instruction, "matrix", place_of(form), _end(code, names, 32, COUNT), arguments, COUNT // BLOCK, BLOCK)


def _stmatrix(form: Form) -> Iterator[Test]:
    for candidate, _, bound in _able(form):
        width = bound.operand("r").width
        space = candidate.slots.get(".ss", "")
        names = [f"%x{n}" for n in range(width)]
        opcode = form.mnemonic + "".join(candidate.modifiers)
        code = [
            HEAD.format(more="", variables=f".shared .align 16 .b8 rows[{16 * BLOCK}]; .reg .b32 {', '.join(names)}, %row; .reg .b64 %z;")
        ]
        for name, offset in zip(names, offsets(["b32"] * width, COUNT), strict=False):
            code += [element("%tin", offset, 4), f"ld.global.b32 {name}, [%tp];"]
        code.append(
            "mov.u64 %z, 0; mov.u32 %tt, %tid.x; mul.wide.u32 %tq, %tt, 16; mov.u64 %tp, rows; add.u64 %tp, %tp, %tq; st.shared.v2.b64 [%tp], {%z, %z}; bar.sync 0;"
        )
        # the rows of a warp in another order: 5 is odd, so that every row is there once
        code.append(
            "mul.lo.u32 %row, %tt, 5; shr.u32 %tu, %ti, 5; add.u32 %row, %row, %tu; and.b32 %row, %row, 31; and.b32 %tu, %tt, -32; add.u32 %row, %row, %tu;"
        )
        code.append(
            "mul.wide.u32 %tq, %row, 16; mov.u64 %ta, rows; add.u64 %ta, %ta, %tq;" + ("" if space else " cvta.shared.u64 %ta, %ta;")
        )
        instruction = f"{opcode} [%ta], {{{', '.join(names)}}};"
        code += [
            instruction,
            "bar.sync 0; mul.wide.u32 %tq, %ti, 16; add.u64 %ta, %tout, %tq; .reg .b64 %y; ld.shared.v2.b64 {%z, %y}, [%tp]; st.global.v2.b64 [%ta], {%z, %y};",
        ]
        arguments = (Buffer("sets", ("b32",) * width, COUNT), Buffer("zeros", ("b8",), COUNT * 16, output=True))
        yield Test(instruction, "matrix", place_of(form), "\n".join([*code, "ret;", "}"]), arguments, COUNT // BLOCK, BLOCK)


def _wmma(form: Form) -> Iterator[Test]:
    for candidate in opcodes(form):
        for variant in form.variants:
            bound = bound_as(candidate, variant, [unknown(item) for item in variant])
            if bound is None or not possible(bound.requirement) or (bound.removed and ".aligned" not in candidate.modifiers):
                continue
            operand = bound.operand("r")
            assert operand is not None
            type = operand.types[0]
            bits, width = types()[type].bits, max(operand.width, 1)
            space = candidate.slots.get(".ss", ".generic")
            is_store = ".store" in candidate.modifiers
            stride = ", %stride" if any(item.kind == "plain" and item.name == "stride" for item in variant) else ""
            names = [f"%x{n}" for n in range(width)]
            opcode = form.mnemonic + "".join(candidate.modifiers)
            number = _natural(candidate) * 2
            count = 512 if is_store else COUNT
            shared = "shared" in space
            variables = (
                f".shared .align 128 .b8 mine[{WARP_BYTES * BLOCK // 32}]; " if shared else ""
            ) + f".reg .b{bits} {', '.join(names)}; .reg .b32 %stride; .reg .b64 %y, %z, %tw;"
            code = [
                HEAD.format(more="", variables=variables),
                f"mov.u32 %stride, {number}; mov.u32 %tt, %laneid; shr.u32 %tu, %ti, 5; mov.u32 %ts, %tid.x; shr.u32 %ts, %ts, 5;",
            ]
            piece = WARP_BYTES // 32
            code.append(
                f"mul.wide.u32 %tq, %tu, {WARP_BYTES}; add.u64 %tw, {'%tout' if is_store else '%tin'}, %tq; mul.wide.u32 %tq, %tt, {piece}; add.u64 %tp, %tw, %tq;"
            )
            if shared:
                code.append(
                    f"mul.wide.u32 %tq, %ts, {WARP_BYTES}; mov.u64 %ta, mine; add.u64 %tw, %ta, %tq; mul.wide.u32 %tq, %tt, {piece}; add.u64 %ta, %tw, %tq;"
                )
                for at in range(0, piece, 16):
                    source = "mov.u64 %y, 0; mov.u64 %z, 0;" if is_store else f"ld.global.v2.b64 {{%y, %z}}, [%tp+{at}];"
                    code.append(f"{source} st.shared.v2.b64 [%ta+{at}], {{%y, %z}};")
                code.append("bar.sync 0;")
            elif space == ".generic":
                code.append("cvta.global.u64 %tw, %tw;")
            listed = "{" + ", ".join(names) + "}"
            if is_store:
                for name, offset in zip(names, offsets([f"b{bits}"] * width, count), strict=False):
                    code += [element("%tin", offset, bits // 8, "%y"), f"ld.global.b{bits} {name}, [%y];"]
                instruction = f"{opcode} [%tw], {listed}{stride};"
                code.append(instruction)
                if shared:
                    code.append("bar.sync 0;")
                    code += [
                        f"ld.shared.v2.b64 {{%y, %z}}, [%ta+{at}]; st.global.v2.b64 [%tp+{at}], {{%y, %z}};" for at in range(0, piece, 16)
                    ]
                arguments = (Buffer("sets", (f"b{bits}",) * width, count), Buffer("zeros", ("b8",), count * piece, output=True))
                text = "\n".join([*code, "ret;", "}"])
            else:
                instruction = f"{opcode} {listed}, [%tw]{stride};"
                code.append(instruction)
                # a fragment is opaque to the manual, so what is where is recorded and compared among loads and stores alone
                arguments = (Buffer("sets", ("b64",), count * piece // 8), Buffer("zeros", (f"b{bits}",) * width, count, output=True))
                text = _end(code, names, bits, count)
            yield Test(instruction, "matrix", place_of(form), text, arguments, count // BLOCK, BLOCK)


def _natural(candidate: Any) -> int:
    """The length of a row or column in memory, in elements."""
    import re

    shape = next(m for m in candidate.modifiers if re.fullmatch(r"\.m\d+n\d+k\d+", m))
    m, n, k = map(int, re.findall(r"\d+", shape))
    row = ".row" in candidate.modifiers
    if ".a" in candidate.modifiers:
        return k if row else m
    if ".b" in candidate.modifiers:
        return n if row else k
    return n if row else m


# --- wgmma ------------------------------------------------------------------------------------------------------------------------

SHARED = 64 << 10
B_AT = 16 << 10
SWIZZLES = {0: "none", 1: "128", 2: "64", 3: "32"}
WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a row of a swizzled tile."""


def _wgmma(form: Form) -> Iterator[Test]:
    """Every shape with the plain layout; and for one small shape, scales, transposes, swizzles, and A in registers."""
    for candidate in opcodes(form, fixed=("{.aligned}",)):
        if ".aligned" not in candidate.modifiers:
            continue
        shape = candidate.slots[".shape"]
        n = int(shape[shape.index("n") + 1 : shape.rindex("k")])
        for variant in form.variants:
            for number, config in enumerate(_configurations(candidate, variant, small=n == 16, medium=n in (8, 128, 256))):
                test = _wgmma_test(form, candidate, variant, n, config, number)
                if test is not None:
                    yield test


def _configurations(candidate: Any, variant: Any, small: bool, medium: bool) -> Iterator[dict[str, int]]:
    names = [item.name for item in variant]
    plain = {
        "swizzle": 0,
        "scaled": 1,
        "ascale": 1,
        "bscale": 1,
        "atrans": 0,
        "btrans": 0,
        "registers": 0,
        "sel": 0,
        "lbo": 128,
        "sbo": 256,
    }
    both = "btrans" in names
    only_registers = "atrans" in names and not both
    if only_registers:
        plain["registers"] = 1
    yield plain
    if medium or small:
        for swizzle in (1, 2, 3):
            yield {**plain, "swizzle": swizzle}
        yield {**plain, "scaled": 0}
    if not small:
        return
    if "ascale" in names:
        yield {**plain, "ascale": -1}
        yield {**plain, "bscale": -1, "scaled": 2}
        yield {**plain, "ascale": -1, "bscale": -1}
    if "atrans" not in names:
        yield {**plain, "registers": 1}
        yield {**plain, "registers": 1, "swizzle": 1}
    if "sel" in names and plain["sel"] == 0:
        yield {**plain, "sel": 1}
    if "atrans" in names:
        for swizzle in (0, 1, 2, 3):
            # with A in registers the one flag is that of B
            for flags in ((1, 0), (0, 1), (1, 1)) if both else ((1, 0),):
                yield {
                    **plain,
                    "swizzle": swizzle,
                    "atrans": flags[0],
                    "btrans": flags[1],
                    "lbo": 1024,
                    "sbo": 128 if swizzle == 0 else 2048,
                }
    for swizzle in (0, 1, 2, 3):
        yield {**plain, "swizzle": swizzle, "lbo": 1024, "sbo": 128 if swizzle == 0 else 1024 * (1 + swizzle)}


def _descriptor(offset_register: str, config: dict[str, int]) -> str:
    """Code that makes a matrix descriptor of an address in shared memory (in 32 bits) into %td."""
    swizzle = config["swizzle"]
    pitch = WIDTHS[swizzle]
    sbo = config["sbo"] if swizzle == 0 or config["sbo"] != 256 else 8 * pitch
    high = (sbo >> 4) | (swizzle << 30)
    low = (config["lbo"] >> 4) << 16
    return f"shr.u32 %tt, {offset_register}, 4; and.b32 %tt, %tt, 16383; or.b32 %tt, %tt, {low}; mov.u32 %tu, {high}; mov.b64 %td, {{%tt, %tu}};"


def _wgmma_test(form: Form, candidate: Any, variant: Any, n: int, config: dict[str, int], number: int) -> Test | None:
    opcode = form.mnemonic + "".join(candidate.modifiers)
    modifiers = candidate.modifiers
    shape_at = modifiers.index(candidate.slots[".shape"])
    named = [m[1:] for m in modifiers[shape_at + 1 :] if m in types()]
    dtype, atype = named[0], named[1]
    half = dtype == "f16"
    count = n // 4 if half else n // 2
    d = [f"%d{i}" for i in range(count)]
    a = [f"%a{i}" for i in range(4)]
    names = [item.name for item in variant]
    if config["sel"] and (atype in ("e4m3", "e5m2", "s8", "u8")):
        return None
    written = {
        "d": "{" + ", ".join(d) + "}",
        "a": "{" + ", ".join(a) + "}" if config["registers"] else "%da",
        "b": "%db",
        "meta": "%meta",
        "sel": str(config["sel"]),
        "scaled": {0: "0", 1: "1", 2: "%ps"}[config["scaled"]],
        "ascale": str(config["ascale"]),
        "bscale": str(config["bscale"]),
        "atrans": str(config["atrans"]),
        "btrans": str(config["btrans"]),
    }
    instruction = f"{opcode} {', '.join(written[name] for name in names)};"
    data = atype if atype in ("f16", "bf16", "tf32", "e4m3", "e5m2") else "b8" if atype in ("s8", "u8") else "b32"
    size = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "b8": 1, "b32": 4}[data]
    dkind = {"f16": "f16x2", "f32": "f32", "s32": "s32"}[dtype]
    akind = {1: f"{data}x4" if data != "b8" else "b32", 2: f"{data}x2", 4: data}[size]
    variables = f".reg .b32 {', '.join(d)}, {', '.join(a)}, %meta, %base; .reg .b64 %da, %db, %td, %y, %z; .reg .pred %ps; .extern .shared .align 1024 .b8 tiles[];"
    code = [HEAD.format(more=", .param .u64 other", variables="").replace(" tiles", "")]
    code.append(variables.replace(" .extern .shared .align 1024 .b8 tiles[];", ""))
    # the CTA brings all of the shared memory
    code.append(
        "mov.u32 %tt, %tid.x; mul.wide.u32 %tq, %tt, 16; add.u64 %tp, %tin, %tq; mov.u64 %ta, tiles; add.u64 %ta, %ta, %tq; mov.u32 %ts, 0;\nfill:"
    )
    code.append(
        f"ld.global.v2.b64 {{%y, %z}}, [%tp]; st.shared.v2.b64 [%ta], {{%y, %z}}; add.u64 %tp, %tp, {16 * 128}; add.u64 %ta, %ta, {16 * 128};"
    )
    code.append(f"add.u32 %ts, %ts, {16 * 128}; setp.lt.u32 %tskip, %ts, {SHARED}; @%tskip bra fill;")
    code.append("fence.proxy.async; bar.sync 0; .reg .b64 %other; ld.param.u64 %other, [other]; cvta.to.global.u64 %other, %other;")
    other = [*[(dkind, one) for one in d], *[(akind, one) for one in a], ("meta_tf32" if atype == "tf32" else "meta", "%meta")]
    for (_, register), offset in zip(other, offsets(["b32"] * len(other), 128), strict=False):
        code += [element("%other", offset, 4), f"ld.global.b32 {register}, [%tp];"]
    code.append("mov.u32 %base, tiles; setp.ne.u32 %ps, %base, -1;")
    code += [
        _descriptor("%base", config).replace("%td", "%da"),
        f"add.u32 %base, %base, {B_AT};",
        _descriptor("%base", config).replace("%td", "%db"),
    ]
    code += ["wgmma.fence.sync.aligned;", instruction, "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    text = _end(code, d, 32, 128)
    arguments = (
        Buffer("fragments", (data,), SHARED // size, salt=number % 3),
        Buffer("zeros", ("b32",) * count, 128, output=True),
        Buffer("fragments", tuple(kind for kind, _ in other), 128, salt=1),
    )
    label = " ".join(f"{name}={value}" for name, value in config.items() if name in ("swizzle", "lbo", "sbo"))
    bound_ok = bound_as(candidate, variant, [unknown(item) for item in variant])
    if bound_ok is None or not possible(bound_ok.requirement):
        return None
    return Test(
        f"{instruction} // {label}",
        "wgmma",
        place_of(form),
        text,
        arguments,
        1,
        128,
        shared=SHARED,
        declarations=".extern .shared .align 1024 .b8 tiles[];",
    )
