"""The classic litmus tests (message passing, store buffering and so on), with each kind of synchronization and each placement of
threads."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.memory_model.program import Address, Atomic, Barrier, Fence, Load, Operation, Program, Store, Thread, Variable

SHAPES = {
    "MP": ("Wx Wy", "Ry Rx"),
    "SB": ("Wx Ry", "Wy Rx"),
    "LB": ("Rx Wy", "Ry Wx"),
    "R": ("Wx Wy", "Wy Rx"),
    "S": ("Wx Wy", "Ry Wx"),
    "2+2W": ("Wx Wy Ry", "Wy Wx Rx"),
    "CoRR": ("Wx", "Rx Rx"),
    "CoWR": ("Wx Rx", "Wx"),
    "CoRW": ("Rx Wx Rx", "Wx"),
    "WRC": ("Wx", "Rx Wy", "Ry Rx"),
    "ISA2": ("Wx Wy", "Ry Wz", "Rz Rx"),
    "RWC": ("Wx", "Rx Ry", "Wy Rx"),
    "W+RWC": ("Wx Wy", "Ry Rz", "Wz Rx"),
    "IRIW": ("Wx", "Wy", "Rx Ry", "Ry Rx"),
    "MP+U": ("Wx Wy", "Uy", "Ry Rx"),
    "SB+U": ("Ux Ry", "Uy Rx"),
    "UU": ("Ux", "Ux Rx"),
}
"""The code of each thread: R reads, W writes, U updates (`atom.add`) a variable."""

STRENGTHS = ("weak", "relaxed", "release-acquire", "fence.acq_rel", "fence.sc", "barrier")
"""The synchronization between or on the accesses. Accesses to the flag are weak only in the first."""

PLACEMENTS = {"one CTA": (0, 0, 0, 0), "CTAs": (0, 1, 2, 3), "two CTAs": (0, 0, 1, 1)}


def shapes(scopes: tuple[str, ...] = ("cta", "gpu")) -> Iterator[Program]:
    """Every shape with every strength, placement and scope, named like `MP release-acquire gpu CTAs`."""
    for name, threads in SHAPES.items():
        for strength in STRENGTHS:
            for placement, ctas in PLACEMENTS.items():
                if (placement == "two CTAs" and len(threads) < 3) or (strength == "barrier" and placement != "one CTA"):
                    continue
                for scope in scopes if strength not in ("weak", "barrier") else ("gpu",):
                    yield shape(f"{name} {strength} {scope} {placement}", threads, strength, scope, ctas)


def shape(name: str, threads: tuple[str, ...], strength: str, scope: str, ctas: tuple[int, ...]) -> Program:
    """One program: `threads` as in SHAPES, with a strength, a scope and the CTA of each thread."""
    values: dict[str, int] = {}
    made = []
    for t, text in enumerate(threads):
        code: list[Operation] = []
        accesses = text.split()
        for k, one in enumerate(accesses):
            if k and strength.startswith("fence"):
                code.append(Fence(strength.removeprefix("fence."), scope))
            if strength == "barrier" and k == len(accesses) // 2 and (k or len(accesses) == 1):
                code.append(Barrier("sync", 1))
            code.append(_access(one, f"r{k}", values, strength, scope))
        if strength == "barrier" and not any(isinstance(op, Barrier) for op in code):
            code.append(Barrier("sync", 1))
        made.append(Thread(f"P{t}", ctas[t], 0, tuple(code)))
    variables = tuple(Variable(one) for one in sorted({one[1:] for text in threads for one in text.split()}))
    return Program(tuple(made), variables, name)


def _access(text: str, register: str, values: dict[str, int], strength: str, scope: str) -> Operation:
    kind, address = text[0], Address(text[1:])
    is_weak = strength in ("weak", "barrier")
    sem, wide = ("weak", None) if is_weak else ("relaxed", scope)
    if kind == "R":
        return Load(register, address, "acquire" if strength == "release-acquire" else sem, wide)
    if kind == "U":
        return Atomic(register, "add", address, (1,), "acq_rel" if strength == "release-acquire" else "relaxed", scope)
    values[text[1:]] = values.get(text[1:], 0) + 1
    return Store(address, values[text[1:]], "release" if strength == "release-acquire" else sem, wide)
