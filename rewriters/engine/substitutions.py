"""Equivalent instructions for assemblers and targets that lack the original.

Each function returns the replacement text, without guards, or None if it does not apply: instructions; empty text if the original may be
omitted; or a block in braces with its own registers, from `expansions.py`. The caller checks the replacement again. `same` states why the
result is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.directives import directives
from ptxkit.isa.requirements import Requirement, parse_needs, requirement, satisfies
from ptxkit.isa.targets import Version
from ptxkit.rewriters.engine.fresh import Fresh
from ptxkit.syntax import Address, Instruction, Node, Vector

HINTS = (".L1::", ".L2::", ".level::")
OLDER = {".shared::cta": ".shared", ".param::entry": ".param", ".param::func": ".param"}
ALONE = {".cluster": ".cta", ".shared::cluster": ".shared"}
"""The scopes and spaces of a cluster that consists of one CTA."""

WITHOUT_CLUSTER = {
    "%cluster_ctarank": "0",
    "%cluster_nctarank": "1",
    "%is_explicit_cluster": "0",
    "%clusterid": "%ctaid",
    "%nclusterid": "%nctaid",
    **{f"%cluster_ctaid.{at}": "0" for at in "xyz"},
    **{f"%cluster_nctaid.{at}": "1" for at in "xyz"},
}
"""The values of special registers in a cluster that consists of one CTA (10.11 to 10.17)."""

BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "16x2": 4}
"""Bytes of a type, by what follows its letters."""


@frozen
class Goal:
    """The version and target to write for, and fresh names."""

    version: Version
    target: str
    names: Fresh

    def has(self, needed: Requirement) -> bool:
        """Whether the goal satisfies a requirement."""
        return satisfies(self.version, self.target, needed)

    @property
    def has_clusters(self) -> bool:
        """Whether kernels can be launched in clusters of several CTAs; otherwise, every CTA is its own cluster."""
        return self.has(directives()[".reqnctapercluster"].needs)


Make = Callable[[Instruction, Bound, Goal], str | None]


class Substitution(NamedTuple):
    """A substitution: `make` returns the new text, or empty text to omit the instruction. For a block, `needs` is what the new text
    requires, in the notation of the table."""

    same: str
    make: Make
    needs: str = ""

    def fits(self, goal: Goal) -> bool:
        return not self.needs or goal.has(requirement(parse_needs(self.needs)))


def text_of(mnemonic: str, modifiers: tuple[str, ...] | list[str], operands: tuple[str, ...] | list[str]) -> str:
    """An instruction as text."""
    return f"{mnemonic}{''.join(modifiers)} {', '.join(operands)};".replace(" ;", ";")


def operands_of(instruction: Instruction) -> list[str]:
    """The operands as text."""
    return [operand.text for operand in instruction.operands]


def size_of(kind: str) -> int:
    """The bytes of a type; 0 if unknown."""
    return BYTES.get(kind.lstrip(".busf"), 0)


def element_addresses(address: Node, count: int, step: int) -> list[str] | None:
    """The addresses of consecutive elements; None unless the address is a register or variable with a plain offset."""
    if not isinstance(address, Address) or len(address.parts) != 1 or address.offset_sign < 0:
        return None
    if address.offset is not None and not address.offset.text.isdecimal():
        return None
    start = int(address.offset.text) if address.offset is not None else 0
    offsets = [start + i * step for i in range(count)]
    return [f"[{address.base.text}+{offset}]" if offset else f"[{address.base.text}]" for offset in offsets]


# --- words


def _without_hints(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    kept = [word for word in opcode.modifiers if not word.startswith(HINTS)]
    if len(kept) == len(opcode.modifiers) or bound.effects:
        return None
    operands = operands_of(instruction)
    return text_of(opcode.mnemonic, kept, operands[:-1] if any("cache_hint" in word for word in opcode.modifiers) else operands)


def _older_spaces(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    kept = [OLDER.get(word, word) for word in opcode.modifiers if word != ".weak"]
    return text_of(opcode.mnemonic, kept, operands_of(instruction)) if tuple(kept) != opcode.modifiers else None


def _cluster_of_one(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, operands_of(instruction)
    if goal.has_clusters:
        return None
    if opcode.mnemonic == "mapa":
        return f"mov{bound.type} {operands[0]}, {operands[1]};"
    if opcode.mnemonic == "getctarank":
        return f"mov.b32 {operands[0]}, 0;"
    kept = [ALONE.get(word, word) for word in opcode.modifiers]
    adapted = [_without_cluster(operand) for operand in operands]
    return text_of(opcode.mnemonic, kept, adapted) if (tuple(kept), adapted) != (opcode.modifiers, operands) else None


def _without_cluster(operand: str) -> str:
    name, dot, at = operand.partition(".")
    return WITHOUT_CLUSTER.get(operand) or (WITHOUT_CLUSTER[name] + dot + at if name in ("%clusterid", "%nclusterid") else operand)


def _default_order(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    order = next((word for word in (".acquire", ".release", ".relaxed") if opcode.has(word)), None)
    if (
        opcode.mnemonic != "mbarrier"
        or order is None
        or not opcode.has(".cta")
        or not {"wait", "arrive"} & {one.action for one in bound.barrier}
    ):
        return None
    return text_of(opcode.mnemonic, [word for word in opcode.modifiers if word not in (order, ".cta")], operands_of(instruction))


def _test_wait(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, operands_of(instruction)
    if opcode.mnemonic != "mbarrier" or not opcode.has(".try_wait"):
        return None
    kept = [".test_wait" if word == ".try_wait" else word for word in opcode.modifiers]
    return text_of(opcode.mnemonic, kept, operands[:-1] if bound.operand("hint") is not None else operands)


def _bulk_to_cluster(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    words = [word for word in opcode.modifiers if word in (".shared::cta", ".global")]
    if opcode.mnemonic != "cp" or not opcode.has(".async", ".bulk") or words != [".shared::cta", ".global"]:
        return None
    kept = [".shared::cluster" if word == ".shared::cta" else word for word in opcode.modifiers]
    return text_of(opcode.mnemonic, kept, operands_of(instruction))


# --- what may be left out

ADVICE = {"setmaxnreg", "grid-launch", "grid-wait", "prefetch", "applypriority", "nanosleep", "discard"}


def _left_out(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    return "" if bound.effects and ADVICE.issuperset(bound.effects) and not bound.writes else None


def _proxy_fence(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    return "" if tuple(bound.effects) == ("proxy-fence-async",) and not instruction.opcode.has(".async::generic") else None


def _policy(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    return f"mov.b64 {instruction.operands[0].text}, 0;" if instruction.opcode.mnemonic == "createpolicy" else None


# --- barriers, fences and the order of accesses


def _bar(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic not in ("barrier", "bar"):
        return None
    modifiers = [word for word in opcode.modifiers if word not in (".cta", ".aligned")]
    if opcode.mnemonic == "barrier" and (not opcode.has(".aligned") or opcode.has(".cluster")):
        return None
    return text_of("bar", modifiers, operands_of(instruction))


def _init_fence(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    if "init-fence" not in bound.effects:
        return None
    return "fence.acq_rel.cluster;" if goal.has_clusters else "fence.acq_rel.cta;"


def _membar(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    scope = {".cta": ".cta", ".gpu": ".gl", ".sys": ".sys"}.get(next(iter(opcode.modifiers[-1:]), ""))
    if opcode.mnemonic != "fence" or scope is None or len(opcode.modifiers) != 2 or opcode.modifiers[0] not in (".sc", ".acq_rel"):
        return None
    return f"membar{scope};"


def _volatile(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic not in ("ld", "st") or not opcode.has(".relaxed"):
        return None
    kept = [".volatile" if word == ".relaxed" else word for word in opcode.modifiers if word not in (".cta", ".cluster", ".gpu", ".sys")]
    return text_of(opcode.mnemonic, kept, operands_of(instruction))


# --- vectors and chains of operations


def _halves(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, instruction.operands
    half, size = {".v8": ".v4", ".v4": ".v2"}.get(bound.slot(".vec")), size_of(bound.type)
    if opcode.mnemonic not in ("ld", "st") or half is None or not size or len(operands) != 2:
        return None
    vector, address = operands if opcode.mnemonic == "ld" else operands[::-1]
    if not isinstance(vector, Vector) or not isinstance(address, Address):
        return None
    names = [element.text for element in vector.elements]
    middle = len(names) // 2
    addresses = element_addresses(address, 2, middle * size)
    if addresses is None or address.base.text in names:
        return None
    kept = [half if word == bound.slot(".vec") else word for word in opcode.modifiers if not word.startswith(HINTS)]
    texts = []
    for part, at in zip((names[:middle], names[middle:]), addresses, strict=True):
        both = [f"{{{', '.join(part)}}}", at]
        texts.append(text_of(opcode.mnemonic, kept, both if opcode.mnemonic == "ld" else both[::-1]))
    return " ".join(texts)


def _element_by_element(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, instruction.operands
    size = size_of(bound.type)
    if opcode.mnemonic not in ("atom", "red") or not bound.slot(".vec") or not size:
        return None
    *results, address, values = operands
    vectors = [*results, values]
    addresses = element_addresses(address, 8, size)
    if addresses is None or not all(isinstance(vector, Vector) for vector in vectors):
        return None
    columns = [[element.text for element in vector.elements] for vector in vectors]  # type: ignore[attr-defined]
    if results and not {*columns[0], "_"}.isdisjoint({address.base.text, *columns[1]}):  # type: ignore[attr-defined]
        return None  # a later instruction would read what the first writes
    kept = [word for word in opcode.modifiers if word != bound.slot(".vec")]
    elements = zip(addresses, *columns, strict=False)
    return " ".join([text_of(opcode.mnemonic, kept, [*written[:-1], at, written[-1]]) for at, *written in elements])


def _two_steps(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, operands_of(instruction)
    if opcode.mnemonic not in ("min", "max") or len(operands) != 4 or operands[0] == operands[3]:
        return None
    d, a, b, c = operands
    return f"{opcode.text} {d}, {a}, {b}; {opcode.text} {d}, {d}, {c};"


def _clamped(instruction: Instruction, bound: Bound, goal: Goal) -> str | None:
    opcode, operands = instruction.opcode, operands_of(instruction)
    if opcode.mnemonic not in ("min", "max") or not opcode.has(".relu") or bound.type != ".s32" or len(operands) != 3:
        return None
    return f"{opcode.mnemonic}.s32 {', '.join(operands)}; max.s32 {operands[0]}, {operands[0]}, 0;"


WORDS = (
    Substitution("the modifier is the default, or the older name of the same", _older_spaces),
    Substitution("hints to caches change no result", _without_hints),
    Substitution("without clusters, each CTA is a cluster", _cluster_of_one),
    Substitution("the order is the default, or the default is stronger", _default_order),
    Substitution("try_wait may say no at once, as test_wait does", _test_wait),
    Substitution("shared memory of the CTA is shared memory of the cluster", _bulk_to_cluster),
    Substitution("it advises the machine and changes no result", _left_out),
    Substitution("nothing there accesses memory through the async proxy", _proxy_fence),
    Substitution("the policy is used by hints alone, which are left out", _policy),
    Substitution("the older name of the same barrier", _bar),
    Substitution("a fence that orders more than the initialisation of barriers", _init_fence),
    Substitution("membar is at least as strong as this fence", _membar),
    Substitution("volatile accesses are at least as strong as relaxed ones", _volatile),
    Substitution("the elements of a vector are accessed one by one in any order", _halves),
    Substitution("the elements of a vector are updated one by one, which is all that is promised", _element_by_element),
    Substitution("the least or greatest of three is found in two steps", _two_steps),
    Substitution("what is negative is made zero in a second step", _clamped),
)
"""Substitutions by other modifiers or a few other instructions."""
