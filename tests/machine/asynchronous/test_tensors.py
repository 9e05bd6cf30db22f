"""Tensor copies against a slow reference, one element after another, and the swizzles against the tables of the manual."""

from __future__ import annotations

import numpy as np
import pytest
from executing import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in import Lanes, Stopped, all_lanes

from ptxkit.machine.asynchronous import Agents, tensors
from ptxkit.machine.asynchronous.swizzling import pieces, swizzled
from ptxkit.machine.asynchronous.tensor_maps import TensorMap
from ptxkit.machine.memory import Memory

M = np.uint64(0)
TO = 1024


def prepared(tensor: np.ndarray, *, shared: int = 96 * 1024) -> tuple[Memory, Lanes, int]:
    memory = Memory()
    memory.begin(ctas=1, threads=1, shared=shared, fill=0x55)
    address = memory.allocate(tensor.nbytes)
    memory.write(address, tensor)
    lanes = all_lanes(memory)
    lanes.state["agents"] = lanes.agents = Agents(memory, "late")
    execute("mbarrier.init.shared.b64 [%r1], 1", lanes, M, np.uint32(1))
    return memory, lanes, address


def placed(memory: Memory, raw: bytes) -> np.uint64:
    address = memory.allocate(128)
    memory.write(address, raw)
    return np.uint64(address)


def words(values: list[int]) -> tuple[np.uint32, ...]:
    return tuple(np.uint32(v & 0xFFFFFFFF) for v in values)


def loaded(
    memory: Memory, lanes: Lanes, raw: bytes, coordinates: list[int], size: int, mode: str = "", offsets: list[int] | None = None
) -> bytes:
    """What a load of a tile leaves in shared memory, after the phase that counts its bytes."""
    rank = 2 if "gather4" in mode else len(coordinates)
    registers = ", ".join(f"%r{i + 2}" for i in range(len(coordinates)))
    instruction = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%r1], [%rd1, {{{registers}}}], [%r20]"
    )
    values = {"d": np.uint64(TO), "map": placed(memory, raw), "c": words(coordinates), "mbar": M}
    if offsets is not None:
        instruction += ", {" + ", ".join(f"%h{i + 1}" for i in range(len(offsets))) + "}"
        values["offsets"] = tuple(np.uint16(o) for o in offsets)
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", lanes, M, np.uint32(size), None)
    execute(instruction, lanes, values)
    assert (memory.shared.data[TO : TO + size] == 0x55).all(), "it came before the wait"
    assert np.all(execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0", lanes, M, np.uint32(0), None))
    return memory.shared.data[TO : TO + size].tobytes()


@st.composite
def boxes(draw):
    rank = draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(["u1", "u2", "u4", "u8"])))
    per_line = 16 // dtype.itemsize
    shape = [draw(st.integers(1, 7)) for _ in range(rank - 1)] + [per_line * draw(st.integers(1, 4))]
    box = [draw(st.integers(1, 5)) for _ in range(rank - 1)] + [per_line * draw(st.integers(1, 3))]
    steps = [draw(st.integers(1, 3)) for _ in range(rank - 1)] + [1]
    start = [draw(st.integers(-6, 9)) for _ in range(rank)]
    return dtype, tuple(shape), tuple(box), tuple(steps), start


@settings(max_examples=80, deadline=None)
@given(boxes(), st.sampled_from(["none", "32B", "64B", "128B"]))
def test_a_tile_is_what_its_elements_are(drawn, swizzle):
    dtype, shape, box, steps, start = drawn
    if swizzle != "none" and box[-1] * dtype.itemsize > int(swizzle[:-1]):
        swizzle = "none"
    tensor = np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)
    memory, lanes, address = prepared(tensor)
    made = TensorMap(tensor=tensor, box=box, element_strides=steps, swizzle=swizzle).encoded(address)
    extents = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    expected = np.zeros(extents, dtype)
    for k in np.ndindex(*extents):
        at = tuple(c + i * s for c, i, s in zip(start, k, steps, strict=True))
        if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
            expected[k] = tensor[at]
    loaded(memory, lanes, made, start[::-1], expected.nbytes)
    found = memory.shared.data[swizzled(TO + np.arange(expected.nbytes), swizzle)].view(dtype)
    assert found.tolist() == expected.reshape(-1).tolist()


