"""`perfgate page` and `--perfgate-html`: one file of what was kept, which is never written over something else."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support import records
from support.project import Project

from perfgate.cli import looking
from perfgate.model.metric import Metric


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
    ("arguments", "says", "status"),
    [
        (
            ["out.html", "other"],
            "perfgate: other: no result of it is kept. Kept are: loop.\nMeasure it first: pytest --perfgate\n",
            20,
        ),
        (
            ["lop.html", "lop"],
            "perfgate: lop: no result of it is kept. Perhaps you meant loop.\nName it so: loop\n",
            20,
        ),
        (
            ["nowhere/out.html"],
            "perfgate: nowhere/out.html: the page cannot be written there (No such file or ",
            23,
        ),
    ],
)
def test_what_cannot_be_shown_or_written_is_said(
    here: Project, arguments: list[str], says: str, status: int
) -> None:
    here.keep(records.result(of=here.declared()))
    seen = here.perfgate("page", *arguments)
    assert seen.err.startswith(says)
    assert seen.status == status


def test_a_workload_in_place_of_the_file_is_no_file(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    seen = here.perfgate("page", "loop")
    assert seen.status == 2
    assert "loop is a workload. Name the file first: perfgate page loop.html loop" in seen.err
    assert not (here.root / "loop").exists()


def test_nothing_kept_is_no_page(here: Project) -> None:
    seen = here.perfgate("page", "out.html")
    assert seen.err == (
        "perfgate: page: no result is kept in this project. It shows what a gate has measured.\n"
        "Measure first: pytest --perfgate\n"
    )
    assert not (here.root / "out.html").exists()


def test_another_file_is_not_written_over(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    mine = here.write("mine.html", "<!doctype html><title>My notes</title>")
    seen = here.perfgate("page", "mine.html")
    assert seen.status == 2
    assert "mine.html holds something else than perfgate's page, and would be lost." in seen.err
    refused = here.pytest("--perfgate", "--perfgate-html=mine.html")
    assert refused.status == 4
    assert mine.read_text("utf-8") == "<!doctype html><title>My notes</title>"


def test_a_page_that_the_disk_does_not_take_leaves_the_one_that_was_there(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    page = here.root / "page.html"
    assert here.perfgate("page", "page.html").status == 0
    page.chmod(0o600)
    assert here.perfgate("page", "page.html").status == 0
    assert page.stat().st_mode & 0o777 == 0o600
    before = page.read_bytes()

    def full(*_: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    here.patch.setattr(Path, "replace", full)
    seen = here.perfgate("page", "page.html")
    assert seen.err.startswith(
        "perfgate: page.html: the page cannot be written there (No space left on device). "
    )
    assert (seen.status, page.read_bytes()) == (23, before)
    assert list(here.root.glob(".perfgate-*")) == []


def test_a_page_behind_a_link_or_a_pipe_is_written_there(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    (here.root / "there.html").write_text("", "utf-8")
    (here.root / "page.html").symlink_to("there.html")
    assert here.perfgate("page", "page.html").status == 0
    assert (here.root / "page.html").is_symlink()
    assert "<html" in (here.root / "there.html").read_text("utf-8")
    assert here.perfgate("page", "/dev/null").status == 0


def test_a_page_that_may_not_be_read_is_told(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    assert here.perfgate("page", "page.html").status == 0

    def refuse(_path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    here.patch.setattr(looking, "is_page_or_empty", refuse)
    seen = here.perfgate("page", "page.html")
    assert "page.html: the page cannot be written there (Permission denied)" in seen.err
    assert seen.status == 23


def test_a_gate_writes_its_page(here: Project) -> None:
    here.bless(here.baseline())
    here.measures(records.run({Metric.STEP_MS: 13.0, Metric.H2D_COPIES: 4}))
    assert here.pytest("--perfgate", "--perfgate-html=out/page.html").status == 1
    page = (here.root / "out" / "page.html").read_text("utf-8")
    assert "REGRESSED" in page
    assert here.pytest("--perfgate", "--perfgate-html=out/page.html").status == 1
