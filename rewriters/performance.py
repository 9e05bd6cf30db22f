"""Performance directives of kernels: launch bounds, register limits, clusters (11.4)."""

from __future__ import annotations

from ptxkit.isa.binding import match
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.engine.headers import with_directive, without_directive
from ptxkit.rewriters.engine.rewrite import FailedCheck, Manifest, Rewrite
from ptxkit.syntax.nodes import Function, Module


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
    """Adds or changes the performance directives of kernels: of those named (with commas), or of all.

    `remove` names directives to take off. Sizes are written as in `128,1,1`. Raises Refused if the module gets
    an error by it, ValueError for a kernel that is not there, and for `maxnreg` on one that shares registers out itself
    (setmaxnreg, 9.7.19.5): its counts were made for another limit, and it would wait for registers for ever.
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
    children = []
    for child in module.children:
        if isinstance(child, Function) and child.is_entry and child.body is not None and (not wanted or child.name in wanted):
            if maxnreg and _shares_registers_out(child):
                raise ValueError(f"{child.name} shares registers out itself (setmaxnreg); its limit cannot be changed alone")
            header = child.header
            for name in remove.replace(",", " ").split():
                header = without_directive(header, f".{name.lstrip('.')}")
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


def _shares_registers_out(kernel: Function) -> bool:
    """Whether an instruction of the kernel gives registers away or asks for more."""
    opcodes = {instruction.opcode.text for instruction in kernel.instructions}
    return any("setmaxnreg" in effect.what for opcode in opcodes for candidate in match(opcode) for effect in candidate.form.effects)
