"""Expansions: instructions that an assembler or target lacks, written as several, in a block with its own registers.

Each function returns the block, without guards, or None if it does not apply. A block with a label or guards is skipped by a branch if the
guard of the instruction fails; any other is put under that guard.
"""

from __future__ import annotations

from ptxkit.isa.binding import Bound
from ptxkit.rewriters.engine.substitutions import (
    WORDS,
    Goal,
    Substitution,
    element_addresses,
    operands_of,
)
from ptxkit.syntax import Instruction, Vector

ALL_LANES = 31
MOST_COPIED = 16
"""Maximum bytes that a `cp.async` copies."""


class _Block:
    """A block under construction: `new` returns a new register, `add` appends an instruction."""

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._lines: list[str] = []
        self._count = 0

    def new(self, kind: str) -> str:
        name = self._goal.names.register("t", self._count)
        self._count += 1
        self._lines.insert(self._count - 1, f".reg {kind} {name};")
        return name

    def several(self, kind: str, count: int) -> list[str]:
        return [self.new(kind) for _ in range(count)]

    def label(self, role: str) -> str:
        return self._goal.names.label(role)

    def add(self, *lines: str) -> None:
        self._lines += [line if line.endswith(":") else f"{line};" for line in lines]

    @property
    def text(self) -> str:
        return "{ " + "\n\t".join(self._lines) + " }"


# --- warps


