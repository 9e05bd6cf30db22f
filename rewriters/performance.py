"""Performance directives of kernels: launch bounds, register limits, clusters (11.4)."""

from __future__ import annotations

import functools

from ptxkit.isa.directives import directives
from ptxkit.isa.opcodes import match
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.engine.headers import with_directive, without_directive
from ptxkit.rewriters.engine.rewrite import FailedCheck, Manifest, Refusal, Refused, Rewrite
from ptxkit.syntax import Function, Instruction, Module, Path


def performance(
    module: Module,
    *,
    kernel: str = "",
    maxnreg: int = 0,
    maxntid: str = "",
    reqntid: str = "",
    minnctapersm: int = 0,
    reqnctapercluster: str = "",
    maxclusterrank: int = 0,
    remove: str = "",
) -> Rewrite:
    """Adds or changes the performance directives of kernels.

    Sizes are written as in `128,1,1`.

    * `kernel`: Only these kernels: names with commas; by default, all.
    * `maxnreg`: The maximum of registers of a thread.
    * `maxntid`: The maximum size of a CTA.
    * `reqntid`: The exact size of a CTA.
    * `minnctapersm`: The minimum of CTAs that a multiprocessor holds at a time.
    * `reqnctapercluster`: The exact size of a cluster.
    * `maxclusterrank`: The maximum of CTAs in a cluster.
    * `remove`: Directives to remove: names with commas.

    Raises ValueError for an unknown kernel. Raises Refused if the directives would cause an error, and for `maxnreg` on a kernel that moves
    registers between its warps (setmaxnreg, 9.7.19.5): its counts were chosen for another limit, and it would deadlock.
    """
    options = {
        "maxnreg": str(maxnreg or ""),
        "maxntid": maxntid,
        "reqntid": reqntid,
        "minnctapersm": str(minnctapersm or ""),
        "reqnctapercluster": reqnctapercluster,
        "maxclusterrank": str(maxclusterrank or ""),
    }
    wanted = set(kernel.replace(",", " ").split())
    missing = sorted(wanted - {function.name for function in module.kernels})
    if missing:
        raise ValueError(f"no kernel is called {missing[0]!r}")
    removed = [f".{name.lstrip('.')}" for name in remove.replace(",", " ").split()]
    unknown = [name for name in removed if name not in directives()]
    if unknown:
        raise ValueError(f"there is no directive {unknown[0]!r}")
    children = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.is_entry and child.body is not None and (not wanted or child.name in wanted):
            at = _sharing(child) if maxnreg else None
            if at is not None:
                message = f"`{child.name}` shares registers out itself; its limit cannot be changed alone"
                raise Refused(module, [Refusal("registers-shared-out", (i, *at), message)])
            header = child.header
            for name in removed:
                header = without_directive(header, name)
            for name, arguments in options.items():
                if arguments:
                    header = with_directive(header, f".{name}", arguments)
            child = child if header is child.header else child.with_children((header, *child.children[1:]))
        children.append(child)
    new = module.with_children(children)
    errors = new_errors(module, new)
    if errors:
        raise FailedCheck(new, errors)
    given = {name: value for name, value in options.items() if value} | {"kernel": kernel, "remove": remove}
    return Rewrite(new, Manifest("performance", given))


def _sharing(kernel: Function) -> Path | None:
    """The first instruction by which the kernel gives up or requests registers, if any."""
    for path, statement in kernel.statements():
        if isinstance(statement, Instruction) and _shares_registers_out(statement.opcode.text):
            return path
    return None


@functools.lru_cache(maxsize=1024)
def _shares_registers_out(opcode: str) -> bool:
    return any("setmaxnreg" in effect.what for candidate in match(opcode) for effect in candidate.form.effects)
