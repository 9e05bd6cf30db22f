"""Example launches: what parameters are used for, shapes, launch files."""

from __future__ import annotations

import math

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs import toml
from ptxkit.analyses.inputs.arguments import FEW, Sizes
from ptxkit.analyses.inputs.begins import begins_of_planes
from ptxkit.analyses.inputs.boxes import box_of, split
from ptxkit.analyses.inputs.cost import IN_FLIGHT, OPERATIONS, OPERATIONS_AN_INSTRUCTION, most_operations
from ptxkit.analyses.inputs.example import Array, Number, Structure, memory_of
from ptxkit.analyses.inputs.fitting import is_guessed
from ptxkit.analyses.inputs.launches import divides, example
from ptxkit.analyses.inputs.parameters import MANY, SEVERAL, Role, are_many, belong_together, parameters
from ptxkit.analyses.inputs.shapes import declares_block, distinguishes_ctas, fewest, is_for_several_ctas, shapes
from ptxkit.rewriters.profiling.description import parse

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>; .reg .f32 %f<4>;\n"


def kernel(body: str, parameters_: str = ".param .u64 p", directives: str = "", target: str = "sm_80") -> Routine:
    text = f"{HEADER.replace('sm_80', target)}.visible .entry k({parameters_}) {directives}\n{{\n{REGISTERS}{body}\nret;\n}}\n"
    return next(one for one in routines(ptxkit.parse(text)) if one.name == "k")


ELEMENT = "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;"
NUMBER = """ld.param.u64 %rd1, [p]; mov.u32 %r4, %tid.z; mov.u32 %r5, %ntid.y; mov.u32 %r6, %tid.y; mov.u32 %r7, %ntid.x;
mov.u32 %r8, %tid.x; mad.lo.s32 %r9, %r5, %r4, %r6; mad.lo.s32 %r1, %r9, %r7, %r8;"""
SHARED = """.shared .align 4 .b8 s[256];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;"""
LOOP = """
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [ld]; ld.param.u32 %r9, [k];
mov.u32 %r3, %tid.x; setp.ge.u32 %p1, %r3, %r1; @%p1 ret;
mul.lo.u32 %r4, %r3, %r2; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
mov.u32 %r5, 0;
shr.u32 %r8, %r9, 5;
L:
ld.global.f32 %f1, [%rd3]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd3], %f1; add.s64 %rd3, %rd3, 4;
add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r8; @%p2 bra L;
"""


def test_parameters_are_what_they_are_used_for() -> None:
    found = parameters(kernel(LOOP, ".param .u64 p, .param .u32 n, .param .u32 ld, .param .u32 k"))

    roles = {one.name: one.slots[0].role for one in found}
    assert roles == {"p": Role.POINTER, "n": Role.NUMBER, "ld": Role.STRIDE, "k": Role.COUNT}
    assert found[0].slots[0].type == ".f32"


def test_a_count_makes_as_many_iterations_as_are_asked_for() -> None:
    routine = kernel(LOOP, ".param .u64 p, .param .u32 n, .param .u32 ld, .param .u32 k")
    made = dict(example(routine, shapes(routine)[0], Sizes(counts=3)).arguments)

    assert made["k"] == Number(".u32", 96)  # 32 make an iteration


def test_a_pointer_in_a_structure() -> None:
    body = f"ld.param.u64 %rd1, [p+8]; mov.u32 %r1, %tid.x; {ELEMENT}"
    routine = kernel(body, ".param .align 8 .b8 p[16]")
    made = example(routine, shapes(routine)[0]).arguments[0][1]

    assert isinstance(made, Structure)
    assert [at for at, part in made.parts if isinstance(part, Array)] == [8]


@pytest.mark.parametrize(("differ", "count"), [(False, 1), (True, 2)])
def test_the_strides_of_a_structure(differ: bool, count: int) -> None:
    body = f"""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r5, %tid.y; ld.param.u32 %r3, [p+8]; ld.param.u32 %r4, [p+12];
mul.lo.u32 %r6, %r1, %r3; mul.lo.u32 %r7, %r5, %r4; add.u32 %r1, %r6, %r7; {ELEMENT}"""
    routine = kernel(body, ".param .align 8 .b8 p[16]")
    made = example(routine, shapes(routine)[0], Sizes(differ=differ)).arguments[0][1]

    assert isinstance(made, Structure)
    assert len({part for at, part in made.parts if at >= 8}) == count


