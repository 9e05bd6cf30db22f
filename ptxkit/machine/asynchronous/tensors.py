"""Bulk copies of tiles of tensors (ISA 5.5, 9.7.10.24.9)."""

from __future__ import annotations

from ptxkit.machine.operation import Operation, Semantics, Unsupported


def tensor(op: Operation) -> Semantics:
    raise Unsupported("tensor copies are not executed yet")
