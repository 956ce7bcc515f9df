"""`perfgate page`: one file of what was kept."""

from __future__ import annotations

import pytest
from support import records
from support.project import Project
from syrupy.assertion import SnapshotAssertion


def test_a_page_is_written_of_the_newest_kept_results(here: Project) -> None:
    here.bless(here.baseline())
    here.keep(records.result(of=here.declared()))
    seen = here.perfgate("page", "out.html")
    assert (seen.status, seen.err) == (0, "")
    assert seen.out.startswith("out.html: 1 workload, ")
    page = (here.root / "out.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html")
    assert "loop" in page
    assert "PASSED" in page
    assert here.perfgate("page", "out.html", "loop").status == 0  # over its own


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["out.html", "other"], "result-unknown", 20),
        (["lop.html", "lop"], "result-misspelt", 20),
        (["pyproject.toml/out.html"], "file-unwritten", 23),
        (["loop"], "out-odd", 2),
        (["workloads/loops.py"], "out-odd", 2),
    ],
)
def test_what_cannot_be_shown_or_written_is_said(
    here: Project, arguments: list[str], code: str, status: int
) -> None:
    here.keep(records.result(of=here.declared()))
    seen = here.perfgate("page", *arguments)
    assert (code in seen.codes, seen.status) == (True, status)


def test_nothing_kept_is_no_page(here: Project, snapshot: SnapshotAssertion) -> None:
    seen = here.perfgate("page", "out.html")
    assert seen.err == snapshot
    assert not (here.root / "out.html").exists()