PLANE = """.shared .align 4 .b8 s[64]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;
shl.b32 %r4, %r2, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r1;"""


UNROLLED = """.shared .align 4 .b8 t[1024]; ld.param.u32 %r2, [p]; mov.u32 %r1, %tid.x; mov.u32 %r4, t; mov.u32 %r3, %r1;
setp.eq.u32 %p1, %r2, 1; @%p1 bra START; add.u32 %r3, %r1, 32; START: mad.lo.u32 %r4, %r3, 4, %r4;
LOOP: st.shared.u32 [%r4], %r1; st.shared.u32 [%r4+128], %r1; add.u32 %r4, %r4, 256; add.u32 %r3, %r3, 64;
setp.lt.u32 %p1, %r3, 256; @%p1 bra LOOP;"""

ROWS = f"""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; add.u32 %r1, %r1, %r2; mov.u32 %r3, {{length}};
add.u32 %r4, %r3, 7; div.u32 %r4, %r4, %r3; setp.eq.u32 %p1, %r4, 3; @%p1 ret; {ELEMENT}"""
"""The threads along y share out eight rows if `length` is how many they are."""

HALO = f"""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
mad.lo.u32 %r1, %r3, 12, %r1; mad.lo.u32 %r2, %r4, 12, %r2; mad.lo.u32 %r1, %r2, 96, %r1; {ELEMENT}"""
"""Parts of 12 x 12 elements."""


@pytest.mark.parametrize(
    ("body", "directives", "block"),
    [
        ("mov.u32 %r1, %tid.x;", ".reqntid 96", (96, 1, 1)),
        (f"ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.y; {ELEMENT}", "", (1, 128, 1)),
        (SHARED, "", (64, 1, 1)),
        ("bar.sync 0;", "", (64, 1, 1)),
        ("mov.u32 %r1, 1;", "", (1, 1, 1)),
        (f"{NUMBER} {ELEMENT}", ".maxntid 128", (128, 1, 1)),
        (PLANE, "", (4, 4, 1)),
        (f"{PLANE} setp.eq.u32 %p1, %r1, 7; @%p1 ret;", "", (16, 16, 1)),
        (f"{PLANE} setp.lt.u32 %p1, %r1, 64; @%p1 ret;", "", (64, 4, 1)),
        (UNROLLED, "", (32, 1, 1)),
        (ROWS.format(length="%ctaid.y"), "", (16, 16, 1)),
        (ROWS.format(length="%ntid.y"), "", (32, 8, 1)),
        (HALO, "", (16, 16, 1)),
    ],
    ids=[
        "directive", "along y", "shared array", "barrier", "nobody asks", "number of a thread", "plane",
        "a column", "columns", "stride", "other rounds", "rounds", "halo",
    ],
)  # fmt: skip
def test_blocks(body: str, directives: str, block: tuple[int, int, int]) -> None:
    assert shapes(kernel(body, directives=directives))[0].block == block


PART = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, {part}, %r1; "


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (PART.format(part=32) + ELEMENT, 32),
        (PART.format(part=512) + ELEMENT, 128),
        (PART.format(part=4) + ELEMENT, 128),
        (PART.format(part=32) + "mov.u32 %r3, %ntid.x; " + ELEMENT, 128),
        ("mov.u32 %r4, %tid.x; setp.ge.u32 %p1, %r4, 64; @%p1 ret; " + PART.format(part=64) + ELEMENT, 128),
        (PART.format(part=112) + ELEMENT, 128),
    ],
    ids=["a warp's", "of a larger block", "less than a warp's", "asks for its size", "some threads have one", "has a halo"],
)
def test_a_block_does_not_do_the_work_of_the_next(body: str, length: int) -> None:
    assert shapes(kernel(body))[0].block == (length, 1, 1)


def test_a_cluster_is_what_the_directive_says() -> None:
    shape = shapes(kernel("mov.u32 %r1, %cluster_ctarank;", directives=".reqnctapercluster 4, 1, 1", target="sm_90"))[0]

    assert shape.cluster == (4, 1, 1)
    assert shape.grid[0] % 4 == 0


@pytest.mark.parametrize(("rank", "ctas"), [("%ctaid.x", 4), ("%cluster_ctarank", 2)])
def test_two_clusters_if_the_index_in_the_grid_is_taken_for_the_rank(rank: str, ctas: int) -> None:
    body = f"mov.u32 %r1, {rank}; xor.b32 %r1, %r1, 1; mov.u32 %r2, s; mapa.shared::cluster.u32 %r2, %r2, %r1;"
    shape = shapes(kernel(f".shared .b32 s; {body}", directives=".reqnctapercluster 2, 1, 1", target="sm_90"))[0]

    assert (shape.grid, shape.cluster) == ((ctas, 1, 1), (2, 1, 1))


