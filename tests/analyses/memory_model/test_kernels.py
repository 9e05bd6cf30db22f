"""Generated programs and the kernels that run them."""

from __future__ import annotations

import pytest

from ptxkit.analyses.memory_model import (
    Address,
    CannotWrite,
    Load,
    Program,
    Taste,
    Thread,
    Variable,
    generate,
    registers,
    to_ptx,
)
from ptxkit.analyses.memory_model.shapes import shapes
from ptxkit.checking import problems
from ptxkit.names import resolve
from ptxkit.syntax import parse


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("options", [{}, {"instances": 64, "lanes": 32, "gathers": True, "stress": 4, "apart": 256}], ids=["one", "many"])
def test_a_kernel_is_legal(seed: int, options: dict[str, int]) -> None:
    program = generate(seed, Taste(proxies=seed % 2 == 0, mixed=seed % 3 == 0))
    kernel = to_ptx(program, **options)  # type: ignore[arg-type]

    module = parse(kernel.text)
    assert not [one.message for one in problems(module, resolve(module), (8, 5), "sm_90")]
    assert len(kernel.registers) == len(registers(program))
    assert kernel.result_bytes >= 8 * len(kernel.registers) * kernel.instances
    assert len(kernel.memory()) == kernel.stride * kernel.instances


def test_a_seed_gives_one_program() -> None:
    assert generate(5) == generate(5)
    assert generate(5) != generate(6)


def test_what_no_kernel_has() -> None:
    program = generate(1, Taste(aliases=True))
    with pytest.raises(CannotWrite, match="aliases"):
        to_ptx(program)
    texture = Program((Thread("P0", 0, 0, (Load("r0", Address("x"), proxy="texture"),)),), (Variable("x"),))
    with pytest.raises(CannotWrite, match="texture proxy"):
        to_ptx(texture)


def test_the_classic_shapes_have_kernels() -> None:
    programs = list(shapes())

    assert len(programs) > 200
    assert len({one.name for one in programs}) == len(programs)
    for program in programs[::10]:
        assert "litmus" in to_ptx(program).text
