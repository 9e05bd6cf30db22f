"""Semantics of all forms of the instruction table. `semantics_of` finds the module by the file of the chapter, and the function by the
mnemonic."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import isfunction

from ptxkit.isa.forms import Form
from ptxkit.machine.operation import Operation, Semantics, Unsupported

Maker = Callable[[Operation], Semantics]


def semantics_of(op: Operation) -> Semantics:
    """The semantics of an instruction. Raises `Unsupported` with the reason if it cannot be executed."""
    return maker_of(op.bound.form)(op)


def maker_of(form: Form) -> Maker:
    """The function that implements a form: `add` in `semantics/integer.py` for that in `isa/integer.isa`. Raises `Unsupported`."""
    found = _makers(form.file.removesuffix(".isa")).get(form.mnemonic)
    if found is None:
        raise Unsupported(f"`{form.mnemonic}` has no semantics yet ({form.file})")
    return found


@cache
def _makers(chapter: str) -> dict[str, Maker]:
    """The public functions of a chapter's module by mnemonic. Names that are Python keywords end with an underscore."""
    module = f"{__name__}.{chapter}"
    if find_spec(module) is None:
        return {}
    functions = vars(import_module(module)).items()
    return {name.removesuffix("_"): function for name, function in functions if isfunction(function) and not name.startswith("_")}