@pytest.mark.parametrize(("elements", "rank", "box"), [(2048, 2, (32, 64)), (512, 1, (256,)), (8192, 3, (1, 128, 64)), (48, 2, (3, 16))])
def test_boxes(elements: int, rank: int, box: tuple[int, ...]) -> None:
    assert split(elements, rank) == box


RING = """.shared .align 1024 .b8 s[24592]; .reg .pred %q; mov.u32 %r1, s; mov.u32 %r2, 0;
mov.b64 %rd1, a; mov.b64 %rd2, b;
L: and.b32 %r3, %r2, 1; shl.b32 %r4, %r3, 13; shl.b32 %r5, %r3, 12; add.u32 %r6, %r1, %r4; add.u32 %r7, %r1, %r5;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+24576], 12288;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1, {%r2, %r2}], [%r1+24576];
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7+16384], [%rd2, {%r2, %r2}], [%r1+24576];
add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 8; @%q bra L;"""


def test_boxes_have_the_room_of_a_stage() -> None:
    maps = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"
    routine = kernel(RING, maps, target="sm_90")

    sizes = [math.prod(box_of(routine, (name, 0, 0), 2)[1]) * 2 for name in ("a", "b")]
    assert sizes == [8192, 4096]
    assert not is_guessed(routine)


def test_that_boxes_fit_says_little_where_many_numbers_are_made_up() -> None:
    maps = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"
    numbers = "".join([f", .param .u32 n{i}" for i in range(MANY)])
    loads = "".join([f"ld.param.u32 %r8, [n{i}]; setp.lt.u32 %q, %r2, %r8; @%q bra L;\n" for i in range(MANY)])
    routine = kernel(RING + loads, maps + numbers, target="sm_90")

    assert are_many(routine) and not belong_together(routine)
    assert is_guessed(routine)


@pytest.mark.parametrize(("numbers", "together"), [(SEVERAL - 1, False), (SEVERAL, True)])
def test_numbers_of_one_structure_belong_together(numbers: int, together: bool) -> None:
    loads = "".join([f"ld.param.u32 %r1, [s+{4 * i}]; setp.lt.u32 %p1, %r1, 7; @%p1 ret;\n" for i in range(numbers)])

    assert belong_together(kernel(loads, ".param .align 4 .b8 s[64]")) == together


def test_launch_file_is_read_again() -> None:
    routine = kernel(LOOP, ".param .u64 p, .param .u32 n, .param .u32 ld, .param .u32 k")
    launch = parse(toml.text([example(routine, shapes(routine)[0])]))[0]

    assert launch.kernel == "k"
    assert launch.mismatch([8, 4, 4, 4]) is None
    assert launch.arguments[3].value == FEW * 32  # type: ignore[union-attr]


def test_structures_keep_their_arrays_in_a_launch_file() -> None:
    routine = kernel("ld.param.u64 %rd1, [p+8]; ld.global.u32 %r1, [%rd1];", ".param .align 8 .b8 p[16]")
    launch = parse(toml.text([example(routine, shapes(routine)[0])]))[0]

    assert launch.arguments[0].parts[0][0] == 8  # type: ignore[union-attr]


INDEX = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;"


@pytest.mark.parametrize(
    ("body", "directives", "threads"),
    [
        ("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;", "", 1),
        (f"{INDEX} {ELEMENT}", "", 32),
        (f"{INDEX} shr.u32 %r2, %r1, 5; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2; {ELEMENT}", "", 64),
        (f"{INDEX} setp.gt.u32 %p1, %r1, 99; @%p1 bra L; {ELEMENT} L:", "", 101),
        (f"{INDEX} shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 2; @%p1 bra L; {ELEMENT} L:", "", 65),
        (f"{INDEX} mov.u32 %r2, %ntid.x; mad.lo.u32 %r1, %r2, %r1, %r1; {ELEMENT}", "", 64),
        (f"{INDEX} bar.sync 0; {ELEMENT}", "", 64),
        (f"{INDEX} {ELEMENT}", ".reqntid 8, 4", 32),
    ],
)
def test_the_fewest_threads_that_a_kernel_is_for(body: str, directives: str, threads: int) -> None:
    assert fewest(kernel(body, directives=directives)) == threads


