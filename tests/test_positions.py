"""Where nodes stand: lines, columns and spans agree with the text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from ptxkit.syntax import Index, Statement, nodes, parse

TEXT = """// head
.version 8.0
.target sm_80
.entry k(.param .u64 p)
{
\t/* c */ .reg .b32 %r<4>;
\t@%p1 add.s32 %r1, %r2, [%r3+4];
\t{ ret; }
}
.section .debug_info { .b8 1 }
"""


def test_every_node_starts_where_its_text_stands() -> None:
    module = parse(TEXT)
    index = Index(module)
    assert index.text == TEXT
    for path, node in module.walk():
        start = index.offset(path)
        text = node.text[len(getattr(node, "leading", "")) :]
        assert TEXT.startswith(text, start)


def test_spans_have_lines_and_columns() -> None:
    module = parse(TEXT)
    index = Index(module)
    (path,) = [path for path, node in module.walk() if isinstance(node, nodes.Address)]
    span = index.span(path)
    assert TEXT[span.start : span.end] == "[%r3+4]"
    assert (span.line, span.column, span.end_line, span.end_column) == (7, 25, 7, 32)
    assert index.line_text(7) == "\t@%p1 add.s32 %r1, %r2, [%r3+4];"


def test_the_span_of_a_function_is_its_header_and_of_a_block_its_brace() -> None:
    module = parse(TEXT)
    index = Index(module)
    spans = {type(node): index.span(path) for path, node in reversed(list(module.walk()))}
    assert TEXT[spans[nodes.Function].start : spans[nodes.Function].end] == ".entry k(.param .u64 p)"
    assert TEXT[spans[nodes.Block].start : spans[nodes.Block].end] == "{"
    assert spans[nodes.Block].line == 5


def test_statements_start_after_what_leads_them() -> None:
    module = parse(TEXT)
    index = Index(module)
    lines = [index.span(path).line for path, node in module.walk() if isinstance(node, Statement)]
    assert lines == [2, 3, 4, 6, 7, 8, 10, 10]


@examples(200)
@given(st.text(alphabet="ab\n\r\u00e9\udcff", max_size=60))
def test_lines_and_columns_of_any_text(text: str) -> None:
    index = Index(parse(text))
    for offset in range(len(text) + 1):
        line, column = index.line_column(offset)
        assert line == text.count("\n", 0, offset) + 1
        assert column == offset - (text.rfind("\n", 0, offset) + 1) + 1
    for start in range(0, len(text), 3):
        span = index.between(start, len(text))
        assert (span.end_line, span.end_column) == index.line_column(len(text))
    assert [index.line_text(i + 1) for i in range(len(index.line_starts))] == [line.rstrip("\r") for line in text.split("\n")]


def test_the_text_of_an_edited_module() -> None:
    module = parse(TEXT)
    edited = module.remove((2,))
    index = Index(edited)
    assert index.text == edited.text
    assert index.span((2,)).line == 4
