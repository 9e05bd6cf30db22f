"""A real compiler takes what comes out, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxkit
from ptxkit import files
from ptxkit.analyses import control_flow, routines
from ptxkit.revalidation import Outcome, revalidate
from ptxkit.rewriters import AddParameter, AddToModule, AtEntry, AtExits, Declare, Edit, OnEdge, Refused, apply, fresh
from ptxkit.rewriters.noop_probe import noop_probe
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.specialize import specialize

FOLDER = Path(__file__).resolve().parents[2] / "fixtures"
KERNELS = ("calls.sm_80", "control_flow.sm_80", "inline_asm.sm_90a", "debug_build.sm_80", "wgmma_gemm.sm_90a", "cp_async.sm_80")


def module_of(name: str) -> ptxkit.Module:
    path = FOLDER / "kernels" / f"{name}.ptx"
    if not path.exists():
        pytest.skip(f"no fixture {name}")
    return ptxkit.parse(files.read(str(path)), str(path))


def accepted(module: ptxkit.Module) -> None:
    verdict = revalidate(module, using=("nvjitlink", "ptxas"), relocatable=True)
    if verdict.outcome is Outcome.UNAVAILABLE:
        pytest.skip(verdict.reason)
    assert verdict.outcome is Outcome.VALID, [found.message for found in verdict.diagnostics]


@pytest.mark.parametrize("name", KERNELS)
class TestKernel:
    def test_probe_everywhere(self, name: str) -> None:
        accepted(noop_probe(module_of(name), after=True, live=True).module)

    def test_a_counter_of_every_edge(self, name: str) -> None:
        """Registers that are counted up on every edge and added to memory at every exit: the engine's edits all at once."""
        module = module_of(name)
        names = fresh(module)
        counter, address, buffer = names.register("count"), names.register("to"), names.symbol("counts")
        edits: list[Edit] = [AddToModule(f".visible .global .align 4 .b32 {buffer}[4];")]
        edits += [AddParameter(kernel.name, names.symbol("data")) for kernel in module.kernels]
        for routine in routines(module):
            edits.append(Declare(routine, f".reg .b32 {counter}; .reg .b64 {address};"))
            edits.append(AtEntry(routine, f"mov.b32 {counter}, 0;"))
            edits.append(AtExits(routine, f"mov.u64 {address}, {buffer}; red.global.add.u32 [{address}], {counter};"))
            edges = [edge for block in control_flow(routine).blocks for edge in block.edges]
            edits += [OnEdge(routine, edge, f"add.u32 {counter}, {counter}, 1;") for edge in edges if not edge.indices]
        rewrite = apply(module, edits, "edges", partly=True)

        assert {refusal.name for refusal in rewrite.refusals} <= {"call-sequence-split"}
        accepted(rewrite.module)

    def test_specialized(self, name: str) -> None:
        module = module_of(name)
        kernel = module.kernels[0]
        last = len(kernel.header.parameters) - 1
        if last >= 0 and not kernel.header.parameters[last].declarator.dimensions:
            accepted(specialize(module, kernel=kernel.name, values=f"{last}=3").module)

    def test_retargeted(self, name: str) -> None:
        try:
            accepted(retarget(module_of(name), version="lowest").module)
        except Refused as refused:
            pytest.fail(str(refused))


@pytest.mark.parametrize("path", sorted((FOLDER / "rewriters").glob("*.ptx")), ids=lambda path: path.name)
def test_the_examples(path: Path) -> None:
    module = ptxkit.parse(files.read(str(path)))
    if "retarget.after" in path.name:
        module = retarget(module, target="sm_75").module  # no compiler of today takes the target of the example
    accepted(module)
