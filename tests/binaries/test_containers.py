"""PTX inside of binary files: what cuobjdump took out of the fixtures, and that no damage makes a traceback."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from ptxkit import binaries
from ptxkit.binaries import Damaged, Entry, Missing, compression, fatbin

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "binaries"
FILES = sorted(path for path in FIXTURES.iterdir() if path.suffix in (".a", ".cubin", ".fatbin", ".o", ".so"))


def read(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def text(entry: Entry) -> str:
    try:
        return binaries.text(entry)
    except Missing as error:
        pytest.skip(str(error))


def pe(section: bytes, name: bytes) -> bytes:
    """A PE file with one section."""
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 0, 0)
    table = struct.pack("<8sIIIIIIHHI", name, len(section), 0, len(section), 512, 0, 0, 0, 0, 0)
    return (dos + coff + table).ljust(512, b"\0") + section


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix != ".cubin"], ids=lambda path: path.name)
def test_the_texts_are_those_of_cuobjdump(path: Path) -> None:
    contents = binaries.contents(path.read_bytes())
    expected = sorted((FIXTURES / "expected").glob(f"{path.name}.*"))

    assert not contents.damages
    assert expected
    assert [f"{path.name}.{one.number}.{one.entry.target}.ptx" for one in contents.members] == [one.name for one in expected]
    assert [text(one.entry) for one in contents.members] == [one.read_text() for one in expected]


def test_all_compressions_give_one_text() -> None:
    found = [binaries.contents(read(f"{mode}.fatbin")).members for mode in ("none", "speed", "size")]

    assert [one.entry.compression for members in found for one in members] == ["none", "none", "lz4", "lz4", "zstd", "zstd"]
    assert len({text(members[0].entry) for members in found}) == 1


def test_an_archive_names_its_members() -> None:
    names = [one.name for one in binaries.contents(read("archive.a")).members]

    assert names == ["one.o!1.sm_80.ptx", "one.o!2.sm_90a.ptx", "two.o!3.sm_80.ptx", "two.o!4.sm_90a.ptx"]


def test_what_is_to_be_linked_is_known_with_its_source_and_options() -> None:
    first = binaries.contents(read("relocatable.o")).members[0]

    assert first.is_relocatable
    assert first.entry.source == "two.cu"
    assert "--compile-only" in first.entry.options and "-g" in first.entry.options


def test_a_cubin_with_lines_holds_its_text() -> None:
    (member,) = binaries.contents(read("lines.cubin")).members

    assert member.name == "1.sm_80.ptx"
    assert ".visible .entry fill(" in text(member.entry)


@pytest.mark.parametrize(("name", "relocatable"), [(b".nv_fatb", False), (b"__nv_rel", True)])
def test_a_library_of_windows(name: bytes, relocatable: bool) -> None:
    members = binaries.contents(pe(read("none.fatbin") + bytes(200), name)).members

    assert [one.name for one in members] == ["1.sm_80.ptx", "2.sm_90a.ptx"]
    assert {one.is_relocatable for one in members} == {relocatable}


def test_a_wheel() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("package/library.so", read("library.so"))
        file.writestr("package/lib.a", read("archive.a"))
        file.writestr("package/README.md", "no code")
    names = [one.name for one in binaries.contents(buffer.getvalue()).members]

    assert names[0] == "package/library.so!1.sm_80.ptx"
    assert names[-1] == "package/lib.a!two.o!8.sm_90a.ptx"


def test_long_names_of_members() -> None:
    long_name = b"a_name_of_more_than_fifteen_letters.o"
    body = read("none.fatbin")
    names = long_name + b"/\n"

    def header(name: bytes, size: int) -> bytes:
        return name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8) + str(size).encode().ljust(10) + b"`\n"

    gnu = b"!<arch>\n" + header(b"//", len(names)) + names + b"\n" * (len(names) % 2) + header(b"/0", len(body)) + body
    bsd = b"!<arch>\n" + header(b"#1/40", len(body) + 40) + long_name.ljust(40, b"\0") + body
    for data in (gnu, bsd):
        assert [one.part for one in binaries.contents(data).members] == [long_name.decode()] * 2


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ImportError(module)

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    with pytest.raises(Missing, match=r"package lz4: pip install 'ptxkit\[binaries\]'"):
        binaries.text(binaries.contents(read("speed.fatbin")).members[0].entry)


def test_what_is_damaged_is_told_and_the_rest_is_there() -> None:
    whole = read("none.fatbin")
    damaged = bytearray(whole)
    struct.pack_into("<I", damaged, 16 + 4, 3)
    contents = binaries.contents(pe(b"\1" * 8 + damaged + whole, b".nv_fatb"))

    assert contents.damages == (
        "at byte 0x200: neither a fat binary nor the padding behind one",
        "at byte 0x218: an entry of a fat binary with too short a header",
    )
    assert [one.name for one in contents.members] == ["1.sm_80.ptx", "2.sm_90a.ptx"]


def test_sizes_that_cannot_be_are_refused() -> None:
    data = bytearray(read("speed.fatbin"))
    struct.pack_into("<Q", data, 16 + 56, 1 << 40)
    entry = binaries.contents(bytes(data)).members[0].entry

    with pytest.raises(Damaged, match="uncompressed size"):
        text(entry)


def test_a_text_for_which_a_key_is_needed() -> None:
    data = bytearray(read("none.fatbin"))
    (flags,) = struct.unpack_from("<Q", data, 16 + 40)
    struct.pack_into("<Q", data, 16 + 40, flags | fatbin.OBFUSCATED)

    with pytest.raises(Damaged, match="key"):
        binaries.text(binaries.contents(bytes(data)).members[0].entry)


@pytest.mark.parametrize("text", ["", "// PTX\n.version 8.0", "MZ", "!", "P", "\ufeff.version 8.0", "dad"])
def test_a_text_is_not_binary(text: str) -> None:
    assert not binaries.is_binary(text.encode())


@examples(400)
@given(st.data())
def test_any_mutation_gives_texts_or_says_what_is_wrong(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(FILES)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        change = data.draw(st.sampled_from(["byte", "word", "cut", "twice"]))
        if change == "byte":
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "word":
            raw[at : at + 4] = data.draw(st.sampled_from([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x50\xed\x55\xba", b"\1\0\0\0"]))
        elif change == "cut":
            del raw[at + 1 :]
        else:
            raw[at:at] = raw[at : at + 64]
    contents = binaries.contents(bytes(raw))
    for member in contents.members:
        try:
            assert isinstance(binaries.text(member.entry), str)
        except (Damaged, Missing) as error:
            assert str(error)
    assert all(contents.damages)
