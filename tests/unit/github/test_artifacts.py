"""Zip files that a stranger packed: what an upload makes is read, anything else is refused as a whole."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rest import zipped

from perfgate.github.artifacts import Limits, unpacked
from perfgate.model.errors import ArtifactUnreadable

NEXT = " It is not read.\nLook at the run that uploaded it: the artifact may be made to do harm."


def everything(_path: str) -> bool:
    return True


def read(content: bytes, limits: Limits | None = None) -> Mapping[str, bytes]:
    return unpacked(content, everything, what="artifact perfgate", limits=limits)


def refused(content: bytes, limits: Limits | None = None) -> str:
    with pytest.raises(ArtifactUnreadable) as caught:
        read(content, limits)
    told = str(caught.value)
    assert told.startswith("artifact perfgate: ")
    assert told.endswith(f".{NEXT}")
    return told.removeprefix("artifact perfgate: ").removesuffix(f".{NEXT}")


def member(
    name: str, content: bytes = b"x", *, mode: int = 0o100644, flags: int = 0
) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.flag_bits = flags
    return info


def packed(*infos: zipfile.ZipInfo, content: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for info in infos:
            archive.writestr(info, content)
    return buffer.getvalue()


def test_wanted_files_are_returned_by_their_path() -> None:
    content = zipped({"b/c/result.json": b"1", "b/c/": b"", "a.txt": b"2", "page.html": b"3"})
    assert read(content) == {"a.txt": b"2", "b/c/result.json": b"1", "page.html": b"3"}
    assert unpacked(content, lambda path: path.endswith("result.json"), what="x") == {
        "b/c/result.json": b"1"
    }
    assert unpacked(content, lambda path: path == "none", what="x") == {}


def test_an_empty_zip_file_has_nothing() -> None:
    assert read(zipped({})) == {}


NAMES = [
    ("/etc/passwd", "leads elsewhere"),
    ("//server/share", "leads elsewhere"),
    ("C:/windows/x", "leads elsewhere"),
    ("../x", "leads elsewhere"),
    ("a/../../x", "leads elsewhere"),
    ("a/./x", "leads elsewhere"),
    ("a//x", "leads elsewhere"),
    ("..", "leads elsewhere"),
    ("a\\..\\x", "is none"),
    ("a\nb", "is none"),
    ("a\x1b[2Jb", "is none"),
    ("a\u202eb", "is none"),
    ("x" * 256, "is too long"),
    ("\u00fc" * 128, "is too long"),
    ("a/" * 250 + "x", "is too long"),
]


@pytest.mark.parametrize(("name", "fault"), NAMES)
def test_a_name_that_no_upload_makes_refuses_the_whole(name: str, fault: str) -> None:
    content = zipped({"perfgate.json": "{}", name: "x"})
    told = refused(content)
    assert told.startswith('its member "')
    assert told.endswith(f'" has a name that {fault}')
    assert "\n" not in told
    assert "\x1b" not in told
    with pytest.raises(ArtifactUnreadable):  # although only another is wanted
        unpacked(content, lambda path: path == "perfgate.json", what="x")


def test_a_name_that_is_cut_at_a_zero_byte_is_refused() -> None:
    content = packed(member("perfgate.json?evil"))
    assert refused(content.replace(b"perfgate.json?evil", b"perfgate.json\0evil")) == (
        'its member "perfgate.json\\x00evil" has a name that is none'
    )


@pytest.mark.parametrize(
    "mode", [stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o600, stat.S_IFIFO | 0o600, stat.S_IFDIR | 0o755]
)
def test_a_link_or_a_device_is_refused(mode: int) -> None:
    content = packed(member("perfgate.json", mode=mode), content=b"/etc/passwd")
    assert refused(content) == 'its member "perfgate.json" is neither a file nor a folder'


def test_a_folder_that_says_it_is_a_link_is_refused() -> None:
    content = packed(member("kept/", mode=stat.S_IFLNK | 0o777), content=b"")
    assert refused(content) == 'its member "kept/" is neither a file nor a folder'


def test_an_encrypted_member_is_refused() -> None:
    content = bytearray(packed(member("perfgate.json")))
    at = content.index(b"PK\x01\x02") + 8
    content[at : at + 2] = struct.pack("<H", 1)
    assert refused(bytes(content)) == 'its member "perfgate.json" is encrypted'


def test_a_way_of_packing_that_uploads_do_not_use_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("perfgate.json", "{}")
    assert (
        refused(buffer.getvalue())
        == 'its member "perfgate.json" is packed in a way that uploads do not use'
    )


@pytest.mark.parametrize("second", ["perfgate.json", "PERFGATE.json", "perfgate.json/"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(second: str) -> None:
    mode = stat.S_IFDIR | 0o755 if second.endswith("/") else 0o100644
    content = packed(member("perfgate.json"), member(second, mode=mode), content=b"")
    assert refused(content) == f'its member "{second}" is there twice'


def test_one_name_in_two_spellings_of_its_letters_is_there_twice() -> None:
    assert refused(zipped({"\u00fc": "1", "u\u0308": "2"})).endswith("is there twice")


def test_a_file_in_a_file_is_refused() -> None:
    assert refused(zipped({"a": "1", "a/b": "2"})) == 'its member "a/b" lies in a file'
    assert refused(zipped({"A/b/c": "2", "a": "1"})) == 'its member "A/b/c" lies in a file'


# Sizes


BOMB: Final = 50 << 20


@contextlib.contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """What is allocated meanwhile at most, in bytes, by whichever thread."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield lambda: peaks[0]
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def test_a_bomb_is_not_unpacked() -> None:
    content = zipped({"perfgate.json": b"0" * BOMB})
    assert len(content) < 100_000
    with traced() as peak:
        assert (
            refused(content, Limits(member_bytes=1 << 20))
            == 'its member "perfgate.json" is too large'
        )
    assert peak() < BOMB / 3


