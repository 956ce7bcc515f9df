"""A real nsys applying its rules to recorded captures: that it can be asked as perfgate asks, and
what it leaves."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.reports import Finding, RuleName
from perfgate.profilers.nsys import reports as nsys_reports
from perfgate.profilers.nsys.reports import parse_rule, run_rules
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

RECORDED = Path(__file__).parents[1] / "golden" / "data"


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("mlp-h200-nsys2024.2.3", tmp_path_factory.mktemp("mlp"))


def asked(nsys: NsysTool, capture: Path, folder: Path) -> dict[RuleName, tuple[Finding, ...]]:
    """What each rule finds."""
    found = run_rules(nsys, capture, folder)
    return {rule: tuple(one for one in found if one.rule is rule) for rule in RuleName}


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.sqlite"
    path.write_bytes(lzma.decompress((RECORDED / f"{path.name}.xz").read_bytes()))
    return path


def recorded(name: str, rule: RuleName) -> bytes:
    return (RECORDED / "rules" / name / f"{rule}.csv").read_bytes()


def test_the_rules_find_what_was_recorded(nsys_tool: NsysTool, mlp: Path, tmp_path: Path) -> None:
    found = asked(nsys_tool, mlp, tmp_path)
    assert found[RuleName.CUDA_MEMCPY_SYNC] == found[RuleName.CUDA_MEMSET_SYNC] == ()
    for rule in (RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_API_SYNC):
        text = recorded("mlp-2024.2.3", rule).decode()
        assert found[rule] == parse_rule(text, rule=rule, source="recorded")
    # Only the CSVs of rules that found something stay.
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["cuda_api_sync.csv", "cuda_memcpy_async.csv"]


def test_a_rule_without_its_data_finds_nothing_and_its_neighbours_what_there_is(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    # The two rules before the one that is skipped find nothing: nsys prints all three on one line.
    capture = unpacked("driver-only-h200-nsys2025.3", tmp_path)
    found = asked(nsys_tool, capture, tmp_path / "rules")
    # Pageable copies that go through the driver API are not found.
    assert {rule: rows for rule, rows in found.items() if rows} == {}


def test_of_many_findings_the_longest_are_read(
    nsys_tool: NsysTool, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(nsys_tool, mlp, tmp_path / "all")
    monkeypatch.setattr(nsys_reports, "MOST_ROWS", 10)
    few = asked(nsys_tool, mlp, tmp_path / "few")
    for rule in (RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_API_SYNC):
        assert few[rule] == found[rule][:10]


def test_paths_that_nsys_would_misread_are_read_as_they_are(
    nsys_tool: NsysTool, mlp: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "50% of] with [what?, #1 \N{LATIN SMALL LETTER U WITH DIAERESIS}"
    odd.mkdir()
    capture = odd / "a capture.sqlite"
    capture.write_bytes(mlp.read_bytes())
    found = asked(nsys_tool, capture, odd / "Processing [x")
    assert [len(rows) for rows in found.values()] == [20, 0, 0, 21]
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


def test_in_an_export_without_any_data_no_rule_finds_anything(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.sqlite"
    with closing(sqlite3.connect(bare)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    assert run_rules(nsys_tool, bare, tmp_path / "rules") == ()
    assert list(tmp_path.joinpath("rules").iterdir()) == []
