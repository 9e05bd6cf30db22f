"""Kernels with their launch."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.simulation.setting import CannotLaunch, Setting, bytes_of_box, declared_cluster, launched

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def module(directives: str = "") -> ptxkit.Module:
    return ptxkit.parse(f"{HEAD}.visible .entry k() {directives}\n{{\n ret;\n}}\n.func f() {{ ret; }}\n")


class TestLaunched:
    def test_the_kernel_says_it_and_lines_stay(self) -> None:
        text = launched(module(), "k", Setting((64, 2, 1), cluster=(2, 1, 1), grid=(4, 1, 1))).text

        assert ".reqntid 64, 2, 1 .reqnctapercluster 2, 1, 1 {" in text
        assert text.count("\n") == module().text.count("\n")

    def test_what_it_says_already_is_not_said_again(self) -> None:
        assert launched(module(".reqntid 64"), "k", Setting((64, 1, 1))).text.count(".reqntid") == 1

    @pytest.mark.parametrize("directives", [".reqntid 32", ".maxntid 63", ".reqnctapercluster 2"])
    def test_it_may_say_otherwise(self, directives: str) -> None:
        with pytest.raises(CannotLaunch):
            launched(module(directives), "k", Setting((64, 1, 1)))

    @pytest.mark.parametrize("name", ["f", "nobody"])
    def test_only_kernels_are_launched(self, name: str) -> None:
        with pytest.raises(KeyError):
            launched(module(), name, Setting((64, 1, 1)))


def test_clusters_lie_along_x_first() -> None:
    setting = Setting((32, 1, 1), grid=(4, 2, 3), cluster=(2, 1, 1))

    assert (setting.ranks, setting.clusters) == (2, 12)
    assert [setting.index(cluster, 1) for cluster in (0, 1, 2, 4)] == [(1, 0, 0), (3, 0, 0), (1, 1, 0), (1, 0, 1)]
    places = {setting.index(cluster, rank) for cluster in range(12) for rank in range(2)}
    assert len(places) == 24


def test_a_cluster_that_is_declared() -> None:
    assert declared_cluster(module(".reqnctapercluster 2, 2"), "k") == (2, 2, 1)
    assert declared_cluster(module(), "k") is None


@pytest.mark.parametrize(
    ("box", "size"),
    [(512, 512), ({"box": [64, 32], "type": "f16"}, 4096), (True, None), ({"box": []}, None), ({"box": [1], "type": "x"}, None)],
)
def test_the_bytes_of_a_box(box: object, size: int | None) -> None:
    assert bytes_of_box(box) == size
