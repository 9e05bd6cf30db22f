"""What a race lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxkit.analyses.memory_model import Taste, find_race, generate, outcomes
from ptxkit.analyses.memory_model.litmus_files import parse
from ptxkit.analyses.memory_model.missing import changed, missing_order

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "litmus"


def said(name: str, **values: int) -> list[str]:
    """What is said of the race in an outcome of a fixture."""
    program = parse((FIXTURES / f"{name}.litmus").read_text(encoding="utf-8")).program
    found = outcomes(program)
    wanted = tuple(values.values())
    one = next(one for one in found.outcomes if one.values[: len(wanted)] == wanted)
    assert one.racy is not None
    missing = missing_order(one.racy)
    assert missing is not None
    return missing.describe()


def test_a_scope_that_is_too_narrow() -> None:
    race, why, *changes = said("scope-cta", r0=1)

    assert race == "data race: P0: st.weak x, 1 and P1: ld.weak r1, x"
    assert "synchronizes (8.9.4)" in why and "scope .cta" in why
    assert changes == ["change in P0: st.release.cta y, 1 -> st.release.gpu y, 1"]


def test_a_release_that_comes_too_early() -> None:
    _, why, *changes = said("pattern-release-early", r0=2)

    assert "is not part of a release pattern" in why
    assert changes == ["change in P0: st.relaxed.gpu y, 2 -> st.release.gpu y, 2"]


def test_a_proxy_fence() -> None:
    _, why, *changes = said("async-proxy-no-fence")

    assert "not across the async proxy" in why
    assert changes == ["add to P0: fence.proxy.async before cp.async.bulk y, x, 4"]


def test_an_alias_fence() -> None:
    _, why, *changes = said("alias")

    assert "aliases" in why
    assert changes == ["add to P0: fence.proxy.alias before ld.weak r0, y"]


@pytest.mark.parametrize("seed", range(40))
def test_changes_remove_the_race(seed: int) -> None:
    program = generate(seed, Taste(operations=(1, 3), proxies=seed % 2 == 0))
    race = find_race(program)
    if race is None:
        pytest.skip("no race")
    missing = missing_order(race)
    assert missing is not None and missing.race in race.data_races
    again = changed(program, missing.changes)
    assert len(again.threads) == len(program.threads)


def test_no_race_lacks_nothing() -> None:
    program = parse((FIXTURES / "barrier.litmus").read_text(encoding="utf-8")).program

    assert missing_order(outcomes(program).outcomes[0].execution) is None
