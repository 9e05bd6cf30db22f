"""Textures and surfaces: addressing, filtering, layers, levels; the examples of the CUDA guide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from executing import execute
from stand_in import Lanes, Stopped, all_lanes

from ptxkit.machine import Machine, Sampler, Surface, Texture
from ptxkit.machine.memory import Memory
from ptxkit.machine.textures import sampling
from ptxkit.machine.textures.objects import handle_of

KERNELS = Path(__file__).parents[3] / "fixtures" / "kernels"


def lanes_for(count: int) -> Lanes:
    memory = Memory()
    memory.begin(ctas=1, threads=count)
    return all_lanes(memory)


def sampled(texture: Texture, geometry: str, *coordinates: list[float], instruction: str = "", **more: object) -> list:
    """The first channel at float coordinates."""
    lanes = lanes_for(len(coordinates[0]))
    registers = ", ".join(f"%f{i + 5}" for i in range(len(coordinates)))
    text = instruction or f"tex.{geometry}.v4.f32.f32 {{%f1, %f2, %f3, %f4}}, [%rd1, {{{registers}}}]"
    c = tuple(np.array(x, np.float32).view(np.uint32) for x in coordinates)
    return execute(text, lanes, {"t": np.uint64(handle_of(lanes.memory, texture)), "c": c, **more})[0].tolist()


LINE = np.array([10, 20, 30, 40], np.float32)


@pytest.mark.parametrize(
    ("sampler", "x", "expected"),
    [
        (Sampler(), [0, 0.9, 1, 3.9, 4, -1, 100, -0.1], [10, 10, 20, 40, 40, 10, 40, 10]),
        (Sampler(address="border"), [0, 3.9, 4, -0.1], [10, 40, 0, 0]),
        (Sampler(normalized=True, address="wrap"), [0, 0.25, 1, 1.25, -0.25], [10, 20, 10, 20, 40]),
        (Sampler(normalized=True, address="mirror"), [0, 0.75, 1, 1.25, -0.25, -0.3], [10, 40, 40, 30, 10, 20]),
        (Sampler(address="wrap"), [5, -1], [40, 10]),
        (Sampler(filter="linear"), [0.5, 1, 1.25, 0, 4, 3.5], [10, 15, 17.5, 10, 40, 40]),
        (Sampler(filter="linear", address=("border", "clamp")), [0, 4, -0.5, 0.25], [5, 20, 0, 7.5]),
        (Sampler(filter="linear", address="border", border=(2, 0, 0, 0)), [1.5, 4], [11, 11.5]),
        (Sampler(filter="linear", normalized=True, address="wrap"), [0, 1, 0.125], [25, 25, 10]),
        (Sampler(filter="linear"), [0.5 + 1 / 1024, 0.5 + 1 / 256], [10, 10 + 10 / 256]),
    ],
)
def test_a_line_of_texels(sampler, x, expected):
    assert sampled(Texture(array=LINE, sampler=sampler), "1d", x) == expected


def test_two_and_three_dimensions():
    plane = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert sampled(Texture(array=plane), "2d", [1, 3.5], [2, 0.5]) == [9, 3]
    linear = Texture(array=plane, sampler=Sampler(filter="linear"))
    assert sampled(linear, "2d", [1, 2], [1, 2]) == [2.5, 7.5]
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert sampled(Texture(array=cube), "3d", [1], [2], [1], [0]) == [21]
    assert sampled(Texture(array=cube, sampler=Sampler(filter="linear")), "3d", [1], [1], [1], [0]) == [8.5]


def test_layers_and_offsets():
    plane = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    lanes = lanes_for(2)
    handle = np.uint64(handle_of(lanes.memory, Texture(array=plane, layered=True)))
    found = execute("tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f5, %f6, %f7}]", lanes,
                    {"t": handle, "i": np.uint32(1), "x": np.array([1, 2], np.float32), "y": np.float32(1), "z": np.float32()})  # fmt: skip
    assert found[0].tolist() == [17, 18]
    assert execute("txq.array_size.b32 %r1, [%rd1]", lanes, {"a": handle}) == 2
    assert execute("txq.width.b32 %r1, [%rd1]", lanes, {"a": handle}) == 4
    line = np.uint64(handle_of(lanes.memory, Texture(array=LINE)))
    found = execute("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}], {%r1}", lanes,
                    {"t": line, "c": (np.array([0.5, 1.5], np.float32).view(np.uint32),), "off": (np.uint32(2),)})  # fmt: skip
    assert found[0].tolist() == [30, 40]


def test_types_and_channels():
    bytes_ = np.array([[0, 255], [51, 102]], np.uint8)
    assert sampled(Texture(array=bytes_, as_float=True), "2d", [1, 0], [0, 1]) == [1.0, pytest.approx(0.2)]
    lanes = lanes_for(1)
    handle = np.uint64(handle_of(lanes.memory, Texture(array=np.array([[1, -2, 3], [4, 5, 6]], np.int16), channels=True)))
    found = execute("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}]", lanes, {"t": handle, "c": (np.uint32(0),)})
    assert [x.tolist() for x in found] == [[1], [-2], [3], [0]]
    found = execute("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}]", lanes, {"t": handle, "c": (np.uint32(2),)})
    assert [x.tolist() for x in found] == [[0], [0], [0], [0]]
    half = np.uint64(handle_of(lanes.memory, Texture(array=np.array([[1, 2]], np.float16), channels=True)))
    found = execute("tex.1d.v2.f16x2.f32 {%r1, %r2}, [%rd1, {%f1}]", lanes, {"t": half, "c": (np.uint32(0),)})
    assert found[0].view(np.float16).tolist() == [1, 2]


def test_levels_of_detail():
    texture = Texture(array=np.full(8, 1, np.float32), levels=[np.full(4, 3, np.float32), np.full(2, 7, np.float32)],
                      sampler=Sampler(normalized=True, mip_filter="linear"))  # fmt: skip
    lanes = lanes_for(4)
    handle = np.uint64(handle_of(lanes.memory, texture))
    c = (np.float32(0.5).view(np.uint32),)
    found = execute("tex.level.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}], %f6", lanes,
                    {"t": handle, "c": c, "lod": np.array([0, 0.5, 2, 9], np.float32).view(np.uint32)})  # fmt: skip
    assert found[0].tolist() == [1, 2, 7, 7]
    found = execute("tex.grad.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}], {%f6}, {%f7}", lanes,
                    {"t": handle, "c": c, "dx": (np.float32(0.25).view(np.uint32),), "dy": (np.float32(0).view(np.uint32),)})  # fmt: skip
    assert found[0].tolist() == [3] * 4
    assert execute("txq.level.width.b32 %r1, [%rd1], %r2", lanes, {"a": handle, "lod": np.uint32(2)}) == 2


def test_faces_of_a_cube():
    faces = np.arange(6, dtype=np.float32)[:, None, None] * np.ones((6, 2, 2), np.float32)
    directions = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1], [0.2, -3, 1]], np.float32)
    assert sampled(Texture(array=faces), "cube", *directions.T, [0] * 7) == [0, 1, 2, 3, 4, 5, 3]


def test_four_texels_are_gathered():
    plane = np.arange(12, dtype=np.float32).reshape(3, 4)
    lanes = lanes_for(1)
    handle = np.uint64(handle_of(lanes.memory, Texture(array=plane)))
    c = tuple(np.array([x], np.float32).view(np.uint32) for x in (1.0, 1.0))
    found = execute("tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}]", lanes, {"t": handle, "c": c})
    assert [x.tolist() for x in found] == [[4], [5], [1], [0]]


def test_handles_that_are_none():
    with pytest.raises(Stopped, match="stands for nothing"):
        lanes = lanes_for(1)
        execute("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}]", lanes, {"t": np.uint64(1 << 60), "c": (np.uint32(0),)})


@pytest.mark.parametrize(("clamp", "left", "right"), [("zero", 0, 0), ("clamp", 1, 12)])
def test_surfaces(clamp, left, right):
    array = np.arange(1, 13, dtype=np.uint32).reshape(3, 4)
    lanes = lanes_for(4)
    surface = np.uint64(handle_of(lanes.memory, Surface(array=array)))
    c = (np.array([0, 4, -4, 16], np.int32), np.array([0, 1, 0, 2], np.int32))
    assert execute(f"suld.b.2d.b32.{clamp} %r1, [%rd1, {{%r2, %r3}}]", lanes, {"a": surface, "c": c}).tolist() == [1, 6, left, right]
    execute(f"sust.b.2d.b32.{clamp} [%rd1, {{%r2, %r3}}], %r1", lanes, {"a": surface, "c": c, "v": np.uint32(90)})
    assert array[0, 0] == array[1, 1] == 90 and array[2, 3] == (12 if clamp == "zero" else 90)
    execute(f"sured.b.add.2d.u32.{clamp} [%rd1, {{%r2, %r3}}], %r1", lanes,
            {"a": surface, "c": (np.zeros(4, np.int32), np.zeros(4, np.int32)), "v": np.uint32(2)})  # fmt: skip
    assert array[0, 0] == 98
    execute(f"sust.p.2d.b32.{clamp} [%rd1, {{%r2, %r3}}], %r1", lanes, {"a": surface, "c": (np.int32(3), np.int32(0)), "v": np.uint32(5)})
    assert array[0, 3] == 5


def test_a_surface_traps():
    lanes = lanes_for(2)
    surface = np.uint64(handle_of(lanes.memory, Surface(array=np.zeros((3, 4), np.float32))))
    with pytest.raises(Stopped, match="outside of a surface of 4 x 3 texels") as caught:
        execute("suld.b.2d.b32.trap %r1, [%rd1, {%r2, %r3}]", lanes, {"a": surface, "c": (np.array([0, 16], np.int32), np.int32(0))})
    assert caught.value.mask.tolist() == [False, True]


class TestKernels:
    RANDOM = np.random.default_rng(1)

    def launched(self, kernel: str, *arguments: object, **shape: object) -> None:
        machine = Machine("sm_90a")
        code = machine.load((KERNELS / "texture.sm_90a.ptx").read_text(encoding="utf-8"))
        machine.launch(code, kernel, *arguments, **shape)

    def test_fetch(self):
        line, out = self.RANDOM.integers(0, 1000, 500).astype(np.int32), np.zeros(500, np.int32)
        self.launched("fetch_1d", Texture(array=line), out, 500, grid=4, block=128)
        assert (out == line[::-1] + 1).all()

    def test_sample(self):
        plane, out = self.RANDOM.random((37, 45), np.float32), np.zeros((37, 45), np.float32)
        self.launched("sample_2d", Texture(array=plane), out, 45, 37, grid=(3, 5), block=(16, 8))
        low = np.pad(plane, ((0, 1), (0, 1)), "edge")
        near, right, below, across = plane, low[:-1, 1:], low[1:, :-1], low[1:, 1:]
        assert (out == near + near * np.float32(2) + below + across + right + near).all()

    def test_surface(self):
        plane, out = self.RANDOM.random((37, 45), np.float32), np.zeros((37, 45), np.float32)
        before = plane.copy()
        self.launched("surface_2d", Surface(array=plane), out, 45, 37, grid=(3, 5), block=(16, 8))
        assert (out == before * np.float32(3)).all() and (plane == out).all()


def test_weights_of_a_filter_add_up_and_are_divided_level_after_level():
    x, y, z = (np.array([f]) for f in (128, 111, 83))
    for fractions in ([x], [x, y], [x, y, z]):
        for whole in (256, np.array([99])):
            assert sum(int(w[0]) for w in sampling.weights(fractions, whole)) == np.ravel(whole)[0]
    assert [int(w[0]) for w in sampling.weights([x], np.array([99]))] == [49, 50]
    assert [int(w[0]) for w in sampling.weights([x, y, z])][4:] == [23, 24, 18, 18]


def test_between_faces_of_a_cube():
    faces = np.repeat(np.arange(6, dtype=np.float32), 4).reshape(6, 2, 2)
    directions = np.array([[1, 1, 0.5], [1, 0.5, -1], [0.5, -1, 1], [-1, -1, -1]], np.float32)
    assert sampled(Texture(array=faces), "cube", *directions.T, [0] * 4) == [2, 5, 4, 5]


def test_bytes_as_numbers():
    smooth = Texture(array=np.array([0, 1, 186, 255], np.uint8), as_float=True, srgb=True)
    assert sampled(smooth, "1d", [0, 1, 2, 3]) == [0, 5 / 16384, 8064 / 16384, 1]
    signed = Texture(array=np.array([64, -64, -128, 127], np.int8), as_float=True)
    expected = np.array([16513 / 32767, -16512 / 32767, -1, 1], np.float32)
    assert sampled(signed, "1d", [0, 1, 2, 3]) == expected.tolist()


def test_filtered_bytes():
    """Of signed bytes the product by 258 + 1/128 has four fractional bits fewer; sRGB of a plane is added in the coarsest of its units."""
    lens = Sampler(filter="linear")
    signed = Texture(array=np.array([64, 127], np.int8), as_float=True, sampler=lens)
    fixed = 64 * 255 + 127
    assert sampled(signed, "1d", [0.5 + 1 / 256]) == [np.float32((fixed + (257 * (fixed // 16) + 1024) // 2048) / 32767)]
    encoded = Texture(array=np.array([36, 189], np.uint8), as_float=True, srgb=True, sampler=lens)
    assert sampled(encoded, "1d", [0.5 + 141 / 256]) == [4696 / 16384]  # 290 and 8320, but of 290 only 256


def test_the_fourth_channel_of_srgb_is_filtered_as_bytes_without_a_curve():
    lens = Sampler(filter="linear")
    texels = np.array([[0, 0, 0, 36], [0, 0, 0, 189]], np.uint8)
    encoded, plain = (Texture(array=texels, channels=True, as_float=True, srgb=srgb, sampler=lens) for srgb in (True, False))
    at = [np.array([0.5 + n / 256 for n in range(257)], np.float32)]
    found, expected = (sampling.filtered(one, lens, at, None, None)[:, 3] for one in (encoded, plain))
    assert found.tolist() == expected.tolist()
    assert found[141] == (30789 * 257 + 128) // 256 / 65535  # 36 * 115 + 189 * 141


def test_the_fourth_channel_of_srgb_at_a_border_and_gathered():
    lens = Sampler(filter="linear", address="border", border=(0, 0, 0, 1))
    image = Texture(array=np.full((2, 2, 4), 51, np.uint8), channels=True, as_float=True, srgb=True, sampler=lens)
    at = [np.array([0.5, 10], np.float32)] * 2
    assert sampling.filtered(image, lens, at, None, None)[:, 3].tolist() == [51 / 255, 1]
    assert sampling.gathered(image, lens, at, None, 3, [])[:, 0].tolist() == [51 / 255, 1]


def test_filtered_halves():
    """They are added in the unit of the largest with a share in the result, which has 14 bits after its first (as an H100 does)."""
    lens = Sampler(filter="linear")
    cases = [
        ([-0.0027599334716796875, 34.46875], 5, 0.67138671875),
        ([0.00742340087890625, -19.421875], 3, -0.2208251953125),
        ([0.287841796875, 14.75], 150, 8.7578125),
    ]
    for texels, share, expected in cases:
        assert sampled(Texture(array=np.array(texels, np.float16), sampler=lens), "1d", [0.5 + share / 256]) == [expected]
        assert sampled(Texture(array=np.array(texels, np.float16), sampler=lens), "1d", [0.5]) == [texels[0]]


def test_coordinates_are_clamped_before_they_are_weighed():
    volume = Texture(array=np.random.default_rng(1).random((4, 4, 4), np.float32), sampler=Sampler(filter="linear"))
    inside, outside = ([0.5] * 64, [-1 + i / 64 for i in range(64)])
    y, z = [1 + i / 64 for i in range(64)], [2 + i / 77 for i in range(64)]
    assert sampled(volume, "3d", outside, y, z, z) == sampled(volume, "3d", inside, y, z, z)


def test_integer_coordinates_of_a_line():
    """They read linear memory, and zeros of an array."""
    for in_array, expected in ((False, [10, 40]), (True, [0, 0])):
        lanes = lanes_for(2)
        c = (np.array([0, 3], np.uint32),)
        handle = handle_of(lanes.memory, Texture(array=LINE, in_array=in_array))
        text = "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}]"
        assert execute(text, lanes, {"t": np.uint64(handle), "c": c})[0].tolist() == expected


def test_integer_coordinates_outside():
    image = Texture(array=LINE)
    for level, expected in (("", [0, 10, 0]), (".level", [10, 10, 40])):
        more = {"lod": np.int32(0)} if level else {}
        text = f"tex{level}.1d.v4.f32.s32 {{%f1, %f2, %f3, %f4}}, [%rd1, {{%r1}}]{', %r2' if level else ''}"
        lanes = lanes_for(3)
        c = (np.array([-1, 0, 4], np.int32).view(np.uint32),)
        found = execute(text, lanes, {"t": np.uint64(handle_of(lanes.memory, image)), "c": c, **more})
        assert found[0].tolist() == expected
