"""Messages to places, and logs to messages, without a compiler."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import calls

import ptxkit
from ptxkit import Resources, Severity
from ptxkit.revalidation.locating import Locator
from ptxkit.revalidation.log import Message, messages, resources

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .func ext();\n.visible .entry k(.param .u64 p)\n{\n"


def locate(body: str, line: int, text: str) -> tuple[str, int]:
    """What a message about a line of a kernel's body (from 1) stands at, and its column."""
    module = ptxkit.parse(f"{HEAD}{body}\n}}\n")
    found = Locator(module, None).locate(Message(Severity.ERROR, text, line + 6))
    return module.text[found.span.start : found.span.end], found.span.column


@pytest.mark.parametrize(
    ("body", "line", "text", "expected"),
    [
        ("  add.u32 %r1, %r9,\n %r9;", 2, "Unknown symbol '%r9'", ("%r9", 2)),
        ("  mov.u32 %r1, 1; mov.u32 %r2, %r9;", 1, "Unknown symbol '%r9'", ("%r9", 32)),
        ("  add.u32 %r1, 1, 1; sub.u32 %r1, 1, %x;", 1, "Arguments mismatch for instruction 'sub'", ("%x", 38)),
        ("  ld.globe.u32 %r1, [p];", 1, "Unknown modifier '.globe'", (".globe", 5)),
        ("  ld.shared::cta.u32 %r1, [p];", 1, "State space incorrect for '.shared'", (".shared", 5)),
        ("  frob.u32 %r1;", 1, "Not a name of any known instruction: 'frob'", ("frob.u32", 3)),
        ("  add.rn.u32 a, b, c;", 1, "Illegal rounding modifier for instruction 'add'", (".rn", 6)),
        ("  @%p add.u32 a, b, c;", 1, "Predicate expression expected", ("%p", 4)),
        ("  wgmma.wait_group.sync.aligned 9;", 1, "Argument 0 of instruction 'wgmma.wait_group': value '9' out of range", ("9", 33)),
        (
            "  cp.async.bulk.tensor.2d.a.b [x], [y, {r0}], [z];",
            1,
            "Argument 2 of instruction 'cp.async.bulk.tensor': Argument vector size mismatch",
            ("{r0}", 40),
        ),
        ("  @%p st.u32 [%p], 1;", 1, "Illegal to use symbol '%p' of type .pred as address operand.", ("%p", 15)),
        ("  ld.shared.u32 a, [p];", 1, "State space mismatch between instruction and address in instruction 'ld'", ("[p]", 20)),
        ("  .reg .u32 a, b, a;", 1, "Duplicate definition of variable 'a'", ("a", 13)),
        ("L: L: ret;", 1, "Duplicate definition of label 'L'", ("L", 1)),
        ("  add.u32 a b, b;", 1, "Parsing error near 'b': syntax error", ("b", 13)),
        ("  bogus", 1, "Something new without any word", ("bogus", 3)),
        ("", 400, "Something on a line that is not there", ("", 1)),
    ],
)
def test_place(body: str, line: int, text: str, expected: tuple[str, int]) -> None:
    assert locate(body, line, text) == expected


def test_the_same_message_twice_is_about_two_statements() -> None:
    module = ptxkit.parse(f"{HEAD}  add.u32 a, b; add.u32 c, d;\n}}\n")
    locator = Locator(module, None)
    message = Message(Severity.ERROR, "Arguments mismatch for instruction 'add'", 7)

    assert {locator.locate(message).span.column for _ in range(2)} == {3, 17}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unresolved extern function 'ext'", "ext"),
        ("Entry function 'k' uses too much shared data (0x138800 bytes, 0xc000 max)", "k"),
        ("SM version specified by .target is higher than default SM version assumed", ".target sm_90a"),
        ("Missing .version directive at start of file", ".version 8.0"),
        ("Something else", ""),
    ],
)
def test_a_message_without_a_line(text: str, expected: str) -> None:
    module = ptxkit.parse(f"{HEAD}ret;\n}}\n")

    span = Locator(module, None).locate(Message(Severity.ERROR, text)).span

    assert module.text[span.start : span.end] == expected


def test_our_own_words_are_a_note() -> None:
    module = ptxkit.parse(f"{HEAD}  .reg .u32 a; .reg .f64 d;\n  add.u32 a, a, d;\n}}\n")

    found = Locator(module, None).locate(Message(Severity.ERROR, "Arguments mismatch for instruction 'add'", 8))

    assert module.at(found.path).text == "d"
    assert ".f64" in found.note


