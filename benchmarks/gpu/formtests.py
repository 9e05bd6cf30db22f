"""Tests of instructions: for a form of the table with its modifiers, a kernel that reads operands, executes it and stores what it gives.

A `Test` says everything that both sides need: the text of the kernel, its arguments and how they are filled, the shape of the launch. Those
of registers only (`Registers`) can also be judged without a machine, by calling the semantics with arrays.
"""

# ruff: noqa: E501 -- PTX stands as it is written

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from operands import offsets, size_of

from ptxkit.isa import shapes
from ptxkit.isa.binding import Bound, _Binding
from ptxkit.isa.forms import Form, Item, Variant
from ptxkit.isa.opcodes import Candidate, match
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.table import all_forms
from ptxkit.isa.types import holders, is_type, types

TARGET, VERSION = "sm_90a", (9, 0)
"""What the GPU has, and the newest PTX that its driver takes."""
BLOCK = 256
SETS, MORE_SETS = 2560, 3584
"""Operand sets of a test; the second where there are three operands or more."""
HEADER = f".version {VERSION[0]}.{VERSION[1]}\n.target {TARGET}\n.address_size 64\n"

HINTS = frozenset(
    (
        ".cop",
        ".l1",
        ".l2",
        ".hint",
        ".prefetch",
        ".sem",
        ".scope",
        ".weak",
        ".L2::cache_hint",
        ".multicast",
        ".report",
        ".noftz",
        ".aligned",
        ".volatile",
    )
)
"""Slots that change no value: each of their modifiers is tried, but not all combinations of them."""


@attrs.frozen
class Buffer:
    """Memory that the kernel gets the address of. `fill` is sets, fragments, random, iota or zeros; `kinds` and `count` say of what."""

    fill: str
    kinds: tuple[str, ...] = ("b8",)
    count: int = 0
    output: bool = False
    salt: int = 0

    @property
    def bytes(self) -> int:
        return offsets(self.kinds, self.count)[-1]


@attrs.frozen
class Registers:
    """How the operands of a test are in its buffers, for judging it by the semantics alone.

    `reads` has by operand the elements of the input that it consists of; of a constant, its value stands in `constants`.
    """

    opcode: str
    form: str
    variant: int
    shapes: tuple[Any, ...]
    reads: dict[str, tuple[int, ...]]
    writes: tuple[tuple[str, tuple[str, ...]], ...]
    """The operands written, in order, with the PTX type of each element; the carry flag is `CC`."""
    constants: dict[str, Any]
    carry: int = -1
    """The element of the input that is carried in."""


@attrs.frozen
class Test:
    """A kernel, and what it is launched with."""

    name: str
    """The instruction as it is written in the kernel."""
    group: str
    """Which chapter's or kind of test it is; what `--only` takes."""
    form: str
    """File and line of the form in the table."""
    text: str
    """The kernel, under the name `ENTRY`; `declarations` of the module come before it."""
    arguments: tuple[Any, ...] = ()
    grid: int = 1
    block: int = BLOCK
    cluster: int = 1
    shared: int = 0
    declarations: str = ""
    registers: Registers | None = None
    about: dict[str, Any] = attrs.field(factory=dict)

    @property
    def key(self) -> str:
        """What the record knows the test by."""
        return f"{self.name}#{zlib.crc32((self.text + repr(self.arguments) + repr((self.grid, self.block, self.cluster))).encode()):08x}"


def place_of(form: Form) -> str:
    """A form's name in records: file and line."""
    return f"{form.file}:{form.line}"


# --- instructions -----------------------------------------------------------------------------------------------------------------


def possible(needed: Any) -> bool:
    """Whether the GPU and its driver have what has this requirement."""
    least = needed.version_for(TARGET)
    return least is not None and least <= VERSION


