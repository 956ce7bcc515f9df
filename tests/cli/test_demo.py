"""`perfgate demo`: the recorded gate, played through the real rooms."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.refused import refused
from syrupy.assertion import SnapshotAssertion

from perfgate.demo import replay
from perfgate.demo.replay import MANIFEST, Manifest, play, play_recorded, unpack
from perfgate.model.errors import StoreFailed
from perfgate.render.page import Screen

ROOT = Path(__file__).parents[2]
CAPTURES = Path(replay.__file__).parent / "captures"


def played(captures: Path, folder: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    return play_recorded(captures, folder, said.append, Screen(width=120, colour=False)), said


def swapped(tmp_path: Path, **sets: str) -> Path:
    """The demo's captures with one recording in place of another."""
    captures = tmp_path / "captures"
    shutil.copytree(CAPTURES, captures)
    manifest = Manifest.model_validate_json((captures / MANIFEST).read_text())
    changed = manifest.model_copy(
        update={name: getattr(manifest, other) for name, other in sets.items()}
    )
    (captures / MANIFEST).write_text(changed.model_dump_json())
    return captures


def test_the_unchanged_loop_passes_and_the_regression_is_caught_where_it_is(
    snapshot: SnapshotAssertion,
) -> None:
    said: list[str] = []
    assert play(said.append, Screen(width=120, colour=False)) == 0
    text = "\n".join(said)
    assert "mlp: NO_BASELINE (5 runs)" in text
    assert "mlp: PASSED (5 runs against 5 blessed)" in text
    assert "mlp: REGRESSED (5 runs against 5 blessed)" in text
    assert "pageable_copies         0       1  +1                        exact  REGRESSED" in text
    assert "syncs                   0       1  +1                        exact  REGRESSED" in text
    assert text.count("2.276 ms, 41.4 % of the step") == 1, "as the table has it"
    assert "where       syncs: +1: +1 under log" in text
    assert "where       pageable_copies: +1: +1 under copy" in text
    assert said[-1] == snapshot


@pytest.mark.parametrize("page", ["bless.md", "first-workload.md", "red-gate.md"])
def test_what_the_pages_quote_of_the_demo_is_what_it_prints(page: str) -> None:
    said: list[str] = []
    play(said.append, Screen(width=120, colour=False))
    printed = " ".join("\n".join(said).split())
    blocks = (ROOT / "docs" / page).read_text().split("```")[1::2]
    (quoted,) = (block for block in blocks if block.startswith("\nmlp: "))
    lines = [" ".join(line.split()) for line in quoted.splitlines() if line.strip("- ")]
    assert [line for line in lines if line not in printed] == []


def test_no_line_of_the_demo_is_broken_by_a_terminal_of_80_columns() -> None:
    said: list[str] = []
    assert play(said.append, Screen(width=80, colour=False)) == 0
    assert [line for text in said for line in text.splitlines() if len(line) > 80] == []


def test_a_regression_that_is_not_caught_shuts_the_demo(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    status, said = played(swapped(tmp_path, regressed="unchanged"), tmp_path / "work")
    assert status == 1
    assert said[-1] == snapshot


def test_an_unchanged_loop_that_fails_shuts_the_demo(tmp_path: Path) -> None:
    status, _ = played(swapped(tmp_path, unchanged="regressed"), tmp_path / "work")
    assert status == 1


def test_a_kept_demo_never_overwrites(tmp_path: Path) -> None:
    with refused(StoreFailed, "folder-not-made"):
        play(lambda _: None, Screen(width=80, colour=False), keep=tmp_path)


def test_the_recorded_captures_hold_no_environment(tmp_path: Path) -> None:
    manifest = Manifest.model_validate_json((CAPTURES / MANIFEST).read_text())
    runs = [
        run
        for recording in (manifest.baseline, manifest.unchanged, manifest.regressed)
        for run in recording.runs
    ]
    assert len(runs) == 15
    for run in runs:
        work = tmp_path / run.archive.partition(".")[0]
        unpack(CAPTURES / run.archive, work)
        for file in work.iterdir():
            content = file.read_bytes()
            for trace in (b"PATH=", b"HOME=", b"LD_LIBRARY_PATH", b"/root", b"/home/"):
                assert trace not in content, (file, trace)


@pytest.mark.parametrize("damaged", ["baseline-1.tar.xz", "regressed-1.tar.xz"])
def test_a_damaged_archive_is_no_measurement(tmp_path: Path, damaged: str) -> None:
    captures = swapped(tmp_path)
    archive = captures / damaged
    archive.write_bytes(archive.read_bytes()[:1000])
    status, said = played(captures, tmp_path / "work")
    assert status == 1
    assert any("NOT_MEASURED" in text for text in said)