@settings(max_examples=40, deadline=None)
@given(boxes(), st.sampled_from(["", "add"]))
def test_a_tile_that_is_stored_changes_the_elements_within(drawn, reduction):
    _, shape, box, steps, start = drawn
    dtype = np.dtype(np.uint32)
    box = (*box[:-1], -(-box[-1] // 4) * 4)
    shape = (*shape[:-1], -(-shape[-1] // 4) * 4)
    if box[-1] > 64:
        return
    tensor = np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)
    memory, lanes, address = prepared(tensor)
    raw = TensorMap(tensor=tensor, box=box, element_strides=steps).encoded(address)
    extents = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    data = np.arange(1000, 1000 + np.prod(extents)).astype(dtype)
    memory.shared.data[TO : TO + data.nbytes] = data.view(np.uint8)
    expected = tensor.copy()
    for k, value in zip(np.ndindex(*extents), data.tolist(), strict=True):
        at = tuple(c + i * s for c, i, s in zip(start, k, steps, strict=True))
        if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
            expected[at] = expected[at] + value if reduction else value
    registers = ", ".join(f"%r{i + 2}" for i in range(len(start)))
    name = (
        f"cp.reduce.async.bulk.tensor.{len(start)}d.global.shared::cta.add"
        if reduction
        else f"cp.async.bulk.tensor.{len(start)}d.global.shared::cta"
    )
    values = {"map": placed(memory, raw), "c": words(start[::-1]), "s": np.uint64(TO)}
    execute(f"{name}.bulk_group [%rd1, {{{registers}}}], [%r1]", lanes, values)
    execute("cp.async.bulk.commit_group", lanes)
    execute("cp.async.bulk.wait_group 0", lanes, 0, n=0)
    assert np.frombuffer(memory.read(address, tensor.nbytes), dtype).tolist() == expected.reshape(-1).tolist()


@pytest.mark.parametrize(("type", "size", "apart"), [(".b4x16", 8, 8), (".b4x16_p64", 8, 16), (".b6x16_p32", 12, 16)])
@pytest.mark.parametrize("start", [[0, 0], [128, -1], [-16, 3]])
def test_packed_elements_are_copied_sixteen_at_once(type, size, apart, start):
    """Three rows of 16 groups, a box of 8 groups in two rows; what is outside is zero, and what is free between groups."""
    rows = np.random.default_rng(3).integers(1, 256, (3, 16, size), dtype=np.uint8)
    memory, lanes, address = prepared(rows)
    made = TensorMap(tensor=address, shape=(3, 256), strides=(16 * size, 0), box=(2, 128), type=type).encoded(address)
    expected = np.zeros((2, 8, apart), np.uint8)
    for row in range(2):
        for group in range(8):
            y, x = start[1] + row, start[0] // 16 + group
            if 0 <= y < 3 and 0 <= x < 16:
                expected[row, group, :size] = rows[y, x]
    loaded(memory, lanes, made, start, 16 * size)
    assert (memory.shared.data[TO : TO + expected.size].reshape(expected.shape) == expected).all()
    memory.write(address, np.zeros_like(rows))
    values = {"map": placed(memory, made), "c": words(start), "s": np.uint64(TO)}
    execute("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1]", lanes, values)
    execute("cp.async.bulk.commit_group", lanes)
    execute("cp.async.bulk.wait_group 0", lanes, 0, n=0)
    back = memory.view(address, rows.nbytes).reshape(rows.shape)
    inside = back.any(-1)
    assert (back[inside] == rows[inside]).all()
    assert inside.sum() == expected.any(-1).sum()


def test_packed_elements_begin_at_a_group():
    memory, lanes, address = prepared(np.zeros((3, 128), np.uint8))
    made = TensorMap(tensor=address, shape=(3, 256), strides=(128, 0), box=(2, 128), type=".b4x16").encoded(address)
    with pytest.raises(Stopped, match="8, is not a multiple of 16"):
        loaded(memory, lanes, made, [8, 0], 128)
    with pytest.raises(ValueError, match=r"box of \.b4x16 must be a multiple of 16"):
        TensorMap(tensor=address, shape=(3, 256), strides=(128, 0), box=(2, 40), type=".b4x16")


def columns(tensor, lower, upper, steps, pixels, channels, coordinates, offsets):
    """Pixels one after another, as 5.5.4 describes them: the base goes through the box, what is read lies the offsets away."""
    sizes = tensor.shape[1:-1][::-1]
    first, *base, image = coordinates
    out = np.zeros((pixels, channels), tensor.dtype)
    at = list(base)
    for pixel in range(pixels):
        place = [a + o for a, o in zip(at, offsets, strict=True)]
        for c in range(channels):
            index = (image, *place[::-1], first + c)
            if all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True)):
                out[pixel, c] = tensor[index]
        for i in range(len(at)):
            at[i] += steps[i]
            if at[i] <= sizes[i] - 1 + upper[i]:
                break
            at[i] = lower[i]
        else:
            image += 1
    return out


@pytest.mark.parametrize(
    ("lower", "upper", "steps", "shape", "pixels", "channels", "coordinates", "offsets"),
    [
        ((-1, -1), (-1, -1), (1, 1), (3, 14, 9, 64), 64, 8, (7, 7, 4, 0), (0, 0)),
        ((0, 0), (-2, -2), (1, 1), (3, 14, 9, 64), 64, 8, (7, 6, 4, 0), (2, 2)),
        ((-1, -1), (-1, -1), (2, 2), (3, 14, 8, 64), 32, 16, (8, 6, 5, 0), (1, 1)),
        ((-1,), (0,), (1,), (2, 10, 16), 25, 16, (0, -1, 0), (1,)),
        ((-1, 0, -1), (-1, 0, -1), (1, 1, 1), (2, 3, 4, 5, 16), 100, 8, (8, 0, 0, 0, 0), (2, 0, 1)),
    ],
)
def test_columns_of_an_image(lower, upper, steps, shape, pixels, channels, coordinates, offsets):
    tensor = np.arange(1, 1 + np.prod(shape), dtype=np.uint64).astype(np.uint16).reshape(shape)
    memory, lanes, address = prepared(tensor)
    raw = TensorMap(
        tensor=tensor, box=(pixels, channels), mode="im2col", lower=lower[::-1], upper=upper[::-1], element_strides=(1, *steps[::-1], 1)
    ).encoded(address)
    expected = columns(tensor, lower, upper, steps, pixels, channels, coordinates, offsets)
    found = loaded(memory, lanes, raw, list(coordinates), expected.nbytes, ".im2col", list(offsets))
    assert np.frombuffer(found, np.uint16).tolist() == expected.reshape(-1).tolist()


def test_four_rows_are_gathered():
    tensor = np.arange(12 * 16, dtype=np.uint32).reshape(12, 16)
    memory, lanes, address = prepared(tensor)
    raw = TensorMap(tensor=tensor, box=(1, 8)).encoded(address)
    found = np.frombuffer(loaded(memory, lanes, raw, [4, 7, 2, 11, 15], 128, ".tile::gather4"), np.uint32).reshape(4, 8)
    assert found[:3].tolist() == [tensor[r, 4:12].tolist() for r in (7, 2, 11)]
    assert not found[3].any()


ROWS = {
    "32B": [range(8), (1, 0, 3, 2, 5, 4, 7, 6)],
    "64B": [range(8), (1, 0, 3, 2, 5, 4, 7, 6), (2, 3, 0, 1, 6, 7, 4, 5), (3, 2, 1, 0, 7, 6, 5, 4)],
    "128B": [[c ^ r for c in range(8)] for r in range(8)],
}


@pytest.mark.parametrize("swizzle", list(ROWS))
def test_swizzles_are_the_tables_of_the_manual(swizzle):
    for row, expected in enumerate(ROWS[swizzle]):
        at = row * 128 + np.arange(8) * 16
        assert ((swizzled(at, swizzle) - row * 128) // 16).tolist() == list(expected)


@given(st.integers(0, 1 << 18), st.sampled_from([("32B", "16B"), ("64B", "16B"), ("128B", "16B"), ("128B", "32B"), ("128B", "64B")]))
def test_a_swizzle_is_its_own_reverse(at, kind):
    assert swizzled(swizzled(at, *kind), *kind) == at
    assert swizzled(at, *kind) // 128 == at // 128


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"box": (8, 5)}, "multiple of 16 bytes"),
        ({"box": (8, 300)}, "between 1 and 256"),
        ({"box": (8,)}, "need a box of 2"),
        ({"box": (8, 64), "swizzle": "128B"}, "must not exceed"),
        ({"box": (8, 8), "strides": (20, 4)}, "multiples of 16"),
        ({"box": (8, 8), "swizzle": "12B"}, "swizzle must be one of"),
        ({"box": (8, 8), "type": ".f19"}, "element type"),
        ({"box": (8, 8), "mode": "im2col"}, "at least 3 dimensions"),
    ],
)
def test_maps_that_the_driver_would_refuse(arguments, said):
    with pytest.raises(ValueError, match=said):
        TensorMap(tensor=np.zeros((16, 64), np.float32), **arguments)


