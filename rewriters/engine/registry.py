"""The rewriters, found by their files."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.rewriters.engine.rewrite import Rewrite


@frozen
class Rewriter:
    """A rewriter: `strip-debug` is the function `strip_debug` of `rewriters/strip_debug.py`; its keyword arguments are options."""

    name: str
    summary: str
    """The first line of the function's docstring."""
    function: Callable[..., Rewrite]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options by their Python names. Their annotations are text, number or boolean types."""
        parameters = inspect.signature(self.function, eval_str=True).parameters
        return {name: found for name, found in parameters.items() if found.kind is inspect.Parameter.KEYWORD_ONLY}

    def __call__(self, module: Any, **options: Any) -> Rewrite:
        return self.function(module, **options)


@functools.cache
def all_rewriters() -> dict[str, Rewriter]:
    """All rewriters by name. Loads the files of `rewriters/` on the first call."""
    found = {}
    package = importlib.import_module("ptxkit.rewriters")
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg or info.name.startswith("_"):
            continue
        function = getattr(importlib.import_module(f"{package.__name__}.{info.name}"), info.name, None)
        if callable(function) and inspect.signature(function, eval_str=True).return_annotation is Rewrite:
            name = info.name.replace("_", "-")
            summary = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
            found[name] = Rewriter(name, summary, function)
    return found
