"""Words that name nothing, in every command that takes a workload or a path: refused in a sentence."""

from __future__ import annotations

import os

import pytest
from support.project import Project

LONG = "a" * 300


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (("bless", "", "--reason", "x"), "[WORKLOADS]..."),
        (("calibrate", "loop", "", "--kept"), "[WORKLOADS]..."),
        (("compare", "", "loop"), "A"),
        (("compare", "loop", ":kept"), "B"),
        (("explain", ""), "WORKLOAD | A B"),
        (("explain", "loop", ":kept"), "WORKLOAD | A B"),
        (("history", ""), "WORKLOAD"),
        (("page", "page.html", ""), "[WORKLOADS]..."),
        (("show", ""), "[WORKLOAD]"),
        (("page", ""), "OUT"),
        (("page", LONG), "OUT"),
        (("inspect", ""), "CAPTURE"),
        (("inspect", LONG), "CAPTURE"),
        (("merge", ""), "FOLDER..."),
        (("merge", LONG), "FOLDER..."),
        (("demo", "--keep", LONG), "--keep"),
    ],
)
def test_a_word_that_can_name_nothing_is_wrong_usage(
    here: Project, words: tuple[str, ...], called: str
) -> None:
    seen = here.perfgate(*words)
    assert f"Error: Invalid value for '{called}': " in seen.err
    assert (seen.out, seen.status) == ("", 2)


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("compare", "loop", LONG), "subject-missing", 18),
        (("explain", "loop", f"{LONG}/x"), "subject-missing", 18),
        (("explain", LONG), "results-none", 20),
        (("compare", "loop", f"{LONG}/result.json"), None, 21),
        (("compare", f"{LONG}.sqlite", f"{LONG}.sqlite"), "capture-file-missing", 14),
        (("compare", "pipe.sqlite", "pipe.sqlite"), "capture-not-plain", 14),
        (("inspect", "/dev/null"), "capture-not-plain", 14),
    ],
)
def test_what_no_file_can_be_called_is_no_file(
    here: Project, words: tuple[str, ...], code: str | None, status: int
) -> None:
    here.bless(here.baseline())
    os.mkfifo(here.root / "pipe.sqlite")
    seen = here.perfgate(*words)
    assert (seen.out, seen.status) == ("", status)
    assert code is None or seen.codes == {code}