def opcodes(form: Form, fixed: Sequence[str] = ()) -> Iterator[Candidate]:
    """The form with all its combinations of modifiers; of slots that are hints, one after another is filled."""
    choices, plain = [], []
    for slot in form.slots:
        given = [choice.modifier for choice in slot.choices]
        hint = slot.name in HINTS or slot.name in fixed
        choices.append(given)
        plain.append(
            [""] if slot.optional and hint else [given[-1] if hint else None] if hint else [*([""] if slot.optional else []), *given]
        )
    seen = set()
    combinations = itertools.product(*[[x for x in options if x is not None] for options in plain])
    for number, chosen in enumerate(combinations):
        variants = [chosen]
        for place, slot in enumerate(form.slots):
            if slot.name not in HINTS and slot.name not in fixed:
                continue
            # which hint goes with which of the others changes from one to the next
            offered = [*([""] if slot.optional else []), *choices[place]]
            variants.append((*chosen[:place], offered[number % len(offered)], *chosen[place + 1 :]))
        for variant in variants:
            opcode = form.mnemonic + "".join(variant)
            if opcode in seen:
                continue
            seen.add(opcode)
            for candidate in match(opcode):
                if candidate.form is form:
                    yield candidate


def unknown(item: Item) -> OperandShape:
    """The shape of an operand of which nothing is known but how it is bracketed."""
    parts = [unknown(part) for part in item.parts]
    if item.kind == "address":
        return shapes.address(*parts)
    if item.kind == "pair":
        return shapes.pair(*parts)
    return shapes.vector(*parts) if item.kind == "vector" else shapes.UNKNOWN


def bound_as(candidate: Candidate, variant: Variant, given: Sequence[OperandShape]) -> Bound | None:
    """The instruction bound to this form with its operands written like that, or None."""
    found = _Binding(candidate, tuple(given), 64).of(variant) if len(variant) == len(given) else None
    return found if isinstance(found, Bound) else None


def register_type(kinds: Sequence[str], how: str) -> str:
    """The type of a register that may hold one of these types; of bits where that is possible."""
    wanted = kinds[0]
    exact = how if how in ("same", "wide", "exact", "bits") else "same"
    able = holders(wanted, exact)
    bits = max(types()[wanted].bits, 16)
    if wanted == ".pred":
        return ".pred"
    for one in (f".b{bits}", wanted, *sorted(able)):
        if one in able:
            return one
    return wanted


# --- pieces of kernels ------------------------------------------------------------------------------------------------------------


def load(kind: str, register: str, address: str) -> str:
    """Loads an element of a kind into a register."""
    if kind == "pred":
        return f"ld.global.u8 %th, {address}; setp.ne.b16 {register}, %th, 0;"
    size = size_of(kind)
    return f"ld.global.{'u8' if size == 1 else f'b{8 * size}'} {register}, {address};"


def store(type: str, register: str, address: str) -> str:
    """Stores a register declared with a type."""
    if type == ".pred":
        return f"selp.b16 %th, 1, 0, {register}; st.global.u8 {address}, %th;"
    return f"st.global.b{types()[type].bits} {address}, {register};"


def output_kind(type: str) -> str:
    """The kind of a register as it is stored."""
    return "pred" if type == ".pred" else f"b{types()[type].bits}"


PROLOGUE = """.visible .entry ENTRY(.param .u64 in, .param .u64 out)
{
.reg .b16 %th; .reg .b32 %ti, %tt; .reg .b64 %tin, %tout, %tp, %tq; .reg .pred %tskip;
ld.param.u64 %tin, [in]; ld.param.u64 %tout, [out]; cvta.to.global.u64 %tin, %tin; cvta.to.global.u64 %tout, %tout;
mov.u32 %ti, %ctaid.x; mov.u32 %tt, %ntid.x; mul.lo.u32 %ti, %ti, %tt; mov.u32 %tt, %tid.x; add.u32 %ti, %ti, %tt;
"""


