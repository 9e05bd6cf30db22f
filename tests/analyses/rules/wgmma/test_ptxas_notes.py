"""Notes of a ptxas log, tied to what caused them."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.rules.wgmma._ptxas_notes import explain, notes

LOG = """ptxas info    : (C7519) warpgroup.arrive is injected in around line 10 by compiler to allow use of registers in function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading\
 accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'k'
ptxas info    : (C7508) Ignored directive in function 'other'
"""
TEXT = """.version 8.5
.target sm_90a
.address_size 64
.file 1 "gemm.cu"
.entry k()
{
.reg .f32 %f<8>; .reg .b64 %rd<4>;
wgmma.fence.sync.aligned;
mul.f32 %f1, %f1, %f5;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
.loc 1 42 0
WAIT
add.f32 %f5, %f1, %f2;
ret;
}
"""


def test_notes_are_read() -> None:
    assert [(note.code, note.function, note.line) for note in notes(LOG)] == [("C7519", "k", 10), ("C7514", "k", 0), ("C7508", "other", 0)]


def test_each_note_has_its_cause() -> None:
    found = explain(ptxkit.parse(TEXT.replace("WAIT", "")), LOG)

    assert [(one.message[:5], one.rule, one.span.line) for one in found] == [("C7519", "W002", 9), ("C7514", "W003", 14)]


def test_a_note_without_a_known_cause_is_tied_to_what_it_speaks_of() -> None:
    (one,) = explain(ptxkit.parse(TEXT.replace("WAIT", "wgmma.wait_group.sync.aligned 0;")), LOG.splitlines()[2] + LOG.splitlines()[3])

    assert (one.rule, one.span.line) == ("C7514", 10)


def test_a_log_without_notes_explains_nothing() -> None:
    assert explain(ptxkit.parse(TEXT), "ptxas error: nothing of this") == ()