def _reduced(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """The lanes of the mask report their values one by one. `vote` waits for all of them and tells which have exited."""
    opcode = instruction.opcode
    if opcode.mnemonic != "redux" or bound.type == ".f32":
        return None
    d, a, mask = operands_of(instruction)
    operation = bound.slot(".op") + bound.type
    block = _Block(goal)
    own, members, left, lane, value, total = block.several(".b32", 6)
    more, first = block.several(".pred", 2)
    again = block.label("again")
    block.add(
        f"mov.b32 {own}, {a}",
        f"mov.b32 {members}, {mask}",
        f"setp.eq.u32 {more}, 0, 0",
        f"vote.sync.ballot.b32 {left}, {more}, {members}",
        f"mov.pred {first}, {more}",
        f"mov.b32 {total}, {own}",
        f"{again}:",
        f"brev.b32 {lane}, {left}",
        f"clz.b32 {lane}, {lane}",
        f"shfl.sync.idx.b32 {value}, {own}, {lane}, {ALL_LANES}, {members}",
        f"@{first} mov.b32 {total}, {value}",
        f"@!{first} {operation[1:]} {total}, {total}, {value}",
        f"mov.pred {first}, 0",
        f"add.u32 {value}, {left}, -1",
        f"and.b32 {left}, {left}, {value}",
        f"setp.ne.u32 {more}, {left}, 0",
        f"@{more} bra {again}",
        f"mov.b32 {d}, {total}",
    )
    return block.text


def _elected(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """The lowest lane of the mask: which lane is elected is unspecified, except that it is always the same."""
    if instruction.opcode.mnemonic != "elect":
        return None
    pair, mask = operands_of(instruction)
    leader, _, is_leader = [part.strip() for part in pair.partition("|")]
    block = _Block(goal)
    lowest, lane = block.several(".b32", 2)
    one = block.new(".pred")
    block.add(
        f"setp.eq.u32 {one}, 0, 0",
        f"vote.sync.ballot.b32 {lowest}, {one}, {mask}",
        f"brev.b32 {lowest}, {lowest}",
        f"clz.b32 {lowest}, {lowest}",
        f"mov.u32 {lane}, %laneid",
        *([f"mov.b32 {leader}, {lowest}"] if leader != "_" else []),
        f"setp.eq.u32 {is_leader}, {lowest}, {lane}",
    )
    return block.text


def _among_the_active(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """The lanes that execute the instruction together, as before masks were introduced."""
    opcode = instruction.opcode
    if opcode.mnemonic not in ("shfl", "vote") or opcode.has(".sync"):
        return None
    block = _Block(goal)
    mask = block.new(".b32")
    block.add(f"activemask.b32 {mask}", f"{opcode.mnemonic}.sync{''.join(opcode.modifiers)} {', '.join([*operands_of(instruction), mask])}")
    return block.text


# --- arithmetic

ONE, MINUS_ONE, MINUS_ZERO = "0x3f80", "0xbf80", "0x8000"


def _by_fma(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """a + b is a * 1 + b, a - b is b * -1 + a, a * b is a * b + -0: each rounds once."""
    mnemonic, kind = instruction.opcode.mnemonic, bound.type
    if mnemonic not in ("add", "sub", "mul") or kind not in (".bf16", ".bf16x2") or not {*instruction.opcode.modifiers} <= {".rn", kind}:
        return None
    d, a, b = operands_of(instruction)
    constant = {"add": ONE, "sub": MINUS_ONE, "mul": MINUS_ZERO}[mnemonic]
    bits = ".b16" if kind == ".bf16" else ".b32"
    block = _Block(goal)
    number = block.new(bits)
    given = {"add": (a, number, b), "sub": (b, number, a), "mul": (a, b, number)}[mnemonic]
    block.add(f"mov{bits} {number}, {constant if bits == '.b16' else constant + constant[2:]}", f"fma.rn{kind} {d}, {', '.join(given)}")
    return block.text


PARTS = {".f32x2": (".b64", ".f32"), ".u16x2": (".b32", ".u16"), ".s16x2": (".b32", ".s16")}
"""Packed types, the type that holds one, and the type of each half."""


def _half_by_half(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic not in ("add", "sub", "mul", "fma", "min", "max") or bound.type not in PARTS:
        return None
    packed, kind = PARTS[bound.type]
    holder = f".b{'32' if kind == '.f32' else '16'}"
    words = "".join([kind if word == bound.type else word for word in opcode.modifiers if word != ".relu"])
    d, *sources = operands_of(instruction)
    block = _Block(goal)
    halves = [block.several(holder, 2) for _ in sources]
    results = block.several(holder, 2)
    for source, pair in zip(sources, halves, strict=True):
        block.add(f"mov{packed} {{{pair[0]}, {pair[1]}}}, {source}")
    for i, result in enumerate(results):
        block.add(f"{opcode.mnemonic}{words} {result}, {', '.join([pair[i] for pair in halves])}")
        if opcode.has(".relu"):
            block.add(f"max{kind} {result}, {result}, 0")
    block.add(f"mov{packed} {d}, {{{results[0]}, {results[1]}}}")
    return block.text


NARROW = (".f16", ".bf16")


def _widened_first(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """Half-precision numbers convert to float exactly."""
    opcode = instruction.opcode
    narrow = next((word for word in opcode.modifiers if word in NARROW), None)
    if opcode.mnemonic not in ("add", "sub", "fma") or narrow is None or not opcode.has(".f32"):
        return None
    d, *sources, last = operands_of(instruction)
    block = _Block(goal)
    wide = block.several(".f32", len(sources))
    block.add(*[f"cvt.f32{narrow} {one}, {source}" for one, source in zip(wide, sources, strict=True)])
    block.add(f"{opcode.mnemonic}{''.join([word for word in opcode.modifiers if word != narrow])} {', '.join([d, *wide, last])}")
    return block.text


def _compared_as_floats(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic != "setp" or not opcode.has(".bf16"):
        return None
    result, a, b, *rest = operands_of(instruction)
    block = _Block(goal)
    wide = block.several(".f32", 2)
    words = "".join([".f32" if word == ".bf16" else word for word in opcode.modifiers])
    block.add(f"cvt.f32.bf16 {wide[0]}, {a}", f"cvt.f32.bf16 {wide[1]}, {b}", f"setp{words} {', '.join([result, *wide, *rest])}")
    return block.text


def _both_compared_as_floats(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """The first register written may be neither the guard nor the predicate to combine with: one result waits in a temporary."""
    opcode = instruction.opcode
    if opcode.mnemonic != "setp" or not opcode.has(".bf16x2"):
        return None
    result, a, b, *rest = operands_of(instruction)
    names = [part.strip() for part in result.split("|")]
    if len(names) != 2:
        return None
    last = int(instruction.guard is not None and instruction.guard.predicate.text == names[1])
    block = _Block(goal)
    waiting = block.new(".pred")
    halves = [block.several(".b16", 2) for _ in (a, b)]
    wide = block.several(".f32", 2)
    words = "".join([".f32" if word == ".bf16x2" else word for word in opcode.modifiers])
    for source, pair in zip((a, b), halves, strict=True):
        block.add(f"mov.b32 {{{pair[0]}, {pair[1]}}}, {source}")
    for i, name in ((last, waiting), (1 - last, names[1 - last])):
        block.add(*[f"cvt.f32.bf16 {one}, {pair[i]}" for one, pair in zip(wide, halves, strict=True)])
        block.add(f"setp{words} {', '.join([name, *wide, *rest])}")
    if names[last] != "_":
        block.add(f"mov.pred {names[last]}, {waiting}")
    return block.text


# --- conversions


def _through_float(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """From bfloat to any type: it converts to float exactly, so the second conversion rounds once."""
    opcode, words = instruction.opcode, instruction.opcode.modifiers
    if opcode.mnemonic != "cvt" or words[-1:] != (".bf16",) or {".bf16", ".f32", ".f32x2"} & {*words[:-1]}:
        return None
    d, a = operands_of(instruction)
    block = _Block(goal)
    wide = block.new(".f32")
    block.add(f"cvt.f32.bf16 {wide}, {a}", f"cvt{''.join(words[:-1])}.f32 {d}, {wide}")
    return block.text


def _upper_half(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """A bfloat is the upper half of a float."""
    words = instruction.opcode.modifiers
    if instruction.opcode.mnemonic != "cvt" or words[-2:] != (".f32", ".bf16") or ".ftz" in words:
        return None
    d, a = operands_of(instruction)
    block = _Block(goal)
    zero = block.new(".b16")
    block.add(f"mov.b16 {zero}, 0", f"mov.b32 {d}, {{{zero}, {a}}}")
    return block.text


def _rounded_by_hand(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """To bfloat: the lower half is rounded to nearest even, or truncated; NaN becomes 0x7fff."""
    words = {*instruction.opcode.modifiers}
    if instruction.opcode.mnemonic != "cvt" or not words & {".rn", ".rz"} or not words <= {".rn", ".rz", ".bf16", ".bf16x2", ".f32"}:
        return None
    if ".f32" not in words or not words & {".bf16", ".bf16x2"}:
        return None
    d, *sources = operands_of(instruction)
    block = _Block(goal)
    halves = block.several(".b16", len(sources))
    bits, step = block.several(".b32", 2)
    number = block.new(".pred")
    low = block.new(".b16")
    for source, half in zip(sources, halves, strict=True):
        block.add(f"mov.b32 {bits}, {source}", f"and.b32 {step}, {bits}, 0x7fffffff", f"setp.le.u32 {number}, {step}, 0x7f800000")
        if ".rn" in words:
            block.add(f"bfe.u32 {step}, {bits}, 16, 1", f"add.u32 {step}, {step}, 0x7fff", f"add.u32 {bits}, {bits}, {step}")
        block.add(f"selp.b32 {bits}, {bits}, 0x7fff0000, {number}", f"mov.b32 {{{low}, {half}}}, {bits}")
    block.add(f"mov.b16 {d}, {halves[0]}" if len(halves) == 1 else f"mov.b32 {d}, {{{halves[1]}, {halves[0]}}}")
    return block.text


def _one_by_one(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    words = instruction.opcode.modifiers
    if instruction.opcode.mnemonic != "cvt" or words not in ((".rn", ".f16x2", ".f32"), (".rz", ".f16x2", ".f32")):
        return None
    d, upper, lower = operands_of(instruction)
    block = _Block(goal)
    halves = block.several(".b16", 2)
    block.add(f"cvt{words[0]}.f16.f32 {halves[0]}, {lower}", f"cvt{words[0]}.f16.f32 {halves[1]}, {upper}")
    block.add(f"mov.b32 {d}, {{{halves[0]}, {halves[1]}}}")
    return block.text


# --- memory


def _copied_at_once(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """A copy may happen at any time until it is waited for, so it may happen at once. Bytes that are not read must not be accessed."""
    opcode = instruction.opcode
    if opcode.mnemonic != "cp" or not (opcode.has(".async", ".ca") or opcode.has(".async", ".cg")):
        return None
    given = operands_of(instruction)
    count = int(given[2], 0) if given[2].isdecimal() else 0
    into = element_addresses(instruction.operands[0], MOST_COPIED, 1)
    out_of = element_addresses(instruction.operands[1], MOST_COPIED, 1)
    if count not in (4, 8, 16) or into is None or out_of is None:
        return None
    block = _Block(goal)
    registers = block.several(".b32", count // 4)
    kind = f".v{count // 4}.b32" if count > 4 else ".b32"
    vector = f"{{{', '.join(registers)}}}" if count > 4 else registers[0]
    if len(given) == 3:
        block.add(f"ld.global{kind} {vector}, {out_of[0]}", f"st.shared{kind} {into[0]}, {vector}")
        return block.text
    limit, byte = block.several(".b32", 2)
    whole, reads = block.several(".pred", 2)
    if bound.operand("ignore") is not None:
        shares = (count, 0) if given[3].startswith("!") else (0, count)
        block.add(f"selp.b32 {limit}, {shares[0]}, {shares[1]}, {given[3].lstrip('! ')}")
    else:
        block.add(f"mov.b32 {limit}, {given[3]}")
    block.add(f"setp.ge.u32 {whole}, {limit}, {count}")
    block.add(*[f"mov.b32 {one}, 0" for one in registers])
    block.add(f"@{whole} ld.global{kind} {vector}, {out_of[0]}", f"st.shared{kind} {into[0]}, {vector}", f"not.pred {whole}, {whole}")
    for i in range(count - 1):
        block.add(f"setp.gt.and.u32 {reads}, {limit}, {i}, {whole}")
        block.add(f"@{reads} ld.global.u8 {byte}, {out_of[i]}", f"@{reads} st.shared.u8 {into[i]}, {byte}")
    return block.text


def _nothing_to_wait_for(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    kinds = {(one.group, one.action) for one in bound.asynchronous}
    return "" if kinds and kinds <= {("cp.async", "commit"), ("cp.async", "wait")} and not bound.barrier else None


def _arrivals(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """All arrivals but one cannot complete the phase, since the last is still to come. The returned state would reveal the split, so it
    must be unused."""
    opcode = instruction.opcode
    if opcode.mnemonic != "mbarrier" or not (opcode.has(".arrive") or opcode.has(".arrive_drop")) or bound.operand("count") is None:
        return None
    state, at, count = operands_of(instruction)
    if state != "_":
        return None
    block = _Block(goal)
    old, before, some = block.new(".b64"), block.new(".b32"), block.new(".pred")
    first, *words = opcode.modifiers
    block.add(
        f"add.u32 {before}, {count}, -1" if not count.isdecimal() else f"mov.b32 {before}, {int(count) - 1}",
        f"setp.ne.u32 {some}, {before}, 0",
        f"@{some} mbarrier{first}.noComplete{''.join(words)} {old}, {at}, {before}",
        f"mbarrier{first}{''.join(words)} {old}, {at}",
    )
    return block.text


def _rows_stored(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    """Lane t holds two adjacent elements in row t / 4 of each matrix, at column 2 * (t % 4); lane 8 * i + r has the address of row r of
    matrix i. Transposed, they are in column t / 4 of rows 2 * (t % 4) and the next."""
    opcode = instruction.opcode
    if opcode.mnemonic != "stmatrix" or not opcode.has(".m8n8", ".b16") or not (opcode.has(".shared") or opcode.has(".shared::cta")):
        return None
    addresses, values = element_addresses(instruction.operands[0], 1, 1), instruction.operands[1]
    if addresses is None or not isinstance(values, Vector):
        return None
    base, _, offset = addresses[0][1:-1].partition("+")
    block = _Block(goal)
    own, lane, row, column, at = block.several(".b32", 5)
    block.add(f"mov.b32 {own}, {base}", *([f"add.u32 {own}, {own}, {offset}"] if offset else []))
    block.add(f"mov.u32 {lane}, %laneid", f"shr.u32 {row}, {lane}, 2", f"and.b32 {column}, {lane}, 3")
    if not opcode.has(".trans"):
        block.add(f"shl.b32 {column}, {column}, 2")
        for i, value in enumerate(values.elements):
            block.add(*_row_address(at, own, row, 8 * i, column), f"st.shared.b32 [{at}], {value.text}")
        return block.text
    halves = block.several(".b16", 2)
    block.add(f"mov.b32 {at}, {row}", f"shl.b32 {row}, {column}, 1", f"shl.b32 {column}, {at}, 1")
    for i, value in enumerate(values.elements):
        block.add(f"mov.b32 {{{halves[0]}, {halves[1]}}}, {value.text}")
        for j, half in enumerate(halves):
            block.add(*_row_address(at, own, row, 8 * i + j, column), f"st.shared.b16 [{at}], {half}")
    return block.text


def _row_address(at: str, own: str, row: str, number: int, column: str) -> list[str]:
    """Gets the address of a row from the lane that holds it, and advances to a column."""
    return [f"add.u32 {at}, {row}, {number}", f"shfl.sync.idx.b32 {at}, {own}, {at}, {ALL_LANES}, -1", f"add.u32 {at}, {at}, {column}"]


SUBSTITUTIONS = (
    *WORDS,
    Substitution("every lane of the mask is asked for its value", _reduced, "6.0 sm_70"),
    Substitution("which lane is elected is not said: the lowest", _elected, "6.0 sm_70"),
    Substitution("the lanes that take part are those that are active", _among_the_active, "6.2 sm_30"),
    Substitution("a fused multiply-add by one, or of minus zero, rounds the same", _by_fma, "7.0 sm_80"),
    Substitution("the halves of a packed number are computed one by one", _half_by_half),
    Substitution("a half precision number is a float", _widened_first),
    Substitution("bfloats compare as the floats that they are", _compared_as_floats, "7.1 sm_80"),
    Substitution("bfloats compare as the floats that they are", _both_compared_as_floats, "7.1 sm_80"),
    Substitution("a bfloat is a float", _through_float, "7.1 sm_80"),
    Substitution("a bfloat is the upper half of a float", _upper_half),
    Substitution("rounded in integers", _rounded_by_hand),
    Substitution("two numbers are converted one by one", _one_by_one),
    Substitution("a copy that may happen at any time happens at once", _copied_at_once),
    Substitution("copies are done when they are begun", _nothing_to_wait_for),
    Substitution("all arrivals but one cannot complete the phase", _arrivals, "7.1 sm_80"),
    Substitution("each lane stores what it holds of a matrix", _rows_stored, "6.0 sm_70"),
)
"""All of them, in the order in which they are tried."""
