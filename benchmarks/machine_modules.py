"""Random modules that are right: forms of the table with operands of the right types, in branches, loops, calls and between barriers.

`module(number)` gives the text with that number; the same number gives the same text. Addresses are mostly of buffers that are there, some
are wild; what a kernel computes has no meaning. `machine_fuzz.py --generated` launches them.
"""

# ruff: noqa: E501 -- PTX stands as it is written

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

from formtests import bound_as, register_type, unknown

from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Form, Item
from ptxkit.isa.opcodes import Candidate, match
from ptxkit.isa.table import all_forms

TARGETS = (("8.8", "sm_90a"), ("8.8", "sm_100a"), ("8.0", "sm_80"))
REGISTERS = {
    ".pred": ("%p", 6),
    ".b8": ("%q", 4),
    ".b16": ("%h", 8),
    ".b32": ("%r", 40),
    ".b64": ("%d", 24),
    ".b128": ("%x", 4),
    ".f32": ("%f", 12),
    ".f64": ("%g", 8),
    ".f16": ("%e", 6),
    ".u32": ("%u", 8),
    ".s32": ("%s", 8),
    ".u64": ("%w", 6),
    ".u16": ("%v", 6),
    ".f16x2": ("%z", 8),
}
SPACES = {".global": "gdata", ".shared": "sdata", ".local": "ldata", ".const": "cdata", ".generic": ""}
BARRIERS = (
    "bar.sync 0;",
    "bar.warp.sync -1;",
    "barrier.cluster.arrive; barrier.cluster.wait;",
    "membar.gl;",
    "fence.proxy.async;",
    "cp.async.wait_all;",
    "bar.arrive 1, 64;",
)
LEFT_OUT = frozenset(("ret", "exit", "bra", "brx", "call", "trap", "brkpt", "setmaxnreg", "alloca", "stacksave", "stackrestore", "pmevent"))
"""What is written where it fits, or ends a kernel at once."""


OFTEN = frozenset(
    f"{name}.isa"
    for name in (
        "integer",
        "logic",
        "comparison",
        "conversion",
        "floating_point",
        "half_precision",
        "video",
        "extended_precision",
        "data_movement",
        "atomics",
        "synchronization",
    )
)
"""Chapters that are chosen more often: what the others do ends most launches that have nothing prepared for it."""


@cache
def chapters() -> tuple[str, ...]:
    """The chapters to choose from, some several times."""
    return tuple([file for file in sorted(able()) for _ in range(8 if file in OFTEN else 1)])


@cache
def able() -> dict[str, tuple[Form, ...]]:
    """The forms to choose from, by chapter: so that each chapter is as frequent as another."""
    found: dict[str, list[Form]] = {}
    for form in all_forms():
        if form.modelled and not form.flow and form.mnemonic not in LEFT_OUT:
            found.setdefault(form.file, []).append(form)
    return {file: tuple(forms) for file, forms in found.items()}


