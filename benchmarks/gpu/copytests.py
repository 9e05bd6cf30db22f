"""Tests of asynchronous copies: cp.async, bulk copies and reductions, tensor copies in every mode; and of what signals through mbarriers."""

# ruff: noqa: E501 -- PTX stands as it is written

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
from device_types import TensorMap
from formtests import Buffer, Test, bound_as, opcodes, place_of, possible, unknown
from memorytests import HEAD

from ptxkit.isa.forms import Form
from ptxkit.isa.table import forms
from ptxkit.isa.types import types

BLOCK = 128


def tests() -> Iterator[Test]:
    """All of this module."""
    for form in forms("cp"):
        if not form.modelled:
            continue
        yield from _copies(form)
    for mnemonic in ("st", "red"):
        for form in forms(mnemonic):
            if ".async" in form.syntax:
                yield from _remote(form)
    yield from _mbarriers()
    for form in forms("tensormap"):
        yield from _replacements(form)


def able(form: Form) -> Iterator[tuple[str, Any, Any]]:
    """Opcode, candidate and variant of what the GPU has."""
    for candidate in opcodes(form):
        for variant in form.variants:
            bound = bound_as(candidate, variant, [unknown(item) for item in variant])
            if bound is not None and possible(bound.requirement):
                yield form.mnemonic + "".join(candidate.modifiers), candidate, variant


def _names(variant: Any) -> set[str]:
    return {name for item in variant for part in [item] for name in part.names()} | {p.name for item in variant for p in item.parts}


def _copies(form: Form) -> Iterator[Test]:
    for opcode, candidate, variant in able(form):
        modifiers = candidate.modifiers
        names = _names(variant)
        if ".bulk" not in modifiers:
            if "n" in names and ".global" in modifiers:
                yield from _cp_async(form, opcode, candidate, names)
            continue
        if ".prefetch" in modifiers or ".commit_group" in modifiers or ".wait_group" in modifiers:
            continue
        if ".tensor" in modifiers:
            yield from _tensor(form, opcode, candidate, names)
        elif form.mnemonic == "cp":
            yield from _bulk(form, opcode, candidate, names)


HINT = "createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;"


def cta(size: int, variables: str, code: str, *, more: str = "", dump: str = "%tout", bytes: int = 0) -> str:
    """A kernel whose CTA has `size` bytes of shared memory `s`, filled from its input (of so many bytes for each CTA), and an mbarrier `bar`.

    `%rank`, `%cta` and `%leader` are there for `code`; after it `s` is dumped.
    """
    bytes = bytes or size
    lines = [
        HEAD.format(
            more=more,
            variables=f".shared .align 1024 .b8 s[{size}]; .shared .align 8 .b64 bar; .reg .b32 %cta, %s, %bar, %rank, %n; .reg .b64 %y, %z, %v; .reg .pred %leader, %done; {variables}",
        )
    ]
    lines.append(
        "mov.u32 %cta, %ctaid.x; mov.u32 %tt, %tid.x; setp.eq.u32 %leader, %tt, 0; mov.u32 %s, s; mov.u32 %bar, bar; mov.u32 %rank, %cluster_ctarank;"
    )
    lines.append(
        f"mul.wide.u32 %tq, %cta, {bytes}; add.u64 %tp, %tin, %tq; mul.wide.u32 %tq, %tt, 8; add.u64 %tp, %tp, %tq; mov.u64 %ta, s; add.u64 %ta, %ta, %tq; shl.b32 %ts, %tt, 3;"
    )
    lines.append(
        f"fill: setp.ge.u32 %tskip, %ts, {size}; @%tskip bra filled; ld.global.b64 %y, [%tp]; st.shared.b64 [%ta], %y; add.u64 %tp, %tp, {8 * BLOCK}; add.u64 %ta, %ta, {8 * BLOCK}; add.u32 %ts, %ts, {8 * BLOCK}; bra fill;"
    )
    lines.append(
        "filled: @%leader mbarrier.init.shared.b64 [bar], 1; @%leader fence.mbarrier_init.release.cluster; fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;"
    )
    lines.append(code)
    if dump:
        lines.append(
            f"barrier.cluster.arrive; barrier.cluster.wait; bar.sync 0; mul.wide.u32 %tq, %cta, {size}; add.u64 %tp, {dump}, %tq; shl.b32 %ts, %tt, 3; mov.u32 %tt, %tid.x; shl.b32 %ts, %tt, 3; mul.wide.u32 %tq, %tt, 8; add.u64 %tp, %tp, %tq; mov.u64 %ta, s; add.u64 %ta, %ta, %tq;"
        )
        lines.append(
            f"dump: setp.ge.u32 %tskip, %ts, {size}; @%tskip bra dumped; ld.shared.b64 %y, [%ta]; st.global.b64 [%tp], %y; add.u64 %tp, %tp, {8 * BLOCK}; add.u64 %ta, %ta, {8 * BLOCK}; add.u32 %ts, %ts, {8 * BLOCK}; bra dump;\ndumped:"
        )
    return "\n".join([*lines, "ret;", "}"])


