"""Tests of textures and surfaces: every geometry and way to ask, with samplers of several modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from device_types import Image, Surface, Texture
from formtests import SETS, Buffer, Test, bound_as, element, opcodes, place_of, possible, unknown
from memorytests import HEAD
from operands import offsets, size_of

from ptxkit.isa.forms import Form
from ptxkit.isa.table import forms
from ptxkit.isa.types import types

BLOCK = 256


def tests() -> Iterator[Test]:
    """All of this module."""
    for form in forms("tex"):
        yield from _samples(form)
    for form in forms("tld4"):
        yield from _samples(form)
    for form in forms("txq"):
        yield from _queries(form, True)
    for form in forms("suq"):
        yield from _queries(form, False)
    for mnemonic in ("suld", "sust", "sured"):
        for form in forms(mnemonic):
            yield from _surfaces(form)


def _able(form: Form) -> Iterator[tuple[str, Any]]:
    seen = set()
    for candidate in opcodes(form):
        opcode = form.mnemonic + "".join(candidate.modifiers)
        for variant in form.variants:
            bound = bound_as(candidate, variant, [unknown(item) for item in variant])
            if bound is not None and possible(bound.requirement) and opcode not in seen:
                seen.add(opcode)
                yield opcode, candidate


def _kernel(inputs: list[tuple[str, str]], outputs: list[tuple[int, str]], variables: str, code: str, count: int = SETS) -> str:
    lines = [
        HEAD.format(more=", .param .u64 object", variables=".reg .b64 %object; .reg .b32 %layer; " + variables),
        "ld.param.u64 %object, [object];",
    ]
    for (kind, register), offset in zip(inputs, offsets([kind for kind, _ in inputs], count), strict=False):
        size = size_of(kind)
        lines += [element("%tin", offset, size), f"ld.global.b{8 * size} {register}, [%tp];"]
    lines.append(code)
    for (bits, register), offset in zip(outputs, offsets([f"b{bits}" for bits, _ in outputs], count), strict=False):
        lines += [element("%tout", offset, bits // 8), f"st.global.b{bits} [%tp], {register};"]
    return "\n".join([*lines, "ret;", "}"])


def _modes(geometry: str, dtype: str, ctype: str, level: bool, gather: bool) -> Iterator[Texture]:
    """The samplers of a test."""
    levels = 4 if level and geometry not in ("1d", "a1d") else 3 if level else 1
    image = Image(geometry, levels=levels, gather=gather and geometry == "2d", format="f32" if dtype in ("f32", "f16", "f16x2") else dtype)
    if dtype in ("u32", "s32"):
        plain = Texture(image, integers=True, normalized="cube" in geometry or level)
        yield plain
        yield attrs.evolve(plain, image=attrs.evolve(image, format="u8" if dtype == "u32" else "s16"))
        yield attrs.evolve(plain, address=3)
        return
    if ctype == "s32":
        for address in (1, 3):
            for format in ("f32", "u8", "f16"):
                yield Texture(attrs.evolve(image, format=format), address=address)
        return
    if dtype != "f32":
        yield from (Texture(image, 1, filter, True) for filter in (0, 1))
        yield Texture(attrs.evolve(image, format="u8"), 1, 1, True)
        return
    for normalized in (True,) if level or "cube" in geometry else (False, True):
        for address in (0, 1, 2, 3) if normalized else (1, 3):
            for filter in (0, 1):
                yield Texture(image, address, filter, normalized, mip_filter=filter if level else 0)
    last = Texture(image, 1, 1, True)
    for format, channels in (("f16", 4), ("u8", 4), ("s16", 2), ("s8", 1), ("u16", 4), ("f32", 1), ("f32", 2)):
        yield attrs.evolve(last, image=attrs.evolve(image, format=format, channels=channels))
    yield attrs.evolve(last, image=attrs.evolve(image, format="u8"), srgb=True)
    if level:
        yield attrs.evolve(last, mip_filter=1, filter=0)


def _samples(form: Form) -> Iterator[Test]:
    for opcode, candidate in _able(form):
        geometry = candidate.slots[".geom"][1:]
        if "ms" in geometry:
            continue
        gather = form.mnemonic == "tld4"
        ctype = candidate.slots[".ctype"][1:] if not gather else "f32"
        dtype = candidate.slots[".dtype"][1:]
        vector = 2 if dtype == "f16x2" else 4
        bits = 16 if dtype == "f16" else 32
        level, grad = ".level" in candidate.modifiers, ".grad" in candidate.modifiers
        axes = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}[geometry]
        layered = geometry.startswith("a")
        for mode in _modes(geometry, dtype, ctype, level or grad, gather):
            for offset in (False, True):
                if offset and (mode.filter == 0 or mode.address != 1 or ("cube" in geometry) or mode.image.format != "f32"):
                    continue
                yield _sample(form, opcode, candidate, mode, geometry, axes, layered, ctype, vector, bits, level, grad, offset)


def _sample(
    form: Form,
    opcode: str,
    candidate: Any,
    mode: Texture,
    geometry: str,
    axes: int,
    layered: bool,
    ctype: str,
    vector: int,
    bits: int,
    level: bool,
    grad: bool,
    offset: bool,
) -> Test:
    x = [f"%x{n}" for n in range(axes)]
    inputs = [("unit", one) for one in x] + [("b32", "%layer")]
    sizes = mode.image.size()
    code = ["and.b32 %layer, %layer, 7; sub.u32 %layer, %layer, 1; max.s32 %layer, %layer, 0;"]
    if not mode.normalized or ctype == "s32":
        code += [f"mul.rn.f32 {one}, {one}, 0f{_hex(sizes[n])};" for n, one in enumerate(x)]
    if "cube" in geometry:
        code += [f"fma.rn.f32 {one}, {one}, 0f3F800000, 0fBF000000;" for one in x]
    if ctype == "s32":
        code += [f"cvt.rmi.s32.f32 {one}, {one};" for one in x]
    coordinate = [*(["%layer"] if layered else []), *x]
    if True:
        coordinate += [coordinate[-1]] * ({1: 0, 2: 0, 3: 1, 4: 0}[len(coordinate)])
    variables = [f".reg .b32 {', '.join(x)};"]
    extra = ""
    if level:
        inputs.append(("lod", "%lod"))
        variables.append(".reg .b32 %lod;")
        if ctype == "s32":
            code.append("cvt.rmi.s32.f32 %lod, %lod; max.s32 %lod, %lod, 0; min.s32 %lod, %lod, 2;")
        extra += ", %lod"
    if grad:
        count = {1: 1, 2: 2, 3: 4}[axes]
        names = [f"%g{n}" for n in range(2 * count)]
        inputs += [("unit", name) for name in names]
        variables.append(f".reg .b32 {', '.join(names)};")
        code += [f"mul.rn.f32 {name}, {name}, 0f3E000000;" for name in names]
        extra += f", {{{', '.join(names[:count])}}}, {{{', '.join(names[count:])}}}"
    if offset:
        variables.append(".reg .b32 %o<4>;")
        code.append("mov.b32 %o0, -2; mov.b32 %o1, 1; mov.b32 %o2, 3; mov.b32 %o3, 0;")
        extra += ", {" + ", ".join(f"%o{n}" for n in range({1: 1, 2: 2, 3: 4}[axes])) + "}"
    names = [f"%d{n}" for n in range(vector)]
    variables.append(f".reg .b{bits} {', '.join(names)};")
    instruction = f"{opcode} {{{', '.join(names)}}}, [%object, {{{', '.join(coordinate)}}}]{extra};"
    code.append(instruction)
    text = _kernel(inputs, [(bits, name) for name in names], " ".join(variables), "\n".join(code))
    arguments = (Buffer("sets", tuple(kind for kind, _ in inputs), SETS), Buffer("zeros", (f"b{bits}",) * vector, SETS, output=True), mode)
    return Test(f"{instruction} // {mode.label()}", "texture", place_of(form), text, arguments, SETS // BLOCK)


def _hex(value: float) -> str:
    import struct

    return struct.pack(">f", value).hex().upper()


def _queries(form: Form, texture: bool) -> Iterator[Test]:
    for opcode, candidate in _able(form):
        for geometry in ("1d", "2d", "3d", "a2d", "cube"):
            level = ".level" in candidate.modifiers
            image = Image(geometry, format="u8" if geometry == "2d" else "f32", levels=3 if level else 1, surface=not texture)
            thing: Any = Texture(image, normalized=True, filter=1 if geometry != "2d" else 0) if texture else Surface(image)
            instruction = f"{opcode} %d, [%object]{', %o' if level else ''};"
            code = f".reg .b32 %d, %o; and.b32 %o, %ti, 1;\n{instruction}"
            if "cube" in geometry and not texture:
                continue
            text = _kernel([], [(32, "%d")], "", code, BLOCK)
            arguments = (Buffer("zeros", ("b32",), 4), Buffer("zeros", ("b32",), BLOCK, output=True), thing)
            yield Test(f"{instruction} // {geometry}", "query", place_of(form), text, arguments, 1)


def _surfaces(form: Form) -> Iterator[Test]:
    for opcode, candidate in _able(form):
        slots = candidate.slots
        geometry = slots[".geom"][1:]
        type = slots.get(".dtype") or slots.get(".ctype") or ".b32"
        vector = int(slots.get(".vec", ".v1")[2:])
        formatted = ".p" in candidate.modifiers
        bits = types()[type].bits
        clamp = slots[".clamp"]
        axes = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}[geometry]
        layered = geometry.startswith("a")
        size = bits // 8 * vector
        image = Image(geometry, *({1: ("u8", 1), 2: ("u16", 1), 4: ("u32", 1), 8: ("u32", 2), 16: ("u32", 4)}[size]), surface=True)
        if vector > 1 and bits < 32:
            image = attrs.evolve(image, format=f"u{bits}", channels=vector)
        count = SETS if form.mnemonic == "suld" else 2048
        width, height, depth = image.size()
        sizes = [width, height, depth] if not layered else [width, height if axes == 2 else depth, depth]
        x = [f"%x{n}" for n in range(axes)]
        variables = [f".reg .b32 {', '.join(x)}; .reg .b{max(bits, 16)} {', '.join(f'%d{n}' for n in range(vector))};"]
        code = ["mov.u32 %tt, %ti;"]
        # thread after thread an element of its own, with a margin of elements outside but for .trap
        margin = 0 if clamp == ".trap" else 2
        extents = [size + 2 * margin for size in sizes[:axes]]
        for one, extent in zip(x, extents, strict=True):
            code.append(f"rem.u32 {one}, %tt, {extent}; div.u32 %tt, %tt, {extent}; sub.s32 {one}, {one}, {margin};")
        code.append(
            f"rem.u32 %layer, %tt, {depth if layered else 1}; div.u32 %tt, %tt, {depth if layered else 1}; setp.ne.u32 %tskip, %tt, 0;"
        )
        if not formatted:
            code.append(f"mul.lo.s32 %x0, %x0, {size};")
        coordinate = [*(["%layer"] if layered else []), *x]
        coordinate += [coordinate[-1]] * {1: 0, 2: 0, 3: 1, 4: 0}[len(coordinate)]
        names = [f"%d{n}" for n in range(vector)]
        value = "{" + ", ".join(names) + "}" if vector > 1 else names[0]
        place = f"[%object, {{{', '.join(coordinate)}}}]"
        if form.mnemonic == "suld":
            code += [f"mov.b{max(bits, 16)} {name}, 0;" for name in names]
            instruction = f"{opcode} {value}, {place};"
            code.append(f"@!%tskip {instruction}")
            text = _kernel([], [(max(bits, 16), name) for name in names], " ".join(variables), "\n".join(code), count)
            arguments = (Buffer("zeros", ("b32",), 4), Buffer("zeros", (f"b{max(bits, 16)}",) * vector, count, output=True), Surface(image))
        else:
            if clamp == ".clamp":
                # what is outside is drawn to the edge, where several threads would meet: only one row of threads is outside
                code.append("setp.lt.s32 %tskip, %x0, 0;")
                code.append("@%tskip bra over;")
            instruction = f"{opcode} {place}, {value};"
            inputs = [(f"b{max(bits, 16)}", name) for name in names]
            guard = "" if clamp == ".clamp" else "@!%tskip "
            code.append(f"{guard}{instruction}")
            if clamp == ".clamp":
                code.append("over:")
                if form.mnemonic == "sust" or formatted:
                    continue
            text = _kernel(inputs, [], " ".join(variables), "\n".join(code), count)
            arguments = (
                Buffer("sets", tuple(kind for kind, _ in inputs), count),
                Buffer("zeros", ("b8",), 16),
                Surface(image, output=True),
            )
        yield Test(f"{instruction} // {geometry}", "surface", place_of(form), text, arguments, count // BLOCK)
