"""The enumerator against one that tries everything, and what its executions are."""

from __future__ import annotations

import pytest
from memory_model import naive

from ptxkit.analyses.memory_model import (
    Address,
    Atomic,
    Load,
    Program,
    Store,
    Taste,
    Thread,
    Variable,
    allowed_outcomes,
    find_race,
    generate,
    outcomes,
    racy,
    registers,
)
from ptxkit.analyses.memory_model.execution import AXIOMS
from ptxkit.analyses.memory_model.verdicts import forbidden

TASTES = {
    "plain": Taste(operations=(1, 3)),
    "proxies": Taste(operations=(1, 3), proxies=True),
    "mixed sizes": Taste(operations=(1, 3), mixed=True),
    "aliases": Taste(operations=(1, 3), aliases=True, gpus=2),
}


@pytest.mark.parametrize("name", TASTES)
def test_outcomes_and_races_as_by_trying_everything(name: str) -> None:
    compared = 0
    for seed in range(60):
        program = generate(seed, TASTES[name])
        try:
            expected = naive.outcomes(program, 1000)
        except naive.TooMany:
            continue
        found = {one.values: one.racy is not None for one in outcomes(program).outcomes}
        assert found == expected, f"seed {seed}"
        assert racy(program) == any(expected.values()), f"seed {seed}"
        compared += 1

    assert compared > 40


@pytest.mark.parametrize("seed", range(20))
def test_an_outcome_is_shown_by_an_execution_that_satisfies_the_axioms(seed: int) -> None:
    program = generate(seed, Taste(proxies=True))
    for one in outcomes(program).outcomes:
        assert one.execution.is_consistent
        if one.racy is not None:
            assert one.racy.is_consistent and one.racy.data_races


@pytest.mark.parametrize("seed", range(20))
def test_a_forbidden_outcome_contradicts_the_axioms_that_are_named(seed: int) -> None:
    program = generate(seed, Taste(operations=(1, 3)))
    allowed = outcomes(program, races=False)
    for one in forbidden(program, allowed):
        assert one.values not in allowed.values()
        assert {name for name, broken in AXIOMS.items() if broken(one.execution)} == set(one.axioms)


def four_threads() -> Program:
    """Forty operations."""
    codes = []
    for t in range(4):
        code = []
        for k in range(5):
            code.append(Store(Address("xyzw"[(t + k) % 4]), 10 * t + k, "release" if k % 2 else "relaxed", "gpu"))
            code.append(Load(f"r{k}", Address("xyzw"[(t + 2 * k) % 4]), "acquire" if k % 2 else "relaxed", "gpu"))
        codes.append(tuple(code))
    return Program(tuple(Thread(f"P{t}", t, 0, code) for t, code in enumerate(codes)), tuple(Variable(one) for one in "xyzw"))


def test_ten_operations_in_each_of_four_threads() -> None:
    program = four_threads()

    assert find_race(program) is None
    assert len(outcomes(program, registers(program)[:1], races=False).outcomes) > 1


def test_a_counter_counts() -> None:
    threads = tuple(Thread(f"P{t}", t, 0, (Atomic("r0", "add", Address("x"), (1,)),)) for t in range(4))
    found = allowed_outcomes(Program(threads, (Variable("x"),)))

    assert {tuple(sorted(one)) for one in found} == {(0, 1, 2, 3)} and len(found) == 24
