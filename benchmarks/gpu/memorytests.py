"""Tests of loads, stores and atomics: each thread has its own few bytes in a state space, and what it leaves and gets is dumped."""

# ruff: noqa: E501 -- PTX stands as it is written

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from formtests import BLOCK, SETS, Buffer, Test, bound_as, element, load, opcodes, output_kind, place_of, possible, store, unknown
from operands import size_of, words

from ptxkit.isa.forms import Form
from ptxkit.isa.table import forms
from ptxkit.isa.types import types

HEAD = """.visible .entry ENTRY(.param .u64 in, .param .u64 out{more})
{{
.reg .b16 %th; .reg .b32 %ti, %tt, %tu, %ts; .reg .b64 %tin, %tout, %tp, %tq, %ta, %pol; .reg .pred %tskip;
{variables}
ld.param.u64 %tin, [in]; ld.param.u64 %tout, [out]; cvta.to.global.u64 %tin, %tin; cvta.to.global.u64 %tout, %tout;
mov.u32 %ti, %ctaid.x; mov.u32 %tt, %ntid.x; mul.lo.u32 %ti, %ti, %tt; mov.u32 %tt, %tid.x; add.u32 %ti, %ti, %tt;
"""
CONST_WORDS = 512
CONST = ".const .align 16 .b64 table[{}] = {{{}}};".format(CONST_WORDS, ", ".join(str(int(word)) for word in words(77, CONST_WORDS)))
PARAM_BYTES = 512

Raw = bytes
"""The type by another name: classes here have a property that is called `bytes`."""


