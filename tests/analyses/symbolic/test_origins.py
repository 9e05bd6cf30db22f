"""Where operands come from."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses import Routine
from ptxkit.analyses.symbolic.origins import MOST, origins


def of(routine: Routine, text: str, operand: int) -> list[tuple[str, str]]:
    """The instructions that an operand comes from, as they are written, and what is said of them."""
    (i,) = [i for i, one in enumerate(routine.instructions) if text in one.body_text]
    written = {routine.where(at): one.body_text.strip().rstrip(";") for at, one in enumerate(routine.instructions)}
    children, operands = routine.instructions[i].children, routine.instructions[i].operands
    return [(written[path], said) for path, said in origins(routine, i, len(children) - len(operands) + operand)]


def test_the_nearest_first() -> None:
    routine = kernel("mov.u32 %r1, %tid.x;\nmov.u32 %r5, %ctaid.x;\nadd.u32 %r2, %r1, 7;\n@%p1 bar.sync %r2;\nret;")

    assert of(routine, "bar.sync", 0) == [
        ("add.u32 %r2, %r1, 7", "`%r2` is %tid.x + 7"),
        ("mov.u32 %r1, %tid.x", "`%r1` is %tid.x"),
    ]


def test_both_sides_of_a_join() -> None:
    routine = kernel("mov.u32 %r1, %tid.x;\n@%p1 bra A;\nmov.u32 %r1, %ctaid.x;\nA: bar.sync %r1;\nret;")

    assert sorted(of(routine, "bar.sync", 0)) == [
        ("mov.u32 %r1, %ctaid.x", "`%r1` is %ctaid.x"),
        ("mov.u32 %r1, %tid.x", "`%r1` is %tid.x"),
    ]


def test_constants_are_left_out() -> None:
    routine = kernel("mov.u32 %r1, %tid.x;\nmov.u32 %r2, 3;\nadd.u32 %r3, %r1, %r2;\nbar.sync %r3;\nret;")

    assert [text for text, _ in of(routine, "bar.sync", 0)] == ["add.u32 %r3, %r1, %r2", "mov.u32 %r1, %tid.x"]


def test_a_counter_of_a_loop_comes_round_to_itself() -> None:
    routine = kernel("mov.u32 %r1, %tid.x;\nL: add.u32 %r1, %r1, 1;\nbar.sync %r1;\n@%p1 bra L;\nret;")

    assert [text for text, _ in of(routine, "bar.sync", 0)] == ["add.u32 %r1, %r1, 1", "mov.u32 %r1, %tid.x"]


def test_a_few_of_many() -> None:
    steps = "\n".join("add.u32 %r1, %r1, 1;" for _ in range(9))
    routine = kernel(f"mov.u32 %r1, %tid.x;\n{steps}\nbar.sync %r1;\nret;")

    assert len(of(routine, "bar.sync", 0)) == MOST


def test_no_register() -> None:
    assert of(kernel("bar.sync 1;\nret;"), "bar.sync", 0) == []