@pytest.mark.parametrize(
    ("rank", "raw", "said"),
    [
        (3, None, "2 dimensions in an instruction for 3"),
        (1, bytes(128), "a side of its box is 0"),
        (2, b"\xcb" * 128, "no such tensor map"),
    ],
)
def test_what_is_no_map_for_an_instruction(rank, raw, said):
    tensor = np.zeros((16, 64), np.float32)
    memory, lanes, address = prepared(tensor)
    raw = raw or TensorMap(tensor=tensor, box=(8, 8)).encoded(address)
    with pytest.raises(Stopped, match=said):
        loaded(memory, lanes, raw, [0] * rank, 256)


def test_a_tensor_that_is_not_allocated():
    tensor = np.zeros((16, 64), np.float32)
    memory, lanes, address = prepared(tensor)
    raw = TensorMap(tensor=tensor, box=(8, 8), shape=(17, 64)).encoded(address)
    with pytest.raises(Stopped, match="not all allocated"):
        loaded(memory, lanes, raw, [0, 9], 256)


def test_fields_are_replaced_and_the_map_is_copied():
    tensor = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    memory, lanes, address = prepared(tensor)
    memory.shared.data[512:640] = 0
    for field, type, value in (
        ("global_address", "b64", np.uint64(address)),
        ("rank", "b32", np.uint32(1)),
    ):
        register = "%rd2" if type == "b64" else "%r2"
        execute(f"tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%r1], {register}", lanes, np.uint64(512), value)
    for field, type, values in (
        ("box_dim", "b32", [8, 2]), ("global_dim", "b32", [64, 16]), ("element_stride", "b32", [1, 1]), ("global_stride", "b64", [256]),
    ):  # fmt: skip
        for i, value in enumerate(values):
            register = "%rd2" if type == "b64" else "%r2"
            given = np.uint64(value) if type == "b64" else np.uint32(value)
            execute(
                f"tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%r1], {i}, {register}", lanes, np.uint64(512), i, given, ord=i
            )
    execute("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 7", lanes, np.uint64(512), np.uint32(7), v=7)
    target = memory.allocate(128)
    execute(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128",
        lanes, np.uint64(target), np.uint64(512), 128,
    )  # fmt: skip
    assert memory.read(target, 128) == TensorMap(tensor=tensor, box=(2, 8)).encoded(address)
    found = np.frombuffer(loaded(memory, lanes, memory.read(target, 128), [8, 3], 64), np.float32)
    assert found.tolist() == tensor[3:5, 8:16].reshape(-1).tolist()