@attrs.frozen
class Bytes:
    """A structure passed by value: words from the counter."""

    bytes: int
    salt: int
    output: bool = False

    def data(self) -> Raw:
        """What is passed."""
        return words(self.salt, self.bytes // 8).tobytes()

    def device(self, held: Any) -> Any:
        """As a parameter of a launch."""
        import ctypes

        return (ctypes.c_char * self.bytes).from_buffer_copy(self.data())

    def machine(self, machine: Any, outputs: list[Any]) -> Any:
        """As an argument of a launch on the machine."""
        return self.data()


def tests() -> Iterator[Test]:
    """All of this module."""
    for mnemonic in ("ld", "ldu"):
        for form in forms(mnemonic):
            yield from _loads(form)
    for form in forms("st"):
        yield from _stores(form)
    for mnemonic in ("atom", "red"):
        for form in forms(mnemonic):
            yield from _atomics(form)
    yield from _addresses()


def spaces(form: Form, given: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """The form's combinations that the GPU has, each with the state space of its address (`.generic` for none)."""
    for candidate in opcodes(form):
        variant = next(
            (
                v
                for v in form.variants
                if any(item.kind == "plain" and item.name == "policy" for item in v) == (".L2::cache_hint" in candidate.modifiers)
            ),
            None,
        )
        if variant is None or ".async" in candidate.modifiers:
            continue
        bound = bound_as(candidate, variant, [unknown(item) for item in variant])
        if bound is None or not possible(bound.requirement):
            continue
        space = candidate.slots.get(".ss") or (".global" if ".global" in candidate.modifiers else ".generic")
        if space in given:
            yield candidate, space


def _piece(size: int) -> int:
    return min(size, 16 if size % 16 == 0 else 8 if size % 8 == 0 else 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1)


def _copy(target: str, to: str, source: str, at: str, size: int) -> str:
    """Copies the bytes of a thread from one space to another, by 8 bytes at most."""
    piece = min(_piece(size), 8)
    kind, register = f"{'u' if piece == 1 else 'b'}{8 * piece}", {1: "%th", 2: "%th", 4: "%tu", 8: "%tq"}[piece]
    return " ".join(f"ld{source}.{kind} {register}, [{at}+{o}]; st{target}.{kind} [{to}+{o}], {register};" for o in range(0, size, piece))


WIDE = {8: 32, 16: 32}
"""Registers of narrow types: wider ones, so that it is seen how a value is extended."""


def _base(space: str, size: int) -> tuple[str, str]:
    """Declarations, and code that leaves the address of the thread's bytes in that space in %ta."""
    if space in (".shared", ".shared::cta", ".shared::cluster"):
        return (
            f".shared .align 16 .b8 mine[{BLOCK * size}];",
            f"mov.u64 %ta, mine; mov.u32 %tt, %tid.x; mul.wide.u32 %tq, %tt, {size}; add.u64 %ta, %ta, %tq;",
        )
    if space == ".local":
        return f".local .align 16 .b8 mine[{max(size, 16)}];", "mov.u64 %ta, mine;"
    return "", ""


def _policy(opcode: str) -> tuple[str, str]:
    return ("createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;", ", %pol") if "cache_hint" in opcode else ("", "")


def _loads(form: Form) -> Iterator[Test]:
    for candidate, space in spaces(
        form, (".generic", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local", ".const", ".param", ".param::entry")
    ):
        opcode = form.mnemonic + "".join(candidate.modifiers)
        type = candidate.slots[".type"]
        vector = int(candidate.slots.get(".vec", ".v1")[2:])
        bits = types()[type].bits
        size = bits // 8 * vector
        register = f".b{WIDE.get(bits, bits)}"
        names = [f"%d{n}" for n in range(vector)]
        policy, operand = _policy(opcode)
        variables, base = _base(space, size)
        declarations = CONST if space == ".const" else ""
        arguments: list[Any] = [
            Buffer("sets", ("b64",), max(SETS * size // 8, 1)),
            Buffer("zeros", (register[1:],) * vector, SETS, output=True),
        ]
        more = ""
        if space in (".param", ".param::entry"):
            more = f", .param .align 16 .b8 blob[{PARAM_BYTES}]"
            arguments.append(Bytes(PARAM_BYTES, 5))
        code = [HEAD.format(more=more, variables=" ".join([variables, *(f".reg {register} {n};" for n in names)]))]
        code.append(f"mul.wide.u32 %tq, %ti, {size}; add.u64 %tp, %tin, %tq;")
        if space in (".global", ".generic"):
            code.append("mov.u64 %ta, %tp;" if space == ".global" else "cvta.global.u64 %ta, %tp;")
        elif space in (".const", ".param", ".param::entry"):
            room = PARAM_BYTES if "param" in space else 8 * CONST_WORDS
            code.append(
                f"rem.u32 %tt, %ti, {room // size}; mul.wide.u32 %tq, %tt, {size}; mov.u64 %ta, {'blob' if 'param' in space else 'table'}; add.u64 %ta, %ta, %tq;"
            )
        else:
            code += [base, _copy(space if space != ".shared::cluster" else ".shared", "%ta", ".global", "%tp", size)]
        written = names[0] if vector == 1 else "{" + ", ".join(names) + "}"
        instruction = f"{opcode} {written}, [%ta]{operand};"
        code += [policy, instruction]
        text = _finish(code, [(register, name) for name in names], SETS)
        yield Test(instruction, "memory", place_of(form), text, tuple(arguments), SETS // BLOCK, declarations=declarations)


def _finish(code: list[str], outputs: Sequence[tuple[str, str]], count: int) -> str:
    from operands import offsets

    kinds = [output_kind(type) for type, _ in outputs]
    for (type, register), offset, kind in zip(outputs, offsets(kinds, count), kinds, strict=False):
        code += [element("%tout", offset, size_of(kind)), store(type, register, "[%tp]")]
    return "\n".join([*[line for line in code if line], "ret;", "}"])


def _inputs(kinds: Sequence[tuple[str, str]], count: int) -> tuple[list[str], list[str]]:
    """Declarations and loads of the thread's operands."""
    from operands import offsets

    declared, code = [], []
    for (kind, register), offset in zip(kinds, offsets([kind for kind, _ in kinds], count), strict=False):
        declared.append(f".reg .b{max(8 * size_of(kind), 16)} {register};")
        code += [element("%tin", offset, size_of(kind)), load(kind, register, "[%tp]")]
    return declared, code


def _stores(form: Form) -> Iterator[Test]:
    for candidate, space in spaces(form, (".generic", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local")):
        opcode = form.mnemonic + "".join(candidate.modifiers)
        type = candidate.slots[".type"]
        vector = int(candidate.slots.get(".vec", ".v1")[2:])
        bits = types()[type].bits
        size = bits // 8 * vector
        kind = f"b{WIDE.get(bits, bits)}"
        names = [f"%b{n}" for n in range(vector)]
        policy, operand = _policy(opcode)
        variables, base = _base(space, size)
        declared, loads = _inputs([(kind, name) for name in names], SETS)
        code = [HEAD.format(more="", variables=" ".join([variables, *declared])), *loads]
        code.append(f"mul.wide.u32 %tq, %ti, {size}; add.u64 %tp, %tout, %tq;")
        code.append({".global": "mov.u64 %ta, %tp;", ".generic": "cvta.global.u64 %ta, %tp;"}.get(space, base))
        written = names[0] if vector == 1 else "{" + ", ".join(names) + "}"
        instruction = f"{opcode} [%ta], {written}{operand};"
        code += [policy, instruction]
        if variables:
            code.append(_copy(".global", "%tp", ".shared" if "shared" in space else space, "%ta", size))
        arguments = (Buffer("sets", (kind,) * vector, SETS), Buffer("zeros", ("b8",), SETS * size, output=True))
        yield Test(
            instruction, "memory", place_of(form), "\n".join([*[line for line in code if line], "ret;", "}"]), arguments, SETS // BLOCK
        )


def _vector(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _atomics(form: Form) -> Iterator[Test]:
    for candidate, space in spaces(form, (".generic", ".global", ".shared", ".shared::cta", ".shared::cluster")):
        opcode = form.mnemonic + "".join(candidate.modifiers)
        type = candidate.slots.get(".type", ".f32")
        vector = int(candidate.slots.get(".vec", ".v1")[2:])
        bits = types()[type].bits
        size = bits // 8 * vector
        kind, cas, atom = type[1:], ".cas" in candidate.modifiers, form.mnemonic == "atom"
        old, b, d = [f"%m{n}" for n in range(vector)], [f"%b{n}" for n in range(vector)], [f"%d{n}" for n in range(vector)]
        inputs = [*((kind, name) for name in old), *((kind, name) for name in b), *([(kind, "%c")] if cas else [])]
        declared, loads = _inputs(inputs, SETS)
        variables, base = _base(space, size)
        policy, operand = _policy(opcode)
        declared += [f".reg .b{bits} {name};" for name in d if atom]
        code = [HEAD.format(more=", .param .u64 memory", variables=" ".join([variables, *declared, ".reg .b64 %tm;"])), *loads]
        code.append(f"ld.param.u64 %tm, [memory]; cvta.to.global.u64 %tm, %tm; mul.wide.u32 %tq, %ti, {size}; add.u64 %tm, %tm, %tq;")
        code.append({".global": "mov.u64 %ta, %tm;", ".generic": "cvta.global.u64 %ta, %tm;"}.get(space, base))
        if cas:
            code.append(f"and.b32 %tt, %ti, 1; setp.ne.u32 %tskip, %tt, 0; @%tskip mov.b{bits} %b0, %m0;")
        weak = "" if space == ".generic" else ".shared" if "shared" in space else space
        for n, name in enumerate(old):
            code.append(f"st{weak}.b{bits} [%ta+{n * bits // 8}], {name};")
        instruction = f"{opcode} {_vector(d) + ', ' if atom else ''}[%ta], {_vector(b)}{', %c' if cas else ''}{operand};"
        code += [policy, instruction]
        if variables:
            code.append(_copy(".global", "%tm", ".shared", "%ta", size))
        arguments = (
            Buffer("sets", tuple(kind for kind, _ in inputs), SETS),
            Buffer("zeros", (f"b{bits}",) * vector if atom else ("b8",), SETS, output=atom),
            Buffer("zeros", ("b8",), SETS * size, output=True),
        )
        text = _finish(code, [(f".b{bits}", name) for name in d] if atom else [], SETS)
        yield Test(instruction, "atomics", place_of(form), text, arguments, SETS // BLOCK)
        if (
            types()[type].kind in ("unsigned", "signed", "untyped")
            and ".exch" not in candidate.modifiers
            and not cas
            and ".relaxed" not in opcode
            and not {".inc", ".dec"} & set(candidate.modifiers)
        ):
            yield _same_address(form, candidate, space, instruction, type)


def _same_address(form: Form, candidate: Any, space: str, instruction: str, type: str) -> Test:
    """All threads of a CTA on one address: what is left does not depend on their order."""
    bits, kind = types()[type].bits, type[1:]
    shared = "shared" in space
    declared, loads = _inputs([(kind, "%b0")], SETS)
    variables = f".shared .align 16 .b8 mine[16]; .reg .b{bits} %d0, %m0; .reg .b64 %tm;"
    code = [HEAD.format(more="", variables=" ".join([variables, *declared])), *loads]
    code.append(
        f"mov.u32 %tt, %ctaid.x; mul.wide.u32 %tq, %tt, {bits // 8}; add.u64 %tm, %tout, %tq; mov.u32 %tt, %tid.x; setp.ne.u32 %tskip, %tt, 0;"
    )
    code.append("mov.u64 %ta, mine;" if shared else "cvta.global.u64 %ta, %tm;" if space == ".generic" else "mov.u64 %ta, %tm;")
    initial = {"and": -1, "min": 2 ** (bits - 1) - 1, "dec": 1000, "inc": 5}.get(
        next((m[1:] for m in candidate.modifiers if m[1:] in ("and", "min", "dec", "inc")), ""), 0
    )
    if shared:
        code.append(f"mov.b{bits} %m0, {initial}; @!%tskip st.shared.b{bits} [%ta], %m0; bar.sync 0;")
    policy, _ = _policy(instruction)
    code += [policy, instruction, "bar.sync 0;"]
    if shared:
        code.append(f"@%tskip bra over; ld.shared.b{bits} %m0, [%ta]; st.global.b{bits} [%tm], %m0;\nover:")
    text = "\n".join([*[line for line in code if line], "ret;", "}"])
    arguments = (Buffer("sets", (kind,), SETS), Buffer("sets", (f"b{bits}",), SETS // BLOCK, output=True, salt=3))
    return Test(instruction + " // one address", "atomics", place_of(form), text, arguments, SETS // BLOCK)


SPACES = (".const", ".global", ".local", ".shared", ".param")


def _addresses() -> Iterator[Test]:
    """cvta, isspacep, mapa, getctarank: on variables of every space; addresses themselves are not stored, which differ from GPU to GPU."""
    declarations = ".global .align 16 .b8 gvariable[64]; .const .align 16 .b8 cvariable[64];"
    variables = ".shared .align 16 .b8 svariable[64]; .local .align 16 .b8 lvariable[64]; .reg .b64 %a<6>; .reg .pred %p<6>; .reg .b16 %h<6>; .reg .b32 %r<6>;"
    names = {".const": "cvariable", ".global": "gvariable", ".local": "lvariable", ".shared": "svariable"}
    made = " ".join(f"mov.u64 %a{n}, {name}; cvta{space}.u64 %a{n}, %a{n};" for n, (space, name) in enumerate(names.items()))
    for form in forms("isspacep"):
        for candidate in opcodes(form):
            if not possible(_needs(candidate, form)):
                continue
            opcode = form.mnemonic + "".join(candidate.modifiers)
            code = [HEAD.format(more="", variables=variables), made, "mov.u64 %a4, 0;", "@%p0 st.local.u8 [lvariable], %th;"]
            for n in range(5):
                code.append(f"{opcode} %p{n}, %a{n}; selp.b32 %r{n}, 1, 0, %p{n};")
            text = _finish(code, [(".b32", f"%r{n}") for n in range(4)], BLOCK)
            arguments = (Buffer("zeros", ("b32",), 4), Buffer("zeros", ("b32",) * 4, BLOCK, output=True))
            yield Test(f"{opcode} %p, %a;", "addresses", place_of(form), text, arguments, 1, declarations=declarations)
    for form in forms("cvta"):
        for candidate in opcodes(form):
            space = candidate.slots[".ss"]
            short = space.partition("::")[0]
            if not possible(_needs(candidate, form)) or candidate.slots[".type"] != ".u64" or short == ".param":
                continue
            opcode = form.mnemonic + "".join(candidate.modifiers)
            there, back = (f"cvta{short}.u64", opcode) if ".to" in candidate.modifiers else (opcode, f"cvta.to{short}.u64")
            code = [
                HEAD.format(more="", variables=variables),
                f"mov.u64 %a0, {names[short]}; add.u64 %a0, %a0, 12; {there} %a1, %a0; {back} %a2, %a1; sub.u64 %a3, %a2, %a0;",
            ]
            if short != ".const":
                code.append(f"st.b32 [%a1], %ti; ld{short}.b32 %r0, [%a0];")
            else:
                code.append(f"ld{short}.b32 %r0, [%a0];")
            text = _finish(code, [(".b64", "%a3"), (".b32", "%r0")], BLOCK)
            if short in (".global", ".shared"):
                text = text.replace("st.b32 [%a1], %ti;", "mov.u32 %tt, 5; st.b32 [%a1], %tt;")
            arguments = (Buffer("zeros", ("b32",), 4), Buffer("zeros", ("b64", "b32"), BLOCK, output=True))
            yield Test(f"{opcode} %d, %a;", "addresses", place_of(form), text, arguments, 1, declarations=declarations)
    for mnemonic in ("mapa", "getctarank"):
        for form in forms(mnemonic):
            for candidate in opcodes(form):
                if candidate.slots[".type"] in (".s32", ".s64") or not possible(_needs(candidate, form)):
                    continue
                yield from _cluster(form, candidate)


def _cluster(form: Form, candidate: Any) -> Iterator[Test]:
    """A CTA of a cluster of 4 writes into the next one's shared memory, or asks whose an address is."""
    opcode = form.mnemonic + "".join(candidate.modifiers)
    bits = types()[candidate.slots[".type"]].bits
    mapped, window = ".shared::cluster" in candidate.modifiers, ".shared::cluster"
    if not mapped and bits == 32:
        return
    code = [HEAD.format(more="", variables=f".shared .align 16 .b8 mine[{4 * BLOCK}]; .reg .b{bits} %a<4>; .reg .b32 %r<6>;")]
    code.append(f"mov.u{bits} %a0, mine;" + ("" if mapped else f" cvta.shared.u{bits} %a0, %a0;"))
    code.append("mov.u32 %r0, %cluster_ctarank; add.u32 %r1, %r0, 1; and.b32 %r1, %r1, 3;")
    code.append(f"mapa{'.shared::cluster' if mapped else ''}.u{bits} %a1, %a0, %r1;")
    code.append(f"getctarank{'.shared::cluster' if mapped else ''}.u{bits} %r2, %a1;")
    code.append("mov.u32 %tt, %tid.x; shl.b32 %tu, %tt, 2; barrier.cluster.arrive; barrier.cluster.wait;")
    code.append(
        f"cvt.u{bits}.u32 %a2, %tu; add.u{bits} %a1, %a1, %a2; add.u{bits} %a0, %a0, %a2; st{window if mapped else ''}.b32 [%a1], %ti;"
    )
    code.append(f"barrier.cluster.arrive; barrier.cluster.wait; ld{'.shared' if mapped else ''}.b32 %r3, [%a0];")
    text = _finish(code, [(".b32", "%r2"), (".b32", "%r3")], 4 * BLOCK)
    arguments = (Buffer("zeros", ("b32",), 4), Buffer("zeros", ("b32", "b32"), 4 * BLOCK, output=True))
    yield Test(f"{opcode} %d, %a;", "addresses", place_of(form), text, arguments, 4, cluster=4)


def _needs(candidate: Any, form: Form) -> Any:
    variant = form.variants[-1]
    bound = bound_as(candidate, variant, [unknown(item) for item in variant])
    assert bound is not None
    return bound.requirement
