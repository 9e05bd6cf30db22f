"""What holds of every rewriter on every file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from invariants import broken

import ptxkit
from ptxkit.rewriters import Refused, Rewrite
from ptxkit.rewriters.dead_code import dead_code
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.extract import extract
from ptxkit.rewriters.noop_probe import noop_probe
from ptxkit.rewriters.rename import rename
from ptxkit.rewriters.renumber import renumber
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.strip import strip
from ptxkit.rewriters.strip_debug import strip_debug


class TestProbe:
    def test_comes_out_again_from_the_tree(self, module: ptxkit.Module) -> None:
        assert strip(noop_probe(module, after=True).module).text == module.text

    def test_comes_out_again_from_the_text(self, module: ptxkit.Module) -> None:
        assert strip(ptxkit.parse(noop_probe(module, after=True).text)).text == module.text

    def test_breaks_nothing(self, module: ptxkit.Module) -> None:
        rewrite = noop_probe(module, after=True)

        assert broken(module, rewrite.module) == []

    def test_is_put_in_or_refused_at_every_point(self, module: ptxkit.Module) -> None:
        rewrite = noop_probe(module, after=True)
        count = sum(len(function.instructions) for function in module.functions)

        assert len(rewrite.manifest.probes) + len(rewrite.refusals) == 2 * count
        assert {refusal.name for refusal in rewrite.refusals} <= {"call-sequence-split", "never-reached"}

    def test_twice_comes_out_at_once(self, module: ptxkit.Module) -> None:
        twice = noop_probe(noop_probe(module).module)

        assert strip(twice.module).text == module.text


TRANSFORMS: dict[str, Callable[[ptxkit.Module], Rewrite]] = {
    "probe": lambda module: noop_probe(module, after=True),
    "strip-debug": strip_debug,
    "dead-code": dead_code,
    "renumber": renumber,
    "rename": lambda module: rename(module, prefix="other_"),
    "rename-all": lambda module: rename(module, prefix="other_", what="all"),
    "extract": lambda module: extract(module, kernel=",".join([function.name for function in module.functions][-1:])),
    "retarget": retarget,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name: str, module: ptxkit.Module) -> None:
    """What comes out reads back as the same tree, has no new errors, and shares what is not changed."""
    try:
        rewrite = TRANSFORMS[name](module)
    except Refused as refused:
        assert refused.diagnostics
        return
    again = ptxkit.parse(rewrite.text)
    old = {id(child): child.text for child in module.children}

    assert again == rewrite.module
    assert new_errors(module, again) == ()
    assert all(child.text == old[id(child)] for child in rewrite.module.children if id(child) in old)