def element(base: str, offset: int, size: int, pointer: str = "%tp") -> str:
    """Code that makes a pointer to the element of this thread."""
    return f"mul.wide.u32 {pointer}, %ti, {size}; add.u64 {pointer}, {pointer}, {base};" + (
        f" add.u64 {pointer}, {pointer}, {offset};" if offset else ""
    )


def per_thread(inputs: Sequence[tuple[str, str]], outputs: Sequence[tuple[str, str]], count: int, code: str, registers: str) -> str:
    """A kernel of which each thread reads its element of every input (kind, register), runs code, and stores its outputs (type, register)."""
    lines = [PROLOGUE + registers]
    for (kind, register), offset in zip(inputs, offsets([kind for kind, _ in inputs], count), strict=False):
        lines += [element("%tin", offset, size_of(kind)), load(kind, register, "[%tp]")]
    lines.append(code)
    kinds = [output_kind(type) for type, _ in outputs]
    for (type, register), offset, kind in zip(outputs, offsets(kinds, count), kinds, strict=False):
        lines += [element("%tout", offset, size_of(kind)), store(type, register, "[%tp]")]
    return "\n".join([*lines, "ret;", "}"])


# --- registers only ---------------------------------------------------------------------------------------------------------------

ELSEWHERE = frozenset(
    (
        "mov",
        "cvta",
        "isspacep",
        "mapa",
        "getctarank",
        "istypep",
        "txq",
        "suq",
        "suld",
        "sust",
        "sured",
        "fabric",
        "multimem",
        "mbarrier",
        "createpolicy",
        "discard",
        "applypriority",
        "setmaxnreg",
        "barrier",
        "bar",
        "wgmma",
        "tex",
        "tld4",
        "stacksave",
        "stackrestore",
        "alloca",
        "nanosleep",
        "pmevent",
        "activemask",
        "elect",
    )
)


def register_tests(form: Form) -> Iterator[Test]:
    """The tests of a form whose operands are registers and constants, all combinations of its modifiers."""
    for candidate in opcodes(form):
        for number, variant in enumerate(form.variants):
            first = bound_as(candidate, variant, [unknown(item) for item in variant])
            if first is None or not possible(first.requirement) or (first.removed and _is_removed(first)):
                continue
            yield from _registers(candidate, number, variant, first)


def _is_removed(bound: Bound) -> bool:
    return any(one.version <= VERSION and (one.target is None or one.target.target in ("sm_70", "sm_80", "sm_90")) for one in bound.removed)


def _kinds(bound: Bound, name: str, type: str) -> str:
    """What an operand is filled with."""
    mnemonic = bound.form.mnemonic
    if mnemonic in ("div", "rem") and name == "b" and types()[type].is_integer:
        return type[1:]
    if mnemonic in ("mma", "wmma"):
        found = [m[1:] for m in bound.modifiers if is_type(m)]
        found = found[-4:] if len(found) >= 4 else [found[0], "f16", "f16", found[-1]]
        if name in ("a", "b", "c"):
            one = found["abc".index(name) + 1]
            bits = types()[type].bits
            size = types()["." + one].bits
            return one if size == bits or one == "tf32" else f"{one}x{bits // size}" if size >= 8 else f"b{bits}"
        if name == "e":
            return "meta_tf32" if found[1] == "tf32" else "meta"
        return type[1:]
    return type[1:]