WAIT = "mov.u32 %n, 0;\nwait: mbarrier.try_wait.parity.shared.b64 %done, [bar], 0; @%done bra come; add.u32 %n, %n, 1; setp.lt.u32 %tskip, %n, 3000; @%tskip bra wait; trap;\ncome:"
"""Waits for the bytes; what never comes is a fault and no endless loop."""
GROUP = "@%leader cp.async.bulk.commit_group; @%leader cp.async.bulk.wait_group 0;"


def _cp_async(form: Form, opcode: str, candidate: Any, names: set[str]) -> Iterator[Test]:
    """Each thread copies 4, 8 or 16 bytes, of some only the first ones."""
    policy, hint = (HINT, ", %pol") if "policy" in names else ("", "")
    for n in (16,) if ".cg" in candidate.modifiers else (4, 8, 16):
        extra = ""
        if "src" in names:
            extra = ", %n"
        elif "ignore" in names:
            extra = ", %done"
        size = 16 * BLOCK
        count = 16
        code = f"{policy} mul.wide.u32 %tq, %ti, 16; ld.param.u64 %tp, [other]; cvta.to.global.u64 %tp, %tp; add.u64 %tp, %tp, %tq; mul.wide.u32 %tq, %tt, 16; mov.u64 %ta, s; add.u64 %ta, %ta, %tq; rem.u32 %n, %ti, {n + 1}; and.b32 %tu, %ti, 1; setp.ne.u32 %done, %tu, 0;\n"
        instruction = f"{opcode} [%ta], [%tp], {n}{extra}{hint};"
        code += f"{instruction}\ncp.async.commit_group; cp.async.wait_group 0; mov.u32 %tt, %tid.x;"
        text = cta(size, "", code, more=", .param .u64 other")
        arguments = (
            Buffer("sets", ("b64",), count * size // 8),
            Buffer("zeros", ("b8",), count * size, output=True),
            Buffer("sets", ("b64",), count * size // 8, salt=1),
        )
        yield Test(instruction, "copies", place_of(form), text, arguments, count, BLOCK)


def _bulk(form: Form, opcode: str, candidate: Any, names: set[str]) -> Iterator[Test]:
    modifiers = candidate.modifiers
    reduce = ".reduce" in modifiers
    policy, hint = (HINT, ", %pol") if "policy" in names else ("", "")
    if names & {"left", "mask"} and ".multicast::cluster" not in modifiers:
        return
    size, count = 2048, 8
    multicast = ".multicast::cluster" in modifiers
    spread = multicast or ".shared::cluster" in modifiers
    for bytes in (16, 512, 1024) if not reduce else (1024,):
        operand = ", %mask" if multicast else ""
        variables = ".reg .b16 %mask; .reg .b32 %far, %farbar;"
        code = policy
        global_at = "ld.param.u64 %v, [other]; cvta.to.global.u64 %v, %v; mul.wide.u32 %tq, %cta, 2048; add.u64 %v, %v, %tq;"
        kinds = _reduced(modifiers) if reduce else ("b64",)
        if ".bulk_group" in modifiers:
            instruction = f"{opcode} [%v+{16 if not reduce else 0}], [%s], {bytes}{hint};"
            code += f"{global_at}\n@%leader {instruction}\n{GROUP}"
            outputs = (Buffer("fragments" if reduce else "sets", kinds, count * size // _width(kinds), output=True, salt=2),)
            text = cta(size, variables, code, more=", .param .u64 other", dump="")
            arguments: tuple[Any, ...] = (
                Buffer("fragments" if reduce else "sets", kinds, count * size // _width(kinds)),
                Buffer("zeros", ("b8",), 16),
                *outputs,
            )
        elif ".global" in modifiers:
            target = "[%s+32]" if not reduce else "[%s]"
            expect = bytes
            instruction = f"{opcode} {target}, [%v], {bytes}, [%bar]{operand}{hint};"
            lead = "%leader"
            code += f"{global_at} @%leader mbarrier.arrive.expect_tx.shared.b64 _, [bar], {expect}; barrier.cluster.arrive; barrier.cluster.wait; mov.b16 %mask, 15;\n"
            if multicast:
                code += "setp.eq.u32 %done, %rank, 1; and.pred %leader, %leader, %done;\n"
            code += f"@{lead} {instruction}\n{WAIT}"
            text = cta(size, variables, code, more=", .param .u64 other")
            arguments = (
                Buffer("sets", ("b64",), count * size // 8),
                Buffer("zeros", ("b8",), count * size, output=True),
                Buffer("sets", ("b64",), count * size // 8, salt=4),
            )
        else:
            # into the next CTA of the cluster; what it sends starts where nobody writes
            instruction = f"{opcode} [%far], [%s], {bytes}, [%farbar];"
            code += f"add.u32 %tt, %rank, 1; and.b32 %tt, %tt, 3; add.u32 %tu, %s, 1024; mapa.shared::cluster.u32 %far, %tu, %tt; mapa.shared::cluster.u32 %farbar, %bar, %tt; @%leader mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes}; barrier.cluster.arrive; barrier.cluster.wait;\n@%leader {instruction}\n{WAIT} barrier.cluster.arrive; barrier.cluster.wait;"
            text = cta(size, variables, code)
            arguments = (
                Buffer("fragments" if reduce else "sets", kinds, count * size // _width(kinds)),
                Buffer("zeros", ("b8",), count * size, output=True),
            )
        yield Test(instruction, "copies", place_of(form), text, arguments, count, BLOCK, cluster=4 if spread else 1)


def _reduced(modifiers: Sequence[str]) -> tuple[str, ...]:
    return (next(m for m in reversed(modifiers) if m in types())[1:],)


def _width(kinds: Sequence[str]) -> int:
    from operands import size_of

    return size_of(kinds[0])


# --- tensor copies ----------------------------------------------------------------------------------------------------------------

DIMS = (40, 7, 6, 5, 4)
"""Sizes of the tensor; the first is in units of 16 bytes over the element's size."""


def _maps(rank: int, tile: bool) -> Iterator[TensorMap]:
    """Tensor maps of a rank: every element type, swizzle, interleave, fill, and strides of elements."""
    plain = TensorMap(rank=rank)
    if not tile:
        if rank < 3:
            return
        base = attrs.evolve(plain, im2col=True, lower=(-1,) * (rank - 2), upper=(-1,) * (rank - 2), channels=16, pixels=24)
        for dtype in ("u8", "u16", "f16", "f32", "f64", "bf16"):
            yield attrs.evolve(base, dtype=dtype)
        for swizzle in (1, 2, 3):
            yield attrs.evolve(base, dtype="u16", swizzle=swizzle, channels=8 << swizzle)
        yield attrs.evolve(base, dtype="f16", fill=1)
        yield attrs.evolve(base, dtype="u16", lower=(0,) * (rank - 2), upper=(-2,) * (rank - 2))
        yield attrs.evolve(base, dtype="u16", lower=(-2,) * (rank - 2), upper=(0,) * (rank - 2), pixels=40)
        yield attrs.evolve(base, dtype="u16", steps=(1, *(2,) * (rank - 2), 1))
        return
    for dtype in TensorMap.TYPES:
        yield attrs.evolve(plain, dtype=dtype)
    if rank == 1:
        return
    for swizzle in (1, 2, 3):
        for dtype in ("u8", "u16", "f32", "u64"):
            yield attrs.evolve(plain, dtype=dtype, swizzle=swizzle)
    for dtype in ("f16", "f32", "f64", "bf16", "f32_ftz", "tf32"):
        yield attrs.evolve(plain, dtype=dtype, fill=1)
    for step in (2, 3):
        yield attrs.evolve(plain, dtype="u16", steps=(1, *(step,) * (rank - 1)))
    if rank == 3:
        for dtype in ("u8", "f16", "f32"):
            yield attrs.evolve(plain, dtype=dtype, interleave=1)
            yield attrs.evolve(plain, dtype=dtype, interleave=2, swizzle=1)


def _tensor(form: Form, opcode: str, candidate: Any, names: set[str]) -> Iterator[Test]:
    modifiers = candidate.modifiers
    rank = int(candidate.slots[".dim"][1])
    im2col = any("im2col" in m for m in modifiers)
    if names & {"g"} or (".multicast::cluster" in modifiers) != ("mask" in names):
        return
    policy, hint = (HINT, ", %pol") if "policy" in names else ("", "")
    variants = list(_maps(rank, not im2col))
    if hint or ".multicast::cluster" in modifiers or ".tile" in modifiers:
        variants = variants[:2]
    loads = ".mbarrier::complete_tx::bytes" in modifiers
    if not loads:
        if "no_offs" in opcode and not im2col:
            return
        variants = [_stored(one) for one in variants if one.swizzle == 0 or one.dtype in ("u16", "f32")]
        if ".reduce" in modifiers:
            op = next(m[1:] for m in modifiers if m[1:] in ("add", "min", "max", "inc", "dec", "and", "or", "xor"))
            able = {
                "add": ("u32", "s32", "u64", "f32", "f16", "bf16", "f64", "f32_ftz"),
                "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
                "inc": ("u32",),
                "dec": ("u32",),
            }
            able["max"] = able["min"]
            wanted = able.get(op, ("u32", "u64"))
            first = variants[0]
            variants = [attrs.evolve(first, dtype=dtype, channels=_fit(first, dtype)) for dtype in wanted]
    for map in variants:
        yield from _tensor_test(form, opcode, candidate, map, policy, hint, loads)


def _stored(map: TensorMap) -> TensorMap:
    """The map for a store: one whose bounding box begins below zero is an illegal instruction on the device."""
    return attrs.evolve(map, lower=tuple([max(0, corner) for corner in map.lower]))


def _fit(map: TensorMap, dtype: str) -> int:
    return map.channels


def _coordinates(map: TensorMap, number: str, stores: bool = False) -> str:
    """Code for the coordinates of a CTA or turn: some inside, some over an edge, none all outside. Into %x0, %x1, …

    The hardware takes coordinates of the innermost dimension only at multiples of 16 bytes, and of a store none below zero; the manual says
    nothing of it.
    """
    lines = []
    for d, (size, box) in enumerate(zip(map.dims, map.box, strict=True)):
        unit = max(16 // map.item, 1) if d == 0 else 1
        size, box = size // unit, max(box // unit, 1)
        if map.im2col and d in (0, map.rank - 1):
            span, least = size, 0
        elif map.im2col:
            span, least = max(size + map.upper[d - 1] - map.lower[d - 1], 1), map.lower[d - 1]
        else:
            span, least = size + box // 2, -(box // 2)
        if stores:
            span, least = span + least, 0
        first = 3 * d + (box // 2 if not map.im2col else 0)
        lines.append(
            f"mul.lo.u32 %x{d}, {number}, {7 + 4 * d}; add.u32 %x{d}, %x{d}, {first}; rem.u32 %x{d}, %x{d}, {span}; add.s32 %x{d}, %x{d}, {least};"
        )
        if unit > 1:
            lines.append(f"mul.lo.s32 %x{d}, %x{d}, {unit};")
    return " ".join(lines)


def _tensor_test(form: Form, opcode: str, candidate: Any, map: TensorMap, policy: str, hint: str, loads: bool) -> Iterator[Test]:
    modifiers = candidate.modifiers
    rank = map.rank
    tile = map.tile_bytes
    size = -(-tile // 1024) * 1024
    multicast = ".multicast::cluster" in modifiers
    count = 8
    variables = ".reg .b32 %x<5>, %turn; .reg .b16 %mask, %o<3>; .reg .b64 %map;"
    code = f"{policy} mov.u64 %map, map; cvta.param.u64 %map, %map; mov.b16 %mask, 3; mov.b16 %o0, 0; mov.b16 %o1, 1; mov.b16 %o2, 0;\n"
    coordinates = "{" + ", ".join(f"%x{d}" for d in range(rank)) + "}"
    label = map.label()
    more = ", .param .align 128 .b8 map[128]"
    if loads:
        offsets = (", {" + ", ".join(f"%o{n}" for n in range(rank - 2)) + "}") if map.im2col else ""
        mask = ", %mask" if multicast else ""
        instruction = f"{opcode} [%s], [%map, {coordinates}], [%bar]{offsets}{mask}{hint};"
        code += _coordinates(map, "%cta")
        code += f" @%leader mbarrier.arrive.expect_tx.shared.b64 _, [bar], {tile}; barrier.cluster.arrive; barrier.cluster.wait;\n"
        if multicast:
            code += "setp.eq.u32 %done, %rank, 1; and.pred %leader, %leader, %done;\n"
        code += f"@%leader {instruction}\n{WAIT}"
        text = cta(size, variables, code, more=more)
        arguments: tuple[Any, ...] = (Buffer("sets", ("b64",), count * size // 8), Buffer("zeros", ("b8",), count * size, output=True), map)
        yield Test(f"{instruction} // {label}", "tensor", place_of(form), text, arguments, count, BLOCK, cluster=2 if multicast else 1)
        return
    # one CTA stores tile after tile: where they overlap, the last is left
    instruction = f"{opcode} [%map, {coordinates}], [%s]{hint};"
    code += "mov.u32 %turn, 0;\nagain: " + _coordinates(map, "%turn", stores=True)
    code += f"\n@%leader {instruction}\n{GROUP} add.u32 %turn, %turn, 1; setp.lt.u32 %done, %turn, 4; @%done bra again;"
    kind = map.kind
    text = cta(size, variables, code, more=more, dump="")
    from operands import size_of

    arguments = (Buffer("fragments", (kind,), size // size_of(kind)), Buffer("zeros", ("b8",), 16), attrs.evolve(map, output=True))
    yield Test(f"{instruction} // {label}", "tensor", place_of(form), text, arguments, 1, BLOCK)


REPLACED = {
    ".rank": "1",
    ".box_dim": "8",
    ".global_dim": "5",
    ".global_stride": "208",
    ".element_stride": "2",
    ".elemtype": "2",
    ".interleave_layout": "0",
    ".swizzle_mode": "1",
    ".fill_mode": "1",
}
"""By field a new value; of what counts from 0, the rank is one less."""


def _replacements(form: Form) -> Iterator[Test]:
    """A field of a tensor map, which was copied into memory, is replaced; then a tile is brought by it."""
    for opcode, candidate, variant in able(form):
        if ".replace" not in candidate.modifiers:
            continue
        field, names = candidate.slots[".field"], _names(variant)
        space = candidate.slots.get(".ss", "")
        map = TensorMap(rank=2, dtype="f32")
        if field == ".global_address":
            value = "%v"
        elif field in REPLACED:
            value = REPLACED[field]
        else:
            continue
        if field == ".global_stride" or field == ".global_address":
            if candidate.slots.get(".type") == ".b32":
                continue
        ordinal = "0" if field in (".global_stride", ".box_dim") else "1"
        target = {".shared::cta": "%s", ".global": "%scratch", "": "%gshared"}[space]
        bits = "64" if candidate.slots.get(".type") == ".b64" else "32"
        given = value if field in (".elemtype", ".interleave_layout", ".swizzle_mode", ".fill_mode") or value == "%v" else f"%new{bits}"
        instruction = f"{opcode} [{target}], {ordinal + ', ' if 'ord' in names else ''}{given};"
        count = 4
        variables = ".reg .b32 %x<5>, %new32; .reg .b64 %map, %scratch, %gshared, %new64; .reg .b32 %w;"
        code = f"ld.param.u64 %scratch, [other]; cvta.to.global.u64 %scratch, %scratch; mul.wide.u32 %tq, %cta, 256; add.u64 %scratch, %scratch, %tq; mov.b32 %new32, {value if value != '%v' else 0}; mov.b64 %new64, {value if value != '%v' else 0}; ld.param.u64 %v, [tensor]; cvt.u64.u32 %gshared, %s; cvta.shared.u64 %gshared, %gshared;\n"
        # the map, by words of 4 bytes: to shared memory, and to global memory
        code += "mov.u32 %tt, %tid.x; setp.ge.u32 %tskip, %tt, 32; @%tskip bra copied; mul.wide.u32 %tq, %tt, 4; mov.u64 %map, map; add.u64 %map, %map, %tq; ld.param.b32 %w, [%map]; add.u64 %tp, %scratch, %tq; st.global.b32 [%tp], %w; mov.u64 %ta, s; add.u64 %ta, %ta, %tq; st.shared.b32 [%ta], %w; bar.warp.sync -1;\n"
        code += f"@%leader {instruction}\nbar.warp.sync -1;\n"
        if space != ".global":
            code += "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%scratch], [%s], 128;\n"
        else:
            code += "fence.proxy.tensormap::generic.release.gpu;\n"
        code += "copied: bar.sync 0; mov.u64 %map, %scratch; cvta.global.u64 %map, %map; fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n"
        tile = {".box_dim": 8 * 4 * 4, ".element_stride": 12 * 2 * 4}.get(field, map.tile_bytes)
        code += _coordinates(map, "%cta")
        code += f" add.u32 %s, %s, 1024; @%leader mbarrier.arrive.expect_tx.shared.b64 _, [bar], {tile}; bar.sync 0;\n@%leader cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%s], [%map, {{%x0, %x1}}], [%bar];\n{WAIT}"
        more = ", .param .align 128 .b8 map[128], .param .u64 other, .param .u64 tensor"
        text = cta(2048, variables, code, more=more)
        # the first KiB has the map itself, whose bytes are the driver's own: only the tile is dumped
        text = text.replace("dump: setp.ge.u32", "dump: setp.lt.u32 %leader, %ts, 1024; setp.ge.u32").replace(
            "st.global.b64 [%tp], %y; add.u64 %tp, %tp, 1024; add.u64 %ta, %ta, 1024; add.u32 %ts, %ts, 1024; bra dump;",
            "@!%leader st.global.b64 [%tp], %y; add.u64 %tp, %tp, 1024; add.u64 %ta, %ta, 1024; add.u32 %ts, %ts, 1024; bra dump;",
        )
        arguments: tuple[Any, ...] = (
            Buffer("sets", ("b64",), count * 2048 // 8),
            Buffer("zeros", ("b8",), count * 2048, output=True),
            map,
            Buffer("zeros", ("b8",), 256 * count, salt=77),
            Buffer("fragments", ("f32",), 4096, salt=78),
        )
        yield Test(f"{instruction} // {value}", "tensormap", place_of(form), text, arguments, count, BLOCK)


# --- mbarriers and stores that signal ------------------------------------------------------------------------------------------------


def _remote(form: Form) -> Iterator[Test]:
    """Each thread of a CTA stores into, or adds to, the shared memory of the next CTA of the cluster; its mbarrier counts the bytes."""
    for opcode, candidate, variant in able(form):
        if "mbar" not in _names(variant) or candidate.slots.get(".ss") in (".shared", ".shared::cta"):
            continue
        type = candidate.slots[".type"]
        vector = int(candidate.slots.get(".vec", ".v1")[2:])
        if type == ".b128":
            continue
        bits = types()[type].bits
        size = bits // 8 * vector
        room = size * BLOCK
        names = [f"%b{n}" for n in range(vector)]
        generic = "" if candidate.slots.get(".ss") else " // generic"
        variables = f".reg .b{bits} {', '.join(names)}; .reg .b32 %far, %farbar; .reg .b64 %gfar, %gbar;"
        code = f"mul.lo.u32 %tt, %tt, {size}; mov.u32 %n, %tid.x; " + " ".join(
            f"ld.shared.b{bits} {name}, [%ta0+{at * bits // 8}];" for at, name in enumerate(names)
        ).replace("%ta0", "%tu")
        code = f"mov.u32 %n, %tid.x; mul.lo.u32 %n, %n, {size}; add.u32 %tu, %s, %n; " + " ".join(
            f"ld.shared.b{bits} {name}, [%tu+{at * bits // 8}];" for at, name in enumerate(names)
        )
        code += f" add.u32 %ts, %rank, 1; and.b32 %ts, %ts, 3; add.u32 %tu, %tu, {room}; mapa.shared::cluster.u32 %far, %tu, %ts; mapa.shared::cluster.u32 %farbar, %bar, %ts; cvt.u64.u32 %gfar, %far; cvta.shared::cluster.u64 %gfar, %gfar; cvt.u64.u32 %gbar, %farbar; cvta.shared::cluster.u64 %gbar, %gbar; @%leader mbarrier.arrive.expect_tx.shared.b64 _, [bar], {room}; barrier.cluster.arrive; barrier.cluster.wait;\n"
        listed = names[0] if vector == 1 else "{" + ", ".join(names) + "}"
        target, signal = ("%gfar", "%gbar") if generic else ("%far", "%farbar")
        instruction = f"{opcode} [{target}], {listed}, [{signal}];"
        code += f"{instruction}\n{WAIT} mov.u32 %tt, %tid.x;"
        text = cta(2 * room, variables, code)
        arguments = (Buffer("sets", ("b64",), 8 * 2 * room // 8), Buffer("zeros", ("b8",), 8 * 2 * room, output=True))
        yield Test(instruction, "copies", place_of(form), text, arguments, 8, BLOCK, cluster=4)


def _mbarriers() -> Iterator[Test]:
    """What a sequence of operations on an mbarrier leaves to be seen: results of tests, pending counts, states' phases."""
    sequences: dict[str, Callable[[str], str]] = {
        "mbarrier.arrive": lambda o: f"{o} %v, [bar];",
        "mbarrier.arrive_drop": lambda o: f"{o} %v, [bar];",
    }
    for name in ("mbarrier.arrive", "mbarrier.arrive_drop"):
        for form in forms("mbarrier"):
            head = f"{name}{{" if ".expect_tx" not in form.syntax and ".noComplete" not in form.syntax else name + "."
            if not form.syntax.startswith(head):
                continue
            for opcode, candidate, variant in able(form):
                names = _names(variant)
                if candidate.slots.get(".ss") == ".shared::cluster" or "mask" in names:
                    continue
                extra = ", 2" if "count" in names else ", 64" if "tx" in names else ""
                generic = "" if candidate.slots.get(".ss") else "g"
                yield from _sequence(form, opcode, extra, bool(generic), ".expect_tx" in opcode)
    assert sequences


def _sequence(form: Form, opcode: str, extra: str, generic: bool, expects: bool) -> Iterator[Test]:
    bar = "%gbar" if generic else "%bar"
    arrival = f"{opcode} %v, [{bar}]{extra};"
    lines = [
        "@!%leader bra after; mov.u32 %n, 0; mov.u64 %gbar, bar; cvta.shared.u64 %gbar, %gbar; mbarrier.inval.shared.b64 [bar]; mbarrier.init.shared.b64 [bar], 6; mov.u32 %x, 0;"
    ]
    # as many as are expected and no more: a drop lowers what the next phase expects
    steps = 3 if "arrive_drop" in opcode and extra == ", 2" and "noComplete" not in opcode else 6
    for step in range(steps):
        if step >= 2 and "noComplete" in opcode:
            lines.append("mbarrier.arrive.shared.b64 %z, [bar];")
            lines.append("mbarrier.pending_count.b64 %x, %z; st.shared.u32 [%s+%n0], %x;".replace("%n0", str(32 * step)))
            continue
        lines.append(arrival)
        lines.append(f"mbarrier.pending_count.b64 %x, %v; st.shared.u32 [%s+{32 * step}], %x;")
        lines.append(f"mbarrier.test_wait.shared.b64 %done, [bar], %v; selp.u32 %x, 1, 0, %done; st.shared.u32 [%s+{32 * step + 4}], %x;")
        lines.append(
            f"mbarrier.test_wait.parity.shared.b64 %done, [bar], 0; selp.u32 %x, 1, 0, %done; st.shared.u32 [%s+{32 * step + 8}], %x;"
        )
        lines.append(
            f"mbarrier.test_wait.parity.shared.b64 %done, [bar], 1; selp.u32 %x, 1, 0, %done; st.shared.u32 [%s+{32 * step + 12}], %x;"
        )
        if expects:
            lines.append("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;")
            lines.append(
                f"mbarrier.test_wait.shared.b64 %done, [bar], %v; selp.u32 %x, 1, 0, %done; st.shared.u32 [%s+{32 * step + 16}], %x;"
            )
    lines.append("after: bar.sync 0; mov.u32 %tt, %tid.x;")
    text = cta(1024, ".reg .b64 %gbar; .reg .b32 %x;", "\n".join(lines))
    arguments = (Buffer("sets", ("b64",), 128), Buffer("zeros", ("b8",), 1024, output=True))
    yield Test(arrival, "mbarrier", place_of(form), text, arguments, 1, BLOCK)