class Writer:
    """Writes one module."""

    def __init__(self, number: int) -> None:
        self.lot = random.Random(number)
        self.version, self.target = self.lot.choice(TARGETS)
        self.labels = 0
        self.loops = 0
        self.calls = False

    def text(self) -> str:
        """The module."""
        lot = self.lot
        self.calls = lot.random() < 0.4
        head = [f".version {self.version}", f".target {self.target}", ".address_size 64"]
        head.append(".global .align 128 .b8 gdata[4096]; .const .align 16 .b8 cdata[1024];")
        if self.calls:
            head.append(
                f".func (.reg .b32 out) helper(.reg .b32 given) {{ {self.declared()} {self.prologue(False)} {self.body(3, False)} mov.b32 out, %r1; ret; }}"
            )
        body = self.body(lot.randint(4, 14), True)
        shared = ".shared .align 1024 .b8 sdata[4096]; .local .align 16 .b8 ldata[256];"
        head.append(
            f".visible .entry k(.param .u64 buffer, .param .u32 n) {{ {self.declared()} {shared}\n{self.prologue(True)}\n{body}\nret; }}"
        )
        return "\n".join(head) + "\n"

    def declared(self) -> str:
        return (
            " ".join(
                f".reg {type} {name}<{count}>;"
                for type, (name, count) in REGISTERS.items()
                if not (type == ".b128" and self.target == "sm_80")
            )
            + " .reg .b32 %loop<20>;"
        )

    def prologue(self, is_entry: bool) -> str:
        """Registers get values: of the thread, and addresses of what is there."""
        lines = ["mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, %ctaid.x; mov.u32 %r3, 5; mov.b32 %r4, -7; shl.b32 %r5, %r0, 2;"]
        lines.append("ld.param.u64 %d0, [buffer]; ld.param.u32 %r6, [n];" if is_entry else "mov.u64 %d0, gdata; mov.b32 %r6, given;")
        lines.append(
            "cvta.to.global.u64 %d1, %d0; mov.u64 %d2, gdata; cvt.u64.u32 %d3, %r5; add.u64 %d2, %d2, %d3; setp.lt.u32 %p0, %r0, 13; setp.eq.u32 %p1, %r1, 3;"
        )
        if is_entry:
            lines.append("mov.u64 %d4, sdata; add.u64 %d4, %d4, %d3; mov.u32 %r7, sdata; add.u32 %r7, %r7, %r5; cvta.shared.u64 %d5, %d4;")
        else:
            lines.append("mov.u64 %d4, 0; mov.u32 %r7, 0; mov.u64 %d5, %d0;")
        for type, (name, count) in REGISTERS.items():
            if type in (".b32", ".pred", ".b128", ".b8"):
                continue
            bits = 32 if type == ".f16x2" else int(type[2:])
            for place in range(0 if type != ".b64" else 6, count):
                value = self.lot.choice((0, 1, 2, 17, 255, 0x3C00, 0x7FFF)) if bits < 64 else self.lot.choice((0, 1, 64, 2**40))
                lines.append(f"mov.b{bits} {name}{place}, {value};")
        for place in range(8, REGISTERS[".b32"][1]):
            lines.append(f"mov.b32 %r{place}, {self.lot.choice((0, 1, 3, 31, 32, 0x3F800000, 0x7F800001, 0xFFFFFFFF, 0x80000000))};")
        for place in range(2, 6):
            lines.append(f"setp.ne.u32 %p{place}, %r{place + 6}, 0;")
        if self.target != "sm_80":
            lines += [f"mov.b128 %x{n}, {{%d{n}, %d{n + 1}}};" for n in range(4)]
        lines += [f"cvt.u8.u32 %q{n}, %r{n};" for n in range(4)]
        return "\n".join(lines)

    def body(self, size: int, is_entry: bool, depth: int = 0) -> str:
        """Statements: instructions, and around some of them a branch or a loop."""
        lines = []
        for _ in range(size):
            chance = self.lot.random()
            if chance < 0.08 and depth < 3:
                self.labels += 1
                label = f"L{self.labels}_{int(is_entry)}"
                lines.append(
                    f"@{self.lot.choice(('', '!'))}%p{self.lot.randrange(6)} bra {label};\n{self.body(2, is_entry, depth + 1)}\n{label}:"
                )
            elif chance < 0.14 and depth < 3 and self.loops < 18:
                self.loops += 1
                register, label = f"%loop{self.loops}", f"B{self.loops}_{int(is_entry)}"
                turns = self.lot.choice(("2", "5", "%r1", "%r6"))
                lines.append(
                    f"mov.b32 {register}, 0;\n{label}:\n{self.body(2, is_entry, depth + 1)}\nadd.u32 {register}, {register}, 1; setp.lt.u32 %p5, {register}, {turns};\n@%p5 bra {label};"
                )
            elif chance < 0.19:
                lines.append(self.lot.choice(BARRIERS[:2] if self.target == "sm_80" else BARRIERS))
            elif chance < 0.22 and self.calls and is_entry:
                lines.append("call (%r1), helper, (%r3);")
            elif chance < 0.23:
                lines.append(f"@%p{self.lot.randrange(6)} exit;" if is_entry else f"@%p{self.lot.randrange(6)} ret;")
            else:
                lines.append(self.instruction(is_entry))
        return "\n".join(lines)

    def instruction(self, is_entry: bool) -> str:
        """One instruction of a form chosen at random, perhaps guarded."""
        for _ in range(40):
            form = self.lot.choice(able()[self.lot.choice(chapters())])
            found = self._written(form, is_entry)
            if found:
                guard = f"@{self.lot.choice(('', '!'))}%p{self.lot.randrange(6)} " if self.lot.random() < 0.1 else ""
                return guard + found
        return "add.u32 %r1, %r2, %r3;"

    def _written(self, form: Form, is_entry: bool) -> str:
        chosen = [
            self.lot.choice(["", *[c.modifier for c in slot.choices]] if slot.optional else [c.modifier for c in slot.choices])
            for slot in form.slots
        ]
        opcode = form.mnemonic + "".join(chosen)
        candidate = next((one for one in match(opcode) if one.form is form), None)
        if candidate is None:
            return ""
        variant = self.lot.choice(form.variants)
        bound = bound_as(candidate, variant, [unknown(item) for item in variant])
        if bound is None or bound.removed:
            return ""
        least = bound.requirement.version_for(self.target)
        if least is None or least > tuple(map(int, self.version.split("."))):
            return ""
        written = {}
        for operand in bound.operands:
            text = self._operand(candidate, bound, operand, is_entry)
            if not text:
                return ""
            written[operand.name] = text
        return f"{opcode} {', '.join(_joined(item, written) for item in variant)};"

    def _operand(self, candidate: Candidate, bound: Bound, operand: BoundOperand, is_entry: bool) -> str:
        lot = self.lot
        if operand.role == "addr":
            return self._address(operand, is_entry)
        if operand.role == "imm" or (operand.limits is not None and lot.random() < 0.5):
            limits = operand.limits
            if limits is None:
                return str(lot.choice((0, 1, 2, 7)))
            if limits.values:
                return str(lot.choice(limits.values))
            least, most = int(limits.least or 0), int(limits.most if limits.most is not None else (limits.least or 0) + 64)
            return str(lot.randrange(least, most + 1) // limits.multiple * limits.multiple)
        if operand.role not in ("r", "w", "rw") or not operand.types:
            return ""
        type = register_type(operand.types, operand.how)
        name, count = REGISTERS.get(type, ("", 0))
        if not name:
            return ""
        width = max(operand.width, 1)
        if width > count:
            return ""
        # what addresses and counts stand in is not written
        first = {".b64": 6, ".b32": 8, ".pred": 0}.get(type, 0) if operand.writes else 0
        start = lot.randrange(first, max(count - width, first) + 1)
        if start + width > count:
            return ""
        registers = [f"{name}{start + n}" for n in range(width)]
        return "{" + ", ".join(registers) + "}" if operand.width else registers[0]

    def _address(self, operand: BoundOperand, is_entry: bool) -> str:
        lot = self.lot
        space = operand.spaces[0] if operand.spaces else ".generic"
        align = max(operand.align, 1)
        offset = lot.choice((0, 0, 16, 64, 256)) // align * align
        if lot.random() < 0.06:
            return lot.choice(("%d7", "%d8+4", "0", "%d1+65536"))
        if space == ".global":
            return lot.choice((f"%d1+{offset}", f"gdata+{offset}", "%d2"))
        if space in (".shared", ".shared::cta", ".shared::cluster"):
            return (lot.choice((f"sdata+{offset}", f"%r7+{offset}", f"%d4+{offset}"))) if is_entry else "%r7"
        if space == ".local":
            return f"ldata+{offset % 128}" if is_entry else "%d4"
        if space == ".const":
            return f"cdata+{offset}"
        if space.startswith(".param"):
            return ""
        return lot.choice((f"%d0+{offset}", f"%d5+{offset}"))


def _joined(item: Item, written: dict[str, str]) -> str:
    if item.kind == "plain":
        return written[item.name]
    parts = [_joined(part, written) for part in item.parts]
    if item.kind == "pair":
        return "|".join(parts)
    return (
        f"[{', '.join(parts)}]"
        if item.kind == "address"
        else "{" + ", ".join(parts) + "}"
        if item.kind == "vector"
        else f"({', '.join(parts)})"
    )


def module(number: int) -> str:
    """The module with this number."""
    return Writer(number).text()
