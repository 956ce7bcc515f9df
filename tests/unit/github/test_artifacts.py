"""Zip files that a stranger packed: what an upload makes is read, anything else is refused as a
whole."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rest import zipped

from perfgate.github.artifacts import Limits, unpacked
from perfgate.model.errors import ArtifactUnreadable

BOMB: Final = 50 << 20


def read(content: bytes, **limits: int) -> Mapping[str, bytes]:
    made = Limits.model_validate(limits)
    return unpacked(content, lambda _path: True, artifact="perfgate", limits=made)


def refused(content: bytes, **limits: int) -> str:
    with pytest.raises(ArtifactUnreadable) as caught:
        read(content, **limits)
    assert not any(character in str(caught.value.fact) for character in "\n\x1b")
    return caught.value.code


def packed(*names: str, mode: int = 0o100644, content: bytes = b"x", how: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFDIR | 0o755 if name.endswith("/") else mode) << 16
            info.compress_type = how
            archive.writestr(info, b"" if name.endswith("/") else content)
    return buffer.getvalue()


def test_wanted_files_are_returned_by_their_path() -> None:
    content = zipped({"b/c/result.json": b"1", "b/c/": b"", "a.txt": b"2", "page.html": b"0" * 99})
    limits = Limits(member_bytes=10, total_bytes=10)

    def wanted(path: str) -> bool:
        return not path.endswith(".html")  # what is not wanted may be large

    found = unpacked(content, wanted, artifact="x", limits=limits)
    assert [*found.items()] == [("a.txt", b"2"), ("b/c/result.json", b"1")]
    assert read(zipped({})) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "a/../../x", "/etc/passwd", "C:/x", "a\\b", "a//b", "./x", "..", "a/./b"),
        *("a\nb", "a\x1bb", "a\u202eb", "x" * 501, "a/" + "\u00fc" * 128),
    ],
)
def test_a_name_that_no_upload_makes_refuses_the_whole(name: str) -> None:
    content = zipped({"perfgate.json": "{}", name: "x"})
    assert refused(content) == "artifact-unsafe"
    with pytest.raises(ArtifactUnreadable):  # although only another is wanted
        unpacked(content, lambda path: path == "perfgate.json", artifact="x", limits=Limits())


def encrypted() -> bytes:
    content = bytearray(packed("perfgate.json"))
    at = content.index(b"PK\x01\x02") + 8
    content[at : at + 2] = struct.pack("<H", 1)
    return bytes(content)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "made",
    [
        lambda: packed("a?evil").replace(b"a?evil", b"a\0evil"),
        *(
            lambda mode=mode: packed("perfgate.json", mode=mode)
            for mode in (stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o600, stat.S_IFDIR | 0o755)
        ),
        encrypted,
        lambda: packed("perfgate.json", how=zipfile.ZIP_BZIP2),
        *(
            lambda second=second: packed("perfgate.json", second, content=b"")
            for second in ("perfgate.json", "PERFGATE.json", "perfgate.json/")
        ),
        lambda: packed("\u00fc", "u\u0308"),
        lambda: packed("a", "a/b"),
        lambda: packed("A/b/c", "a"),
    ],
)
def test_a_member_that_no_upload_makes_refuses_the_whole(made: Callable[[], bytes]) -> None:
    assert refused(made()) == "artifact-unsafe"


def test_a_bomb_is_not_unpacked() -> None:
    content = zipped({"perfgate.json": b"0" * BOMB})
    lie = content.replace(struct.pack("<I", BOMB), struct.pack("<I", 1000))
    tracemalloc.start()
    try:
        assert refused(content, member_bytes=1 << 20) == "artifact-too-large"
        assert refused(lie, member_bytes=1 << 20) == "artifact-broken"
        assert tracemalloc.get_traced_memory()[1] < BOMB / 3
    finally:
        tracemalloc.stop()


def test_limits_hold_to_the_byte() -> None:
    content = zipped({f"{n}": b"0" * 1000 for n in range(10)})
    for limit, most in {
        "total_bytes": 10_000,
        "member_bytes": 1000,
        "members": 10,
        "packed_bytes": len(content),
    }.items():
        assert len(read(content, **{limit: most})) == 10
        assert refused(content, **{limit: most - 1}) == "artifact-too-large"


def test_entries_that_share_their_bytes_are_counted_each() -> None:
    """As in bombs whose entries all point at one body."""
    one = packed("0", content=b"0" * 5000)
    at, close = one.index(b"PK\x01\x02"), one.index(b"PK\x05\x06")
    entry, end = one[at:close], one[close:]
    entries = b"".join(entry.replace(b"\x000", b"\x00" + str(n).encode()) for n in range(10))
    closing = end[:8] + struct.pack("<HHII", 10, 10, len(entries), at) + end[20:]
    assert refused(one[:at] + entries + closing, total_bytes=20_000)


@pytest.mark.parametrize("content", [b"", b"PK", b"<html>", b"PK\x05\x06", b"\x00" * 100])
def test_what_is_no_zip_file_is_refused(content: bytes) -> None:
    assert refused(content) == "artifact-broken"


@given(st.data())
def test_no_broken_byte_gets_through_as_anything_but_a_refusal(data: st.DataObject) -> None:
    content = bytearray(zipped({"a.json": b"1" * 50, "b/c.json": b"2" * 50}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ArtifactUnreadable):
        found = read(bytes(content[: data.draw(st.integers(1, len(content)))]))
        assert all(not path.startswith("/") and ".." not in path.split("/") for path in found)
        assert all(len(content) <= 50 for content in found.values())