def _constants(bound: Bound, name: str) -> list[int]:
    operand = bound.operand(name)
    assert operand is not None
    limits = operand.limits
    if bound.form.mnemonic == "lop3":
        return list(range(256))
    if limits is None:
        return [0, 1, 5]
    if limits.values:
        return list(limits.values)[:4]
    least, most = int(limits.least or 0), int(limits.most if limits.most is not None else 8)
    return sorted({value for value in (least, least + limits.multiple, (least + most) // 2, most) if limits.allow(value)})


def _registers(candidate: Candidate, number: int, variant: Variant, first: Bound) -> Iterator[Test]:
    form = candidate.form
    constant = [o.name for o in first.operands if o.role == "imm"]
    negatable = [o.name for o in first.operands if o.role == "r" and any(rule.negatable for rule in form.rules[o.name])]
    for chosen in itertools.product(*[_constants(first, name) for name in constant]):
        constants = dict(zip(constant, chosen, strict=True))
        for negated in ((), tuple(negatable)) if negatable and form.mnemonic != "vmad" else ((),):
            for test in _one(candidate, number, variant, first, constants, negated):
                yield from _modes(test, candidate)
    if form.mnemonic == "vmad" and not first.has(".po"):
        for name in ("a", "c"):
            yield from _one(candidate, number, variant, first, {}, (name,))


def _one(
    candidate: Candidate, number: int, variant: Variant, first: Bound, constants: dict[str, int], negated: tuple[str, ...]
) -> Iterator[Test]:
    inputs: list[tuple[str, str]] = []
    outputs: list[tuple[str, str]] = []
    written: dict[str, str] = {}
    shaped: dict[str, OperandShape] = {}
    declared: list[str] = []
    reads: dict[str, tuple[int, ...]] = {}
    writes: list[tuple[str, tuple[str, ...]]] = []
    for operand in first.operands:
        name = operand.name
        if name in constants:
            written[name], shaped[name] = str(constants[name]), shapes.immediate("int")
            continue
        if not operand.types or operand.role not in ("r", "w", "rw"):
            return
        type = register_type(operand.types, operand.how)
        count = max(operand.width, 1)
        names = [f"%{name}{element}" if operand.width else f"%{name}" for element in range(count)]
        declared += [f".reg {type} {one};" for one in names]
        sign = ("!" if type == ".pred" else "-") if name in negated else ""
        shape = shapes.register(type, negated=bool(sign))
        shaped[name] = shapes.vector(*[shape] * count) if operand.width else shape
        written[name] = "{" + ", ".join(names) + "}" if operand.width else sign + names[0]
        if operand.role in ("r", "rw"):
            reads[name] = tuple(range(len(inputs), len(inputs) + count))
            inputs += [(_kinds(first, name, operand.types[0]), one) for one in names]
        if operand.role in ("w", "rw"):
            outputs += [(type, one) for one in names]
            writes.append((name, (operand.types[0],) * count))
    if not outputs:
        return
    given = [_shaped(item, shaped) for item in variant]
    bound = bound_as(candidate, variant, given)
    if bound is None:
        return
    code, carry = [], -1
    if bound.carry in ("r", "rw"):
        carry = len(inputs)
        inputs.append(("pred", "%tcin"))
        declared.append(".reg .pred %tcin; .reg .b32 %tc0, %tc1;")
        code.append("selp.u32 %tc0, 1, 0, %tcin;")
        code.append("sub.cc.u32 %tc1, 0, %tc0;" if bound.form.mnemonic == "subc" else "add.cc.u32 %tc1, %tc0, -1;")
    text = f"{bound.opcode} {', '.join(_written(item, written) for item in variant)};"
    code.append(text)
    if bound.carry in ("w", "rw"):
        declared.append(".reg .b32 %tcc;")
        code.append(f"{'subc' if bound.form.mnemonic in ('sub', 'subc') else 'addc'}.u32 %tcc, 0, 0;")
        outputs.append((".b32", "%tcc"))
        writes.append(("CC", (".u32",)))
    kinds = tuple([kind for kind, _ in inputs])
    matrix = bound.form.mnemonic in ("mma", "wmma")
    count = 2048 if matrix else 512 if bound.form.mnemonic == "lop3" else SETS if len(inputs) < 3 else MORE_SETS
    body = per_thread(inputs, outputs, count, "\n".join(code), " ".join(declared) + "\n")
    buffers = (
        Buffer("fragments" if matrix else "sets", kinds, count),
        Buffer("zeros", tuple(output_kind(type) for type, _ in outputs), count, output=True),
    )
    registers = Registers(bound.opcode, place_of(bound.form), number, tuple(given), reads, tuple(writes), constants, carry)
    group = bound.form.file.removesuffix(".isa")
    approximate = bound.has(".approx") or bound.has(".full")
    yield Test(
        text,
        group,
        place_of(bound.form),
        body,
        buffers,
        count // BLOCK,
        registers=registers,
        about={"approximate": approximate, "negated": negated},
    )


def _shaped(item: Item, shaped: dict[str, OperandShape]) -> OperandShape:
    if item.kind == "plain":
        return shaped[item.name]
    parts = [_shaped(part, shaped) for part in item.parts]
    return {"pair": shapes.pair, "vector": shapes.vector, "address": shapes.address}[item.kind](*parts)


def _written(item: Item, written: dict[str, str]) -> str:
    if item.kind == "plain":
        return written[item.name]
    parts = [_written(part, written) for part in item.parts]
    return "|".join(parts) if item.kind == "pair" else f"[{', '.join(parts)}]" if item.kind == "address" else "{" + ", ".join(parts) + "}"


# --- lanes of a warp --------------------------------------------------------------------------------------------------------------

COLLECTIVE = frozenset(("shfl", "vote", "match", "redux"))


def _modes(test: Test, candidate: Candidate) -> Iterator[Test]:
    """A collective twice: by all lanes of each warp, and by those that a mask names; other tests as they are."""
    mnemonic = candidate.form.mnemonic
    if mnemonic == "mma" or mnemonic not in COLLECTIVE or test.registers is None:
        yield test
        return
    full, count = test.arguments[0], test.arguments[0].count
    reads = test.registers.reads
    kinds = list(full.kinds)

    def put(name: str, kind: str) -> None:
        kinds[reads[name][0]] = kind

    for partly in (False, True):
        kinds = list(full.kinds)
        put("membermask", "full")
        if mnemonic == "shfl":
            put("b", "lane")
            put("c", "control")
            if partly:
                put("b", "inside" if ".bfly" in candidate.modifiers else "lane")
                put("membermask", "segments")
                put("c", "control_low" if ".up" in candidate.modifiers else "control_high")
        elif partly:
            put("membermask", "masks")
        if mnemonic in ("match",):
            kind = kinds[reads["a"][0]]
            if kind == "b32":
                put("a", "few")
        # the registers are laid out by size, which these words have in common with .b32
        text = test.text
        if partly:
            outputs = [name for name, _ in test.registers.writes]
            zeros = [
                f"setp.ne.b32 %{name}, 0, 0;" if types == (".pred",) else f"mov.b{_bits(types[0])} %{name}, 0;"
                for name, types in test.registers.writes
            ]
            guard = f"mov.u32 %tt, %laneid; shr.u32 %tt, %membermask, %tt; and.b32 %tt, %tt, 1; setp.eq.u32 %tskip, %tt, 0;\n{' '.join(zeros)}\n@%tskip bra over;"
            text = text.replace(test.name, f"{guard}\n{test.name}\nover:")
            assert outputs and text != test.text
        buffer = attrs.evolve(full, kinds=tuple(kinds), count=count)
        name = test.name + (" // some lanes" if partly else "")
        registers = None if partly else test.registers
        yield attrs.evolve(test, name=name, group="collective", text=text, arguments=(buffer, *test.arguments[1:]), registers=registers)


def _bits(type: str) -> int:
    return max(types()[type].bits, 16)


# --- the rest that needs no memory ------------------------------------------------------------------------------------------------


def other_register_tests(form: Form) -> Iterator[Test]:
    """Moves, selectors of video instructions, special registers: what the general way does not write."""
    maker = {"mov": _moves, "activemask": _activemask, "elect": _elect, "bar": _barriers, "barrier": _barriers}.get(form.mnemonic)
    if maker is not None:
        yield from maker(form)
    if form.file == "video.isa":
        yield from _video(form)


def simple(
    form: Form,
    name: str,
    group: str,
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
    code: str,
    extra: str = "",
    count: int = SETS,
) -> Test:
    """A test of which each thread reads and writes its own elements; registers are declared by these."""
    declared = [f".reg {'.pred' if kind == 'pred' else f'.b{max(8 * size_of(kind), 16)}'} {register};" for kind, register in inputs]
    declared += [f".reg {type} {register};" for type, register in outputs]
    text = per_thread(inputs, outputs, count, code, " ".join([*declared, extra]) + "\n")
    buffers = (
        Buffer("sets", tuple(kind for kind, _ in inputs) or ("b32",), count),
        Buffer("zeros", tuple(output_kind(t) for t, _ in outputs), count, output=True),
    )
    return Test(name, group, place_of(form), text, buffers, count // BLOCK)


SPECIALS = ("%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%laneid", "%ctaid.x", "%ctaid.y", "%nctaid.x", "%nctaid.z", "%clusterid.x", "%nclusterid.x", "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank", "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%is_explicit_cluster")  # fmt: skip


def _moves(form: Form) -> Iterator[Test]:
    vectors = any("vec" in slot.name for slot in form.slots)
    whole = sum(other.mnemonic == "mov" and other.line < form.line for other in all_forms()) == 0
    for candidate in opcodes(form):
        opcode, type = form.mnemonic + "".join(candidate.modifiers), candidate.slots[".type"]
        bits = 8 if type == ".pred" else types()[type].bits
        kind = type[1:]
        if vectors:
            width = int(candidate.slots[".vec"][2:])
            a, d = [f"%a{n}" for n in range(width)], [f"%d{n}" for n in range(width)]
            code = f"{opcode} {{{', '.join(d)}}}, {{{', '.join(a)}}};"
            yield simple(form, code, "data_movement", [(kind, one) for one in a], [(f".b{bits}", one) for one in d], code)
        elif whole:
            code = f"{opcode} %d, %a;"
            yield simple(form, code, "data_movement", [(kind, "%a")], [(type if type == ".pred" else f".b{bits}", "%d")], code)
            if type == ".pred":
                yield simple(form, "mov.pred %d, !%a;", "data_movement", [(kind, "%a")], [(".pred", "%d")], "mov.pred %d, !%a;")
            if type in (".u32", ".u64", ".u16", ".pred"):
                for special in SPECIALS:
                    known = special_register(special)
                    if known is None or type != known.types[0]:
                        continue
                    code = f"{opcode} %d, {special};"
                    yield simple(form, code, "data_movement", [], [(type if type == ".pred" else f".b{bits}", "%d")], code)
        else:
            for parts in {"16": (2,), "32": (2, 4), "64": (2, 4), "128": (2, 4)}[str(bits)]:
                part = bits // parts
                if part == 8:
                    continue
                a, d = [f"%a{n}" for n in range(parts)], [f"%d{n}" for n in range(parts)]
                pack = f"{opcode} %d, {{{', '.join(a)}}};"
                yield simple(form, pack, "data_movement", [(f"b{part}", one) for one in a], [(type, "%d")], pack)
                unpack = f"{opcode} {{{', '.join(d)}}}, %a;"
                yield simple(form, unpack, "data_movement", [(kind, "%a")], [(f".b{part}", one) for one in d], unpack)


def _activemask(form: Form) -> Iterator[Test]:
    code = "mov.u32 %tt, %laneid; shr.u32 %tt, %m, %tt; and.b32 %tt, %tt, 1; setp.eq.u32 %tskip, %tt, 0; mov.b32 %d, 0;\n@%tskip bra over;\nactivemask.b32 %d;\nover:"
    yield simple(form, "activemask.b32 %d;", "collective", [("masks", "%m")], [(".b32", "%d")], code)


def _elect(form: Form) -> Iterator[Test]:
    for opcode in ("elect.sync %d|%q, %m;", "elect.sync _|%q, %m;"):
        code = f"mov.u32 %tt, %laneid; shr.u32 %tt, %m, %tt; and.b32 %tt, %tt, 1; setp.eq.u32 %tskip, %tt, 0; mov.b32 %d, 0; setp.ne.u32 %q, 0, 0;\n@%tskip bra over;\n{opcode}\nover:"
        yield simple(form, opcode, "collective", [("masks", "%m")], [(".b32", "%d"), (".pred", "%q")], code)


def _barriers(form: Form) -> Iterator[Test]:
    """Reductions over the threads at a barrier: of all of the CTA, and of those that are counted."""
    if ".red" not in form.syntax:
        return
    for candidate in opcodes(form):
        for counted in ("", ", 256"):
            opcode = form.mnemonic + "".join(candidate.modifiers)
            type = ".b32" if ".popc" in opcode else ".pred"
            for sign in ("", "!"):
                instruction = f"{opcode} %d, 1{counted}, {sign}%a;"
                # a CTA in four has the same for all threads
                code = f"mov.u32 %tt, %ctaid.x; and.b32 %tt, %tt, 3; setp.eq.u32 %tskip, %tt, 0; or.pred %a, %a, %tskip;\n{instruction}"
                yield simple(form, instruction, "barrier", [("pred", "%a")], [(type, "%d")], code)


PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
SELECTIONS = 60


def _video(form: Form) -> Iterator[Test]:
    """Selectors of bytes and halves: some of their combinations for every form (of all there would be a hundred thousand)."""
    simd = form.mnemonic[-1] in "24"
    candidates = list(opcodes(form))
    wanted = SELECTIONS if not simd else 24
    for number in range(wanted):
        lot = zlib.crc32(f"{form.mnemonic} {number}".encode())
        candidate = candidates[lot % len(candidates)]
        variant = next(
            (v for v in form.variants if (len(v) == 4) == (simd or ".op2" in candidate.slots or form.mnemonic == "vmad")), form.variants[-1]
        )
        if bound_as(candidate, variant, [unknown(item) for item in variant]) is None:
            continue
        names = [item.name for item in variant]
        opcode = form.mnemonic + "".join(candidate.modifiers)
        picked = [PARTS[(lot >> shift) % 7] for shift in (4, 9, 14)]
        if simd:
            masks = (".h0", ".h1", ".h10") if form.mnemonic[-1] == "2" else (".b0", ".b31", ".b210", ".b3210", ".b3")
            chosen = masks[(lot >> 7) % len(masks)]
            # lanes as they are mixed: h3210 counts the halves of both operands
            mixed = [".h10", ".h32", ".h02", ".h31"] if form.mnemonic[-1] == "2" else [".b3210", ".b7654", ".b0246", ".b1357", ".b5214"]
            picked = [mixed[(lot >> 11) % len(mixed)], mixed[(lot >> 16) % len(mixed)], ""]
            written = [f"%d{chosen}", f"%a{picked[0]}", f"%b{picked[1]}", "%c"]
        else:
            # with c, a part of d may be named only where there is no second operation
            written = ["%d", f"%a{picked[0]}", f"%b{picked[1]}", "%c"][: len(names)]
            if ".op2" not in candidate.slots and form.mnemonic != "vmad" and picked[2]:
                written = [f"%d{picked[2]}", *written[1:3], "%c"]
        code = f"{opcode} {', '.join(written)};"
        inputs = [
            (kind, register)
            for kind, register in (("b32", "%a"), ("b32", "%b"), ("b32", "%c"))
            if any(w.startswith(register) for w in written)
        ]
        yield simple(form, code, "video", inputs, [(".b32", "%d")], code, count=MORE_SETS)
