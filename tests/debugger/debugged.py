"""Kernels and launches for the tests of the debugger."""

from __future__ import annotations

from pathlib import Path

SUMS = """.version 8.5
.target sm_90a
.address_size 64
.shared .align 4 .b32 s[64];
.func (.param .b32 r) twice(.param .b32 a)
{
.reg .b32 %x<3>;
ld.param.u32 %x1, [a];
add.u32 %x2, %x1, %x1;
st.param.b32 [r], %x2;
ret;
}
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<5>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mov.u32 %r3, 0;
mov.u32 %r4, 0;
LOOP:
add.u32 %r4, %r4, %r2;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r1;
@%p1 bra LOOP;
mov.u32 %r5, s;
shl.b32 %r6, %r2, 2;
add.u32 %r7, %r5, %r6;
st.shared.u32 [%r7], %r4;
bar.sync 0;
setp.lt.u32 %p2, %r2, 8;
@%p2 add.u32 %r4, %r4, 1000;
@!%p2 bra SKIP;
{
.param .b32 a0;
.param .b32 r0;
st.param.b32 [a0], %r4;
call (r0), twice, (a0);
ld.param.b32 %r4, [r0];
}
SKIP:
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r4;
ret;
}
"""
LAUNCH = """[[kernel]]
entry = "k"
grid = 2
block = 64
args = [{ buffer = "u32", length = 64, fill = "zeros", output = true }, { scalar = "u32", value = 3 }]
"""
RACE = """.version 8.5
.target sm_90a
.address_size 64
.shared .align 4 .b32 s[64];
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .b32 %r<9>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 4, %r2;
st.shared.u32 [%r3], %r1;
xor.b32 %r4, %r3, 128;
ld.shared.u32 %r5, [%r4];
ret;
}
"""


def line_of(text: str, what: str) -> int:
    """The first line that begins with this, from 1 on."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(what))


def written(folder: Path, text: str) -> tuple[str, str]:
    ptx, launch = folder / "k.ptx", folder / "launch.toml"
    ptx.write_text(text, encoding="utf-8")
    launch.write_text(LAUNCH, encoding="utf-8")
    return str(ptx), str(launch)