def test_a_bomb_that_lies_about_its_size_is_not_unpacked() -> None:
    content = zipped({"perfgate.json": b"0" * BOMB})
    lie = content.replace(struct.pack("<I", BOMB), struct.pack("<I", 1000))
    assert lie != content
    with traced() as peak:
        told = refused(lie, Limits(member_bytes=1 << 20))
    assert peak() < BOMB / 3
    assert told.startswith("it is no zip file that can be read: Bad CRC-32")


def test_many_members_that_are_small_one_by_one_are_too_large_together() -> None:
    content = zipped({f"{n}": b"0" * 1000 for n in range(10)})
    assert refused(content, Limits(total_bytes=9_999)) == 'its member "9" is too large'
    assert len(read(content, Limits(total_bytes=10_000))) == 10


def test_what_is_not_wanted_may_be_large() -> None:
    content = zipped({"perfgate.json": b"{}", "page.html": b"0" * 10_000})
    limits = Limits(member_bytes=10, total_bytes=10)
    assert unpacked(content, lambda path: path == "perfgate.json", what="x", limits=limits) == {
        "perfgate.json": b"{}"
    }


def test_too_many_members_are_refused_before_they_are_looked_at() -> None:
    content = zipped({f"{n}": b"" for n in range(101)})
    assert refused(content, Limits(members=100)) == "it has more than 100 members"
    assert len(read(content, Limits(members=101))) == 101


def test_too_large_a_file_is_refused() -> None:
    content = zipped({"a": "1"})
    assert (
        refused(content, Limits(packed_bytes=len(content) - 1))
        == f"it is larger than {len(content) - 1} bytes"
    )
    assert read(content, Limits(packed_bytes=len(content))) == {"a": b"1"}


def test_entries_that_share_their_bytes_are_counted_each() -> None:
    """As in bombs whose entries all point at one body."""
    one = packed(member("0", content=b""), content=b"0" * 5000)
    at = one.index(b"PK\x01\x02")
    entry, end = one[at : one.index(b"PK\x05\x06")], one[one.index(b"PK\x05\x06") :]
    entries = b"".join(entry.replace(b"\x000", b"\x00" + str(n).encode()) for n in range(10))
    closing = end[:8] + struct.pack("<HHII", 10, 10, len(entries), at) + end[20:]
    with pytest.raises(ArtifactUnreadable):
        read(one[:at] + entries + closing, Limits(total_bytes=20_000))


# Broken


@pytest.mark.parametrize("content", [b"", b"PK", b"<html>", b"PK\x05\x06", b"\x00" * 100])
def test_what_is_no_zip_file_is_refused(content: bytes) -> None:
    assert refused(content).startswith("it is no zip file that can be read: ")


@given(st.data())
def test_no_broken_byte_gets_through_as_anything_but_a_refusal(data: st.DataObject) -> None:
    whole = {"a.json": b"1" * 50, "b/c.json": b"2" * 50}
    content = bytearray(zipped(whole))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ArtifactUnreadable):
        found = read(bytes(content[: data.draw(st.integers(1, len(content)))]))
        assert all(not path.startswith("/") and ".." not in path.split("/") for path in found)
        assert all(len(content) <= 50 for content in found.values())
