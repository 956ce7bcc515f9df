"""Zip files that a stranger packed: what is wanted is read up to a limit, and nothing else."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from typing import Final

import pytest
from github.Repository import Repository
from hypothesis import given
from hypothesis import strategies as st
from support.rest import Answer, GitHub, zipped

from perfgate.github.artifacts import download, unpacked
from perfgate.model.errors import ArtifactUnreadable, GitHubUnreachable

BOMB: Final = 50 << 20
NAME: Final = "result.json"


def read(content: bytes, limit_bytes: int = 1 << 20) -> dict[str, bytes]:
    return unpacked(content, NAME, artifact="perfgate", limit_bytes=limit_bytes)


def refused(content: bytes, limit_bytes: int = 1 << 20) -> str:
    with pytest.raises(ArtifactUnreadable) as caught:
        read(content, limit_bytes)
    return caught.value.code


def test_wanted_files_are_returned_by_their_paths_and_others_may_be_anything() -> None:
    wanted = {"result.json": b"1", "b/c/result.json": b"2"}
    others = {"../x.json": b"x", "/etc/x.json": b"x", "a\\b.json": b"x", "page.html": b"0" * 99}
    assert read(zipped({**others, **wanted}), 2) == wanted
    assert read(zipped({})) == {}


def test_a_bomb_is_not_unpacked() -> None:
    content = zipped({NAME: b"0" * BOMB})
    lie = content.replace(struct.pack("<I", BOMB), struct.pack("<I", 1000))
    tracemalloc.start()
    try:
        assert refused(content) == "artifact-too-large"
        assert refused(lie) == "artifact-broken"
        assert tracemalloc.get_traced_memory()[1] < BOMB / 3
    finally:
        tracemalloc.stop()


def test_the_limit_is_of_all_wanted_files_and_holds_to_the_byte() -> None:
    content = zipped({f"{n}/{NAME}": b"0" * 1000 for n in range(10)})
    assert len(read(content, 10_000)) == 10
    assert refused(content, 9_999) == "artifact-too-large"


@pytest.mark.parametrize("content", [b"", b"PK", b"<html>", b"PK\x05\x06", b"\x00" * 100])
def test_what_is_no_zip_file_is_refused(content: bytes) -> None:
    assert refused(content) == "artifact-broken"


@given(st.data())
def test_no_broken_byte_gets_through_as_anything_but_a_refusal(data: st.DataObject) -> None:
    content = bytearray(zipped({NAME: b"1" * 50, f"b/{NAME}": b"2" * 50}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ArtifactUnreadable):
        found = read(bytes(content[: data.draw(st.integers(1, len(content)))]))
        assert all(content in {b"1" * 50, b"2" * 50} for content in found.values())


def test_an_artifact_is_downloaded_up_to_a_limit_without_the_token(
    hub: GitHub, repository: Repository
) -> None:
    run = hub.run()
    hub.artifact(run, "perfgate", b"x" * 1000)
    (artifact,) = repository.get_workflow_run(run).get_artifacts()
    assert download(artifact, limit_bytes=1000) == b"x" * 1000
    with pytest.raises(ArtifactUnreadable):
        download(artifact, limit_bytes=999)
    assert all("authorization" not in asked.headers for asked in hub.fetched)
    hub.fail(r"GET /\d+\.zip", Answer(500, b"sig=secret"))
    with pytest.raises(GitHubUnreachable) as caught:
        download(artifact, limit_bytes=1000)
    assert "sig" not in str(caught.value)
