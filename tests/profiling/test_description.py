"""Launches as they are read from TOML, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit.rewriters.engine.parameters import layout
from ptxkit.rewriters.profiling.array_files import BadFile, shape_of_file
from ptxkit.rewriters.profiling.contents import of_array
from ptxkit.rewriters.profiling.description import BadLaunch, parse, read
from ptxkit.rewriters.profiling.elements import SIZES, fits, packed, unpacked
from ptxkit.rewriters.profiling.launch import Array, Launch, Raw, Scalar, as_json, from_json

ROOT = Path(__file__).resolve().parents[2]
HEAD = '[[kernel]]\nentry = "k"\ngrid = 8\nblock = [32, 2]\n'


def said(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(BadLaunch) as caught:
        parse(text, "launch.toml")
    return [(one.span.line, one.span.column, one.message) for one in caught.value.diagnostics]


def test_a_launch_with_everything() -> None:
    (launch,) = parse(
        HEAD
        + """cluster = [2, 1, 1]
shared = 1024
cooperative = true
seed = 7
file = "some"
args = [
    { scalar = "f32", value = 2 },
    { bytes = "00ff" },
    { buffer = "i16", shape = [2, 3], fill = "random", low = -5, high = 5, seed = 3 },
    { buffer = "f16", length = 4, value = 0.5, output = true, rtol = 1e-3, atol = 1e-6 },
    { tensormap = "f32", shape = [8, 16], box = [4, 16], swizzle = "128B", output = true, compare = "sorted" },
    { texture = "f32", shape = [3, 4], fill = "iota" },
]
"""
    )
    assert (launch.grid, launch.block, launch.cluster) == ((8, 1, 1), (32, 2, 1), (2, 1, 1))
    assert (launch.shared, launch.cooperative, launch.threads) == (1024, True, 512)
    scalar, raw, integers, floats, tensor, texture = launch.arguments
    assert (scalar, raw) == (Scalar("f32", 2.0), Raw(b"\0\xff"))
    assert integers == Array("i16", (2, 3), "random", low=-5, high=5, seed=3)
    assert floats == Array("f16", (4,), value=0.5, output=True, rtol=1e-3, atol=1e-6)
    assert isinstance(tensor, Array) and (tensor.kind, tensor.box, tensor.swizzle) == ("tensormap", (4, 16), "128B")
    assert isinstance(texture, Array) and texture.kind == "texture"
    assert (launch.seed_of(2), launch.seed_of(3)) == (3, 11)
    assert launch.mismatch([4, 2, 8, 8, 128, 8]) is None
    assert launch.mismatch([4, 2, 8, 8, 128]) == "k has 5 parameters, the launch 6 arguments"
    assert launch.mismatch([8, 2, 8, 8, 128, 8]) == "parameter 0 of k has 8 bytes, the argument 4"
    assert launch.is_for("x/some.sm_80.ptx") and launch.is_for("some") and not launch.is_for("something.ptx")
    assert from_json(json.loads(json.dumps(as_json(launch)))) == launch


MISTAKES = {
    'args = [3]': (5, 9, 'a number must have a type: { scalar = "i32", value = 3 }'),
    'args = [{ scalar = "i8", value = 300 }]': (5, 26, "300 does not fit i8"),
    'args = [{ scalar = "f16", value = 1e9 }]': (5, 27, "1000000000.0 does not fit f16"),
    'args = [{ scalar = "i32", value = 1.5 }]': (5, 27, "i32 must be a whole number"),
    'args = [{ scalar = "i32" }]': (5, 11, "a scalar must have a `value`"),
    'args = [{ bytes = "0g" }]': (5, 11, "`bytes` must be in hexadecimal, two digits a byte"),
    'args = [{ buffer = "f32" }]': (5, 9, "a buffer must have a `length` or a `shape`"),
    'args = [\n { buffer = "f32", length = 2, fill = "one" }]': (6, 32, "`fill` must be one of zeros, ones, iota, random"),
    'args = [{ buffer = "f32", length = 2, value = 1, fill = "ones" }]': (5, 39, "`fill` and `value` say two things about what is in it"),
    'args = [{ buffer = "u8", length = 2, low = 9, high = 5 }]': (5, 47, "`high` must be more than `low` (9)"),
    'args = [{ buffer = "u8", length = 2, rtol = 0.1 }]': (5, 38, "integers (u8) are compared exactly"),
    'args = [{ buffer = "f64", length = 99999999999 }]': (5, 27, "`length` must be a whole number from 0 on"),
    'args = [{ buffer = "f64", shape = [99999, 999999] }]': (5, 27, "more than 64 GiB"),
    'args = [{ tensormap = "f32", shape = [8, 8] }]': (5, 9, "a tensor map must have a `box` of numbers from 1 to 256"),
    'args = [{ buffer = "f32", path = "nowhere.npy" }]': (5, 27, "nowhere.npy: No such file or directory"),
    "args = [{ scaler = 1 }]": (5, 9, "an argument must have one of `scalar`, `buffer`, `bytes`, `tensormap`, `texture` or `surface`"),
    "args = 3": (5, 1, "`args` must be an array"),
    "cluster = 3": (5, 1, "the grid is not a whole number of clusters"),
    "shared = -1": (5, 1, "`shared` must be a whole number from 0 on"),
    "cooperative = 1": (5, 1, "`cooperative` must be true or false"),
}  # fmt: skip


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_said_where_they_are(line: str) -> None:
    assert said(HEAD + line + "\n") == [MISTAKES[line]]


def test_all_mistakes_are_said_at_once() -> None:
    text = '[[kernel]]\nentry = 3\ngrid = [0]\nargs = [1, 2]\ncolour = "red"\n'
    assert [line for line, _, _ in said(text)] == [1, 2, 3, 4, 4, 5]
    assert said(HEAD.replace("[32, 2]", "[32, 64]")) == [(4, 1, "a block has at most 1024 threads, this one 2048")]
    assert said("") == [(1, 1, "there is no [[kernel]]")]
    assert said("[[kernel]]\n[other]\n")[-1][:2] == (2, 2)
    assert said("kernel = 3\n") == [(1, 1, "`kernel` must be a table: [[kernel]]")]


def test_what_is_no_toml() -> None:
    ((line, column, _),) = said("[[kernel]]\nentry = \n")
    assert (line, column) == (2, 9)
    assert said("a = " + "[" * 5000)[0][0] == 1


@given(st.text('[]{}"=#.,\n kernelargsbuffer123', max_size=60))
def test_no_text_makes_it_fall(text: str) -> None:
    for candidate in (text, HEAD + text, HEAD + "args = [{" + text + "}]\n"):
        try:
            parse(candidate)
        except BadLaunch as bad:
            assert all(1 <= one.span.line <= candidate.count("\n") + 1 for one in bad.diagnostics)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "launch.toml"
    path.write_bytes(b'[[kernel]]\nentry = "\xff"\n')
    with pytest.raises(BadLaunch) as caught:
        read(str(path))
    assert (caught.value.diagnostics[0].span.line, caught.value.diagnostics[0].span.column) == (2, 10)


def test_the_launches_of_the_fixtures_fit_their_kernels() -> None:
    folder = ROOT / "fixtures" / "kernels"
    launches = read(str(folder / "launch.toml"))
    assert len(launches) > 100
    for path in sorted(folder.glob("*.sm_80.ptx")):
        mine = {launch.kernel: launch for launch in launches if launch.is_for(str(path))}
        if mine and path.stat().st_size < 60_000:
            for function in ptxkit.parse(path.read_text(), str(path)).kernels:
                if function.name in mine:
                    assert mine[function.name].mismatch([one.bytes for one in layout(function.header)]) is None


def npy(descr: str, shape: str, data: bytes, fortran: bool = False) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def test_arrays_from_files(tmp_path: Path) -> None:
    numbers = packed("i32", range(6))
    (tmp_path / "a.npy").write_bytes(npy("<i4", "(2, 3)", numbers))
    (tmp_path / "a.bin").write_bytes(numbers)
    text = HEAD + 'args = [{ buffer = "i32", path = "a.npy" }, { buffer = "i32", path = "a.bin" }]\n'
    (tmp_path / "launch.toml").write_text(text)
    (launch,) = read(str(tmp_path / "launch.toml"))
    first, second = launch.arguments
    assert isinstance(first, Array) and isinstance(second, Array)
    assert (first.shape, second.shape) == ((2, 3), (6,))
    assert of_array(first, 1) == numbers == of_array(second, 1)
    (tmp_path / "launch.toml").write_text(text.replace("a.npy", 'a.npy", length = 7, fill = "zeros'))
    with pytest.raises(BadLaunch, match=r"5:54.*`fill` and `path`|elements of i32, not 7"):
        read(str(tmp_path / "launch.toml"))


@pytest.mark.parametrize(
    "data",
    [npy(">i4", "(1,)", bytes(4)), npy("<f4", "(1,)", bytes(4)), npy("<i4", "(2, 2)", bytes(16), True), npy("<i4", "3", bytes(4)), b"abc",
     b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", npy("<i4", "[" * 3000 + "]" * 3000, b"")],
)  # fmt: skip
def test_files_that_hold_something_else(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(BadFile):
        shape_of_file(str(tmp_path / "x"), "i32")


def test_what_arrays_have_in_them() -> None:
    assert unpacked("i8", of_array(Array("i8", (4,), "iota"), 0)).tolist() == [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert of_array(Array("u8", (300,), "iota"), 0)[256:259] == b"\0\1\2"
    assert of_array(Array("bf16", (2,), "ones"), 0) == b"\x80\x3f" * 2
    assert of_array(Array("f16", (2,), value=-2.0), 0) == b"\x00\xc0" * 2
    random = Array("i32", (1000,), "random", low=-3, high=3)
    assert set(unpacked("i32", of_array(random, 1))) == {-3, -2, -1, 0, 1, 2}
    assert of_array(random, 1) == of_array(random, 1) != of_array(random, 2)
    assert of_array(Array("f32", (70000,), "random"), 5)[: 4 * 65536] == of_array(Array("f32", (65536,), "random"), 5)
    assert all(0 <= number < 1 for number in unpacked("f64", of_array(Array("f64", (100,), "random"), 5)))


@given(st.sampled_from(sorted(SIZES)), st.floats(allow_nan=False) | st.integers(0, 100).map(float))
def test_numbers_that_fit_come_back(kind: str, value: float) -> None:
    if kind[0] in "iu":
        value = int(value) % 128 if abs(value) < 1e300 else 0
        assert list(unpacked(kind, packed(kind, [value]))) == [value]
    elif fits(kind, value) and abs(value) != float("inf"):
        (found,) = unpacked(kind, packed(kind, [value]))
        assert abs(found - value) <= abs(value) * (0.01 if kind == "bf16" else 0.001) + 1e-7


def test_a_launch_without_arguments_has_no_arrays() -> None:
    assert parse(HEAD) == (Launch("k", (8, 1, 1), (32, 2, 1)),)