@pytest.mark.parametrize(
    ("type", "value", "expected"), [(".tf32", 0x3F801001, 0x3F802000), (".tf32.ftz", 0x787000, 0x788000), (".f32.ftz", 1, 1)]
)
def test_elements_are_converted(type, value, expected):
    """As an H200 does: it rounds to `.tf32`, and leaves subnormal numbers as they are."""
    tensor = np.full(4, value, np.uint32)
    memory, lanes, address = prepared(tensor)
    raw = TensorMap(tensor=tensor, box=(4,), type=type).encoded(address)
    assert np.frombuffer(loaded(memory, lanes, raw, [0], 16), np.uint32).tolist() == [expected] * 4


def test_nans_of_copies():
    """Outside of the tensor every 16 bits are the same NaN; a NaN within a tensor of `.tf32` is one value."""
    source = np.array([0x7FC00001, 0xFFC00000, 0x7F800000, 0x3F801000], np.uint32)
    assert tensors.converted(source, ".tf32").tolist() == [0x7FFFE000, 0x7FFFE000, 0x7F800000, 0x3F800000]


@pytest.mark.parametrize(("interleave", "swizzle"), [("16B", "none"), ("32B", "32B")])
def test_interleaved_tensor(interleave, swizzle):
    """A box has one slice, along the dimension before the last: of each of its points 16 or 32 bytes of channels."""
    channels = int(interleave[:-1]) // 4
    pictures = np.arange(3 * 2 * 5 * 8 * channels, dtype=np.uint32).reshape(3, 2, 5, 8, channels)  # number, slice, y, x, channels
    memory, lanes, address = prepared(pictures)
    strides = (*pictures.strides[:3], 4)
    shape = {"shape": (3, 2, 5, 8), "strides": strides, "type": ".u32", "interleave": interleave, "swizzle": swizzle}
    raw = TensorMap(tensor=pictures, box=(2, 2, 3, 4), **shape).encoded(address)
    found = np.frombuffer(loaded(memory, lanes, raw, [6, 1, 1, 0], 2 * 3 * 4 * 4 * channels), np.uint32)
    expected = np.zeros((2, 3, 4, channels), np.uint32)
    expected[:, :, :2] = pictures[:2, 1, 1:4, 6:]
    places = pieces(0, found.nbytes, swizzle)
    assert found.reshape(-1, 4)[places].tolist() == expected.reshape(-1, 4).tolist()


def test_interleaved_boxes_of_a_column():
    """The innermost side of a box is a multiple of 16 bytes, as if its points were elements (the driver refuses any other)."""
    with pytest.raises(ValueError, match="multiple of 16 bytes, and has 8"):
        TensorMap(tensor=0, shape=(5, 6, 64), strides=(8192, 1024, 1), box=(2, 3, 8), type=".u8", interleave="16B")
