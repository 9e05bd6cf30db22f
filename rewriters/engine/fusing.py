"""Products and sums that a compiler may fuse into one operation, which rounds once instead of twice.

It may if neither has a rounding modifier (9.7.3.3 to 9.7.3.5, 9.7.4.1 to 9.7.4.3). So the result of such a pair depends on the compiler,
and another pair of instructions need not give the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.syntax import Function, Module, Path

ROUNDINGS = {".rn", ".rz", ".rm", ".rp"}
PARTNERS = {"mul": ("add", "sub"), "add": ("mul",), "sub": ("mul",)}

Operation = tuple[str, str]
"""The mnemonic and type of an operation; for a packed type, that of a half."""


def unrounded(mnemonic: str, bound: Bound) -> Operation | None:
    """The operation, if a compiler may fuse it with another."""
    result = bound.operand("d")
    if mnemonic not in PARTNERS or result is None or not ROUNDINGS.isdisjoint(bound.modifiers):
        return None
    kind = result.types[0].removesuffix("x2")
    return (mnemonic, kind) if kind in types() and types()[kind].kind == "float" else None


def fusible(module: Module, operations: Mapping[Path, Operation]) -> frozenset[Path]:
    """The operations that may be fused with another: in the same kernel, or in a device function, which may be inlined."""
    kernels = {i for i, child in enumerate(module.children) if isinstance(child, Function) and child.is_entry}
    of: dict[int, set[Operation]] = defaultdict(set)
    for path, operation in operations.items():
        of[path[0]].add(operation)
    anywhere = {operation for there in of.values() for operation in there}
    devices = {operation for i, there in of.items() if i not in kernels for operation in there}

    def near(at: int) -> set[Operation]:
        return of[at] | devices if at in kernels else anywhere

    return frozenset(
        [
            path
            for path, (mnemonic, kind) in operations.items()
            if not near(path[0]).isdisjoint([(partner, kind) for partner in PARTNERS[mnemonic]])
        ]
    )
