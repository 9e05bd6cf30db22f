"""Asynchronous copies (ISA 9.7.10.24)."""

from __future__ import annotations

from ptxkit.machine.asynchronous import copies, tensors
from ptxkit.machine.asynchronous.transfers import BULK
from ptxkit.machine.operation import Operation, Semantics, Unsupported


def cp(op: Operation) -> Semantics:
    """Copies of a thread, bulk copies of bytes and tensor tiles, and their groups and waits."""
    queue = BULK if op.has(".bulk") else copies.COPIES
    if op.has(".commit_group"):
        return copies.commit(op, queue)
    if op.has(".wait_group") or op.has(".wait_all"):
        return copies.wait(op, queue)
    if op.has(".prefetch"):
        return copies.bulk_prefetch(op)
    if op.slot(".report") not in ("", ".mbarrier::report::disabled"):
        raise Unsupported("reports of validity to an mbarrier are not executed")
    if op.has(".tensor"):
        return tensors.tensor(op)
    if op.has(".bulk"):
        return copies.bulk(op)
    return copies.copy(op)


def multimem(op: Operation) -> Semantics:
    """A bulk copy or reduction to all locations behind a multimem address. With one device, that is one location."""
    return copies.bulk(op)


def applypriority(op: Operation) -> Semantics:
    """Changes eviction priorities, without a visible effect."""
    return copies.bulk_prefetch(op)


def fabric(op: Operation) -> Semantics:
    """Copies over the fabric between devices."""
    raise Unsupported("copies over the fabric need a logical endpoint of another device, and the machine is one device")
