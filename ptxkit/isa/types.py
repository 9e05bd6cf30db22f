"""PTX types: their kind and size, and the registers that can hold their values (ISA 5.2, 5.3, 9.4)."""

from __future__ import annotations

from functools import cache

from ptxkit.frozen import frozen
from ptxkit.isa import resources

INTEGERS = ("unsigned", "signed")
IN_REGISTERS = ("untyped", "unsigned", "signed", "float", "packed", "predicate")


@frozen
class Type:
    """A PTX type: `.f32` is `Type(".f32", "float", 32, ())`.

    `kind` is one of untyped, unsigned, signed, float, packed, predicate, opaque. `registers` names the register types that hold a type with
    which no register can be declared; it is empty for a type that follows the general rule.
    """

    name: str
    kind: str
    bits: int
    registers: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size in memory, in whole bytes."""
        return (self.bits + 7) // 8

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGERS


@cache
def types() -> dict[str, Type]:
    """Every type of the table, by name with its dot."""
    table = {}
    for line in resources.read("types.isa").splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, kind, bits, *registers = words
        table[name] = Type(name, kind, int(bits), () if registers == ["-"] else tuple(registers))
    return table


def is_type(modifier: str) -> bool:
    """Whether a modifier, as `.f32`, is the name of a type."""
    return modifier in types()


@cache
def declarable() -> tuple[Type, ...]:
    """The types a `.reg` may be declared with (ISA 5.2.2, 5.2.5)."""
    return tuple(t for t in types().values() if not t.registers and t.kind in IN_REGISTERS)


@cache
def holders(name: str, how: str = "same") -> frozenset[str]:
    """The register types that are accepted where an instruction says type `name`.

    `how` is "same" (5.2 and 9.4: the same size, and one untyped, both integers, or both the same float), "wide" (also wider ones, as for
    ld, st and cvt), "exact" (that type only) or "bits" (any register of that size). Raises KeyError for a name that is not a type.
    """
    wanted = types()[name]
    if how == "exact":
        return frozenset((name,))
    if how == "bits":
        return frozenset(t.name for t in declarable() if t.bits == wanted.bits and t.kind != "predicate")
    if wanted.registers:
        return frozenset(wanted.registers)
    return frozenset(t.name for t in declarable() if _holds(t, wanted) or (how == "wide" and _holds_wider(t, wanted)))


def _holds(register: Type, wanted: Type) -> bool:
    if "predicate" in (register.kind, wanted.kind):
        return register.name == wanted.name
    if register.bits != wanted.bits:
        return False
    if "untyped" in (register.kind, wanted.kind) or register.name == wanted.name:
        return True
    if register.is_integer and wanted.is_integer:
        return True
    # An .f16x2 register is 32 bits without a fixed meaning: ptxas accepts it as an integer, but not conversely.
    return register.kind == "packed" and wanted.is_integer


def _holds_wider(register: Type, wanted: Type) -> bool:
    if register.bits <= wanted.bits or "predicate" in (register.kind, wanted.kind):
        return False
    if "untyped" in (register.kind, wanted.kind):
        return True
    return wanted.is_integer and (register.is_integer or register.kind == "packed")
