"""The shape of CTAs and clusters, as directives say it."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import routines
from ptxkit.analyses.launch.launch import Launch, cluster_size, is_cooperative, launch
from ptxkit.analyses.numbers.known_bits import between, constant

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"


def of(directives: str) -> Launch:
    return launch(routines(ptxkit.parse(f"{HEAD}.entry k() {directives} {{ ret; }}"))[0])


class TestLaunch:
    @pytest.mark.parametrize(
        ("directives", "threads", "most"),
        [
            ("", None, (1024, 1024, 64)),
            (".reqntid 96", (96, 1, 1), (96, 1, 1)),
            (".reqntid 8, 4, 2", (8, 4, 2), (8, 4, 2)),
            # only the product is kept to
            (".maxntid 8, 4, 4", None, (128, 128, 64)),
            (".maxntid 16", None, (16, 16, 16)),
            (".maxntid 256 .reqntid 64", (64, 1, 1), (64, 1, 1)),
            # shapes that no device has
            (".reqntid 2048", None, (1024, 1024, 64)),
            (".reqntid 1, 1, 128", None, (1024, 1024, 64)),
            (".maxntid 4096", None, (1024, 1024, 64)),
        ],
    )
    def test_directives(self, directives: str, threads: tuple[int, ...] | None, most: tuple[int, ...]) -> None:
        assert of(directives) == Launch(threads, most)  # type: ignore[arg-type]

    def test_a_function_has_the_launches_of_its_kernels(self) -> None:
        text = ".func f() {{ ret; }} .entry k() .reqntid {} {{ call f; ret; }} .entry l() .reqntid {} {{ call f; ret; }}"
        same, different = [routines(ptxkit.parse(HEAD + text.format(*sizes)))[0] for sizes in ((64, 64), ("64, 2", "32, 4"))]

        assert launch(same) == Launch((64, 1, 1), (64, 1, 1))
        assert launch(different) == Launch(None, (64, 4, 1))

    def test_special_registers(self) -> None:
        known = of(".reqntid 8, 4, 2")

        assert known.count == 64
        assert known.range("%tid.y") == (0, 3)
        assert known.range("%ntid.y") == (4, 4)
        assert known.known("%ntid.x") == constant(8, 32)
        assert known.known("%laneid") == between(0, 31, 32)
        assert known.range("%clock") is None
        with pytest.raises(KeyError):
            known.known("%nothing")


@pytest.mark.parametrize(
    ("directives", "expected"),
    [
        ("", None),
        (".reqnctapercluster 4", 4),
        (".reqnctapercluster 2, 3, 2", 12),
        # at most, and a shape left to the launch
        (".maxclusterrank 8", None),
        (".explicitcluster", None),
    ],
)
def test_cluster_size(directives: str, expected: int | None) -> None:
    assert cluster_size(routines(ptxkit.parse(f"{HEAD}.entry k() {directives} {{ ret; }}"))[0]) == expected


@pytest.mark.parametrize(("register", "is_asked"), [("%envreg1", True), ("%envreg2", True), ("%envreg3", False), ("%tid.x", False)])
def test_a_kernel_asks_for_the_memory_of_its_grid(register: str, is_asked: bool) -> None:
    module = ptxkit.parse(f"{HEAD}.entry k() {{ .reg .b32 %r; mov.u32 %r, {register}; ret; }}")

    assert is_cooperative(routines(module)[0]) == is_asked