@pytest.mark.parametrize(
    ("part", "is_certain"), [(128, True), (256, False), (64, False)], ids=["one element for each thread", "several", "fewer than threads"]
)
def test_elements_of_a_cta_say_that_the_block_is_as_long_as_it_may_be(part: int, is_certain: bool) -> None:
    blocks = [one.block for one in shapes(kernel(f"{PART.format(part=part)} {ELEMENT}", directives=".maxntid 128"))]

    assert blocks[0] == (128, 1, 1)
    assert (len(blocks) == 1) == is_certain


def test_a_block_that_the_kernel_says() -> None:
    assert declares_block(kernel(INDEX + ELEMENT, directives=".maxntid 96"), (96, 1, 1))
    assert not declares_block(kernel(INDEX + ELEMENT, directives=".maxntid 96"), (64, 1, 1))
    assert not declares_block(kernel(INDEX + ELEMENT, directives=".maxntid 1024"), (1024, 1, 1))


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 3; @%p1 bra L; st.global.u32 [%rd1], %r1; L:", (4, 1, 1)),
        ("mov.u32 %r2, %ctaid.x; setp.gt.u32 %p1, %r2, 1; @%p1 bra L; st.global.u32 [%rd1], %r1; L:", (3, 1, 1)),
        ("mov.u32 %r2, %ctaid.x; st.global.u32 [%rd1], %r2;", (1, 1, 1)),
        (
            "atom.global.add.u32 %r2, [%rd1], 1; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3+64], %r2;",
            (2, 1, 1),
        ),
    ],
)
def test_as_many_ctas_as_are_depended_on(body: str, grid: tuple[int, int, int]) -> None:
    assert shapes(kernel(f"{INDEX} {body}"))[0].grid == grid


def test_ctas_by_what_a_kernel_does_with_their_index() -> None:
    stored = kernel(f"{INDEX} mov.u32 %r2, %ctaid.x; st.global.u32 [%rd1], %r2;")
    placed = kernel("ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; " + ELEMENT)

    assert not distinguishes_ctas(stored)
    assert not is_for_several_ctas(stored)
    assert distinguishes_ctas(placed)
    assert is_for_several_ctas(placed)


def test_what_something_is_divided_by_can_be_one() -> None:
    body = f"{INDEX} ld.param.u32 %r3, [n]; div.u32 %r1, %r1, %r3; {ELEMENT}"
    routine = kernel(body, ".param .u64 p, .param .u32 n")
    one = dict(example(routine, shapes(routine)[0], Sizes(units=True)).arguments)["n"]

    assert divides(routine)
    assert isinstance(one, Number)
    assert one.value == 1


def test_the_memory_of_arguments() -> None:
    array = Array(".u32", 1 << 20)

    assert 1 << 22 <= memory_of(array) <= (1 << 22) + (1 << 16)
    assert memory_of(Array(".b64", 1, leads_to=array)) > memory_of(array)
    assert memory_of(Structure(16, ((8, array),))) == memory_of(array)
    assert memory_of(Number(".u32", 3)) == 0


def test_a_longer_kernel_may_cost_more() -> None:
    routine = kernel("mov.u32 %r1, 1; mov.u32 %r2, 2;")

    assert most_operations(routine) == OPERATIONS + 3 * OPERATIONS_AN_INSTRUCTION
    in_flight = kernel("cp.async.commit_group; mov.u32 %r2, 2;")
    assert most_operations(in_flight) == OPERATIONS + 3 * OPERATIONS_AN_INSTRUCTION * IN_FLIGHT


def test_who_goes_on_by_a_warp_is_one() -> None:
    body = """.shared .align 4 .b8 s[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; setp.gt.u32 %p1, %r1, 255; @%p1 bra END;
L: st.shared.u32 [%r2], %r1; add.u32 %r2, %r2, 128; add.u32 %r1, %r1, 32; setp.lt.u32 %p2, %r1, 256; @%p2 bra L; END:"""
    found = kernel(body)

    assert fewest(found) == 32
    assert shapes(found)[0].block == (32, 1, 1)


