"""Operations in PTX notation, with names of variables for addresses."""

from __future__ import annotations

from ptxkit.analyses.memory_model.program import (
    AsyncAccess,
    AsyncArrive,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operation,
    ProxyFence,
    Store,
)

LOADS = {"generic": "ld", "texture": "tld", "surface": "suld", "constant": "cold"}
STORES = {"generic": "st", "surface": "sust"}
ATOMICS = {"generic": "", "surface": "su"}


def written(operation: Operation) -> str:
    """An operation in the dialect of litmus files."""
    if isinstance(operation, Load):
        names = operation.register if isinstance(operation.register, tuple) else (operation.register,)
        name = _qualified(LOADS.get(operation.proxy, "ld"), operation.sem, operation.scope, len(names))
        return f"{name} {_vector(names)}, {operation.address}"
    if isinstance(operation, Store):
        values = operation.value if isinstance(operation.value, tuple) else (operation.value,)
        name = _qualified(STORES.get(operation.proxy, "st"), operation.sem, operation.scope, len(values))
        return f"{name} {operation.address}, {_vector(values)}"
    if isinstance(operation, Atomic):
        kind = ATOMICS.get(operation.proxy, "") + ("red" if operation.register is None else "atom")
        target = [] if operation.register is None else [operation.register]
        operands = ", ".join(str(one) for one in (*target, operation.address, *operation.values))
        return f"{kind}.{operation.sem}.{operation.scope}.{operation.operator} {operands}"
    if isinstance(operation, Fence):
        return f"fence.{operation.sem}.{operation.scope}"
    if isinstance(operation, ProxyFence):
        return ".".join(("fence.proxy", operation.kind, *operation.spaces))
    if isinstance(operation, Barrier):
        return _barrier(operation)
    if isinstance(operation, AsyncCopy):
        bulk = ".bulk" if operation.proxy == "async" else ""
        counted = f", {operation.mbarrier}" if operation.mbarrier is not None else ""
        return f"cp.async{bulk} {operation.target}, {operation.source}, {operation.size}{counted}"
    if isinstance(operation, AsyncAccess):
        counted = f", {operation.mbarrier}" if operation.mbarrier is not None else ""
        name, _, rest = written(operation.access).partition(".")
        return f"{name}.async.{rest}{counted}"
    if isinstance(operation, AsyncArrive):
        return f"cp.async.mbarrier.arrive.noinc {operation.mbarrier}"
    if isinstance(operation, AsyncCommit):
        return f"cp.async{'.bulk' if operation.proxy == 'async' else ''}.commit_group"
    if isinstance(operation, AsyncWait):
        return (
            f"cp.async{'.bulk' if operation.proxy == 'async' else ''}.wait_group{'.read' if operation.reading else ''} {operation.pending}"
        )
    if isinstance(operation, Compute):
        name = getattr(operation.function, "name", "")
        return operation.text or f"{name} {', '.join(map(str, (operation.register, *operation.operands)))}"
    if isinstance(operation, Branch):
        name = getattr(operation.function, "name", "goto").replace("setp.", "b")
        return operation.text or f"{name} {', '.join(map(str, (*operation.operands, operation.label)))}"
    if isinstance(operation, Label):
        return f"{operation.name}:"
    raise TypeError(operation)


def _qualified(name: str, sem: str, scope: str | None, elements: int) -> str:
    vector = [f"v{elements}"] if elements > 1 else []
    return ".".join([name, sem, *([scope] if scope else []), *vector])


def _vector(elements: tuple[object, ...]) -> str:
    return str(elements[0]) if len(elements) == 1 else "{" + ", ".join(map(str, elements)) + "}"


def _barrier(operation: Barrier) -> str:
    if operation.cluster:
        return f"barrier.cluster.{operation.action}" + (".relaxed" if operation.is_relaxed else "")
    major, minor = operation.barrier if isinstance(operation.barrier, tuple) else (None, operation.barrier)
    if major is not None and major < 0:
        operands = [str(-1 - major)]
    else:
        operands = [str(one) for one in (major, minor) if one is not None]
    if operation.threads is not None:
        operands.append(str(operation.threads))
    return f"bar.cta.{operation.action} {', '.join(operands)}"