@given(st.text("{}();,.:@%$[]<>!#/*\"'\n\\ abrx019=+-", max_size=60), st.integers(0, 12), st.data())
def test_any_message_about_any_text_has_a_place(text: str, line: int, data: st.DataObject) -> None:
    module = ptxkit.parse(text)
    word = data.draw(st.sampled_from(text.split() or [""]))
    said = data.draw(
        st.sampled_from(
            [
                "Unknown symbol '{}'",
                "Parsing error near '{}': syntax error",
                "Argument 1 of instruction '{}'",
                "non-ASCII on line",
                "Result register",
            ]
        )
    ).format(word)

    found = Locator(module, None).locate(Message(Severity.ERROR, said, data.draw(st.sampled_from([None, line])), "a"))

    assert 0 <= found.span.start <= found.span.end <= len(text)
    module.at(found.path)


@pytest.mark.parametrize("between", ["\n", " "], ids=["a line each", "all on one line"])
def test_many_errors_take_work_that_grows_evenly(between: str) -> None:
    """Four times the messages about four times the text: four times the work."""
    head = HEAD.replace("{", "{ .reg .u32 %r<3>;")

    def locate_all(count: int) -> None:
        module = ptxkit.parse(head + between.join(f"  add.u32 %r1, %r2, %x{i};" for i in range(count)) + "\n}\n")
        locator = Locator(module, None)
        for i in range(count):
            line = i + 7 if between == "\n" else 7
            unknown = locator.locate(Message(Severity.ERROR, f"Unknown symbol '%x{i}'", line))
            mismatch = locator.locate(Message(Severity.ERROR, "Arguments mismatch for instruction 'add'", line))
            assert unknown == mismatch
            assert module.at(unknown.path).text == f"%x{i}"

    small, large = (calls(partial(locate_all, count)) for count in (1000, 4000))
    assert large < 5 * small


def test_messages() -> None:
    log = (
        "ptxas application ptx input, line 10; error   : Unknown symbol '%r99'\n"
        "ptxas /a b/x, line 3; y.ptx, line 11; warning : something\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
        "error   : Undefined reference to 'ext' in 'in.ptx'\n"
        "ptxas fatal   : Unexpected non-ASCII character encountered on line 25\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
        "ERROR NVJITLINK_ERROR_PTX_COMPILE: JIT the PTX (in.ptx)\n"
    )

    found = messages(log)

    assert [(message.severity.value, message.line) for message in found] == [
        ("error", 10), ("warning", 11), ("info", None), ("error", None), ("error", 25),
    ]  # fmt: skip
    assert found[0].source == "application ptx input"
    assert [message.is_unresolved for message in found] == [False, False, False, True, False]
    assert messages("ptxas fatal   : Ptx assembly aborted due to errors")[0].severity is Severity.ERROR
    assert messages("ptxas fatal   : (C7907) Internal compiler error")[0].is_bug


def test_resources_of_ptxas_and_of_nvjitlink() -> None:
    ptxas = (
        "ptxas info    : 400 bytes gmem, 40 bytes cmem[3], 8 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : Function properties for k\n"
        "    64 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 8 registers, used 1 barriers, 96 bytes cumulative stack size, 128 bytes smem, "
        "360 bytes cmem[0], 4 bytes cmem[2]\n"
        "ptxas info    : Function properties for f\n    16 bytes stack frame, 1 bytes spill stores, 1 bytes spill loads\n"
    )
    nvjitlink = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\nptxas info    : Function properties for k\n"
        "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 2 barriers\n"
        "info    : Function properties for 'k':\n"
        "info    : used 24 registers, used 5 barriers, 64 stack, 0 bytes smem, 536 bytes cmem[0], 0 bytes lmem\n"
    )

    assert resources(ptxas) == (Resources("k", 8, 96, 8, 12, 128, 364, 1),)
    assert resources(nvjitlink) == (Resources("k", 24, 64, 0, 0, 0, 536, 2),)
    assert resources("") == ()


def test_every_message_of_the_reference_set_stands_on_its_line() -> None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "conformance"
    if not folder.is_dir():
        pytest.skip("the reference sets are not part of this project")
    off = total = 0
    for row in (folder / "reject.tsv").read_text(encoding="utf-8").splitlines()[1::10]:
        file, _, _, first_error, *_ = row.split("\t")
        said = messages(f"ptxas x, {first_error}")
        if not said or said[0].line is None:
            continue
        module = ptxkit.parse((folder / "reject" / file).read_text(encoding="utf-8"))
        found = Locator(module, None).locate(said[0])
        total += 1
        off += found.span.line != said[0].line

    assert total > 300
    assert off <= total // 100
