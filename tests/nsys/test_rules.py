"""A real nsys applying its rules to recorded captures: that it can be asked as perfgate asks, and
what it leaves."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.reports import Findings, RuleName
from perfgate.profilers.nsys import reports as nsys_reports
from perfgate.profilers.nsys.reports import parse_rule, run_rules
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

RECORDED = Path(__file__).parents[1] / "golden" / "data"
NO_MEMSETS = (
    "could not be analyzed because it does not contain the required CUDA data. Does the "
    "application use CUDA memset APIs?"
)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("mlp-h200-nsys2024.2.3", tmp_path_factory.mktemp("mlp"))


@pytest.fixture(scope="module")
def found(nsys_tool: NsysTool, mlp: Path) -> Findings:
    return run_rules(nsys_tool, mlp, mlp.parent / "rules")


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.sqlite"
    path.write_bytes(lzma.decompress((RECORDED / f"{path.name}.xz").read_bytes()))
    return path


def recorded(name: str, rule: RuleName) -> bytes:
    return (RECORDED / "rules" / name / f"{rule}.csv").read_bytes()


def test_the_rules_find_what_was_recorded(found: Findings) -> None:
    for rule in (
        RuleName.CUDA_MEMCPY_ASYNC,
        RuleName.CUDA_API_SYNC,
        RuleName.GPU_GAPS,
        RuleName.GPU_TIME_UTIL,
    ):
        expected = parse_rule(recorded("mlp-2024.2.3", rule).decode(), rule=rule, source="recorded")
        assert found.rows[rule] == expected
    assert (found.skipped, found.cut) == ({}, {})


def test_a_rule_that_finds_nothing_is_empty_and_not_skipped(found: Findings) -> None:
    assert found.rows[RuleName.CUDA_MEMCPY_SYNC] == ()
    assert found.rows[RuleName.CUDA_MEMSET_SYNC] == ()


def test_only_the_csvs_of_rules_that_found_something_stay(found: Findings, mlp: Path) -> None:
    assert sorted(path.name for path in (mlp.parent / "rules").iterdir()) == [
        "cuda_api_sync.csv",
        "cuda_memcpy_async.csv",
        "gpu_gaps.csv",
        "gpu_time_util.csv",
    ]


def test_a_rule_without_its_data_is_skipped_with_nsyss_reason_and_not_its_neighbour(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    # The two rules before it find nothing, so that nsys prints all three on one line.
    found = run_rules(
        nsys_tool, unpacked("driver-only-h200-nsys2025.3", tmp_path), tmp_path / "rules"
    )
    assert found.skipped == {RuleName.CUDA_MEMSET_SYNC: NO_MEMSETS}
    assert (
        found.rows[RuleName.CUDA_MEMCPY_ASYNC] == ()
    )  # its pageable copies go through the driver API
    assert found.rows[RuleName.CUDA_MEMCPY_SYNC] == ()
    assert len(found.rows[RuleName.GPU_GAPS]) == 23


def test_short_gaps_are_left_out_if_asked(nsys_tool: NsysTool, mlp: Path, tmp_path: Path) -> None:
    found = run_rules(nsys_tool, mlp, tmp_path, gap_ms=1)
    assert len(found.rows[RuleName.GPU_GAPS]) == 19
    assert min(row.duration_ns for row in found.rows[RuleName.GPU_GAPS]) == 2_092_647


def test_of_many_findings_the_longest_are_read(
    nsys_tool: NsysTool, found: Findings, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_reports, "MOST_ROWS", 10)
    few = run_rules(nsys_tool, mlp, tmp_path)
    cut = (RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_API_SYNC, RuleName.GPU_GAPS)
    assert few.cut == dict.fromkeys(cut, 10)
    for rule in cut:
        assert few.rows[rule] == found.rows[rule][:10]
    assert few.rows[RuleName.GPU_TIME_UTIL] == found.rows[RuleName.GPU_TIME_UTIL]


def test_a_rule_with_just_as_many_findings_as_are_read_is_not_cut(
    nsys_tool: NsysTool, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_reports, "MOST_ROWS", 20)
    found = run_rules(nsys_tool, mlp, tmp_path)
    assert len(found.rows[RuleName.CUDA_MEMCPY_ASYNC]) == 20
    assert set(found.cut) == {RuleName.CUDA_API_SYNC, RuleName.GPU_GAPS}


def test_paths_that_nsys_would_misread_are_read_as_they_are(
    nsys_tool: NsysTool, mlp: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "50% of] with [what?, #1 \N{LATIN SMALL LETTER U WITH DIAERESIS}"
    odd.mkdir()
    capture = odd / "a capture.sqlite"
    capture.write_bytes(mlp.read_bytes())
    found = run_rules(nsys_tool, capture, odd / "Processing [x")
    assert (len(found.rows[RuleName.CUDA_API_SYNC]), found.rows[RuleName.CUDA_MEMCPY_SYNC]) == (
        21,
        (),
    )
    assert sorted(path.name for path in odd.iterdir()) == ["Processing [x", "a capture.sqlite"]


def test_a_capture_that_a_rule_breaks_down_on_is_an_error(
    nsys_tool: NsysTool, mlp: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(mlp.read_bytes())
    with closing(sqlite3.connect(broken)) as database, database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN nameId")
    with pytest.raises(CaptureUnreadable) as caught:
        run_rules(nsys_tool, broken, tmp_path / "rules")
    assert caught.value.code == "nsys-printed-nothing"
    assert "runtime.nameId" in str(caught.value.fields["said"])


def test_an_export_without_any_data_is_skipped_by_every_rule(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.sqlite"
    with closing(sqlite3.connect(bare)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    found = run_rules(nsys_tool, bare, tmp_path / "rules")
    assert found.rows == {}
    assert all("does not contain the required" in reason for reason in found.skipped.values())
    assert list(tmp_path.joinpath("rules").iterdir()) == []