@pytest.mark.parametrize("step", ["add.u32 %r3, %r3, 1;", "@%p2 add.u32 %r3, %r3, 1;"])
def test_a_range_starts_at_nought(step: str) -> None:
    # as many iterations as from `n` to `m`, if any: with numbers that are alike none
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [n]; ld.param.u32 %r2, [m];
setp.ge.u32 %p1, %r3, %r2; @%p1 bra END; L: ld.global.u32 %r5, [%rd1]; setp.ne.u32 %p2, %r5, 7; {step}
setp.lt.u32 %p1, %r3, %r2; @%p1 bra L; END:"""
    routine = kernel(body, ".param .u64 p, .param .u32 n, .param .u32 m")

    numbers = [argument.value for _, argument in example(routine, shapes(routine)[0]).arguments if isinstance(argument, Number)]
    assert numbers == [0, FEW]


@pytest.mark.parametrize(
    ("index", "is_offset"),
    [
        ("add.u32 %r1, %r3, %r2;", True),
        ("mul.lo.u32 %r1, %r3, %r2;", False),
        ("sub.u32 %r1, %r2, %r3; mad.lo.u32 %r1, %r1, %r2, %r3;", False),
        ("setp.ge.u32 %p1, %r3, %r2; @%p1 ret; add.u32 %r1, %r3, %r2;", False),
        ("shl.b32 %r4, %r2, 1; add.u32 %r1, %r3, %r4;", False),
    ],
)
def test_what_is_only_added_to_an_index_says_where_a_plane_begins(index: str, is_offset: bool) -> None:
    found = kernel(f"ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r3, %tid.x; {index} {ELEMENT}", ".param .u64 p, .param .u32 n")

    assert (("n", 0, 4) in begins_of_planes(found)) is is_offset


@pytest.mark.parametrize(("apart", "is_limited"), [("8", True), ("%r9", False)])
def test_no_block_is_larger_than_what_is_between_the_elements_of_two_ctas(apart: str, is_limited: bool) -> None:
    # an index of 8 * %ctaid.x + %tid.x, or of %ntid.x * %ctaid.x + %tid.x
    index = f"mov.u32 %r9, %ntid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %tid.y; mad.lo.s32 %r5, %r2, {apart}, %r3;"
    body = f"ld.param.u64 %rd1, [p]; {index} mad.lo.s32 %r1, %r4, 1024, %r5; {ELEMENT}"

    assert (max(shape.block[0] for shape in shapes(kernel(body))) == 8) is is_limited


@pytest.mark.parametrize(
    ("variable", "is_dynamic"),
    [
        ("mov.u32 %r2, 0;", True),
        (".shared .align 16 .b8 s; mov.u32 %r2, s;", True),
        (".shared .b8 s; mov.u32 %r2, s;", False),
        (".shared .align 1 .b8 s; mov.u32 %r2, s;", False),
        (".shared .align 4 .b8 s[512]; mov.u32 %r2, s;", False),
        (".shared .align 4 .u32 s; mov.u32 %r2, s;", False),
    ],
)
def test_shared_memory_without_a_length_is_dynamic(variable: str, is_dynamic: bool) -> None:
    # Halide names no variable, LLVM declares one of length zero as a byte that is aligned for what it holds: hosts pass the size
    one = kernel(f"{variable} mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 4, %r2; st.shared.u32 [%r2], %r1;")

    assert bool(example(one, shapes(one)[0]).shared) == is_dynamic


TILES = """ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, %ctaid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %tid.x;
setp.ge.u32 %p1, %r1, %r2; @%p1 ret; {first}
L: mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
add.u32 %r1, %r1, %r3; setp.lt.u32 %p1, %r1, %r2; @%p1 bra L;"""
ROLES = """ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r4, %tid.x; setp.lt.u32 %p1, %r4, 32; shr.u32 %r3, %r2, 1;
selp.u32 %r5, %r3, %r2, %p1; mov.u32 %r1, 0; L: st.global.u32 [%rd1], %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, %r5; @%p2 bra L;"""


@pytest.mark.parametrize(
    ("body", "role"),
    [
        (TILES.format(first=""), Role.COUNT),
        (TILES.format(first="mad.lo.u32 %r1, %r1, 32, %r4;"), Role.NUMBER),
        (ROLES, Role.COUNT),
        (ROLES.replace("%r1, 0;", "%r1, %r4;"), Role.NUMBER),
    ],
    ids=["tiles by CTA", "elements by thread", "a bound by role", "a bound by role, from the thread on"],
)
def test_loops_that_are_the_same_for_all_threads_of_a_cta_are_short(body: str, role: Role) -> None:
    (_, number) = parameters(kernel(body, ".param .u64 p, .param .u32 n"))

    assert [slot.role for slot in number.slots] == [role]
