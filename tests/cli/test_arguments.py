"""Words that name nothing, in every command that takes a workload or a path: refused in a sentence."""

from __future__ import annotations

import os

import pytest
from support.project import Project

LONG = "a" * 300
NO_WORKLOAD = "it is empty, and every workload has a name. See what there is: perfgate show"
NO_FILE = "it is empty, and every file has a name."
TOO_LONG = f"{LONG} cannot be looked at (File name too long)."
NEITHER = (
    " there is neither such a file nor such a workload with a baseline. It takes a baseline's file, a kept result, a "
    "capture, WORKLOAD or WORKLOAD:kept."
)
NO_CAPTURE = "It takes a .nsys-rep, .qdrep or .sqlite file."


@pytest.mark.parametrize(
    ("words", "called", "says"),
    [
        (("bless", "", "--reason", "x"), "[WORKLOADS]...", NO_WORKLOAD),
        (("calibrate", "loop", "", "--kept"), "[WORKLOADS]...", NO_WORKLOAD),
        (("compare", "", "loop"), "A", NO_WORKLOAD),
        (("compare", "loop", ":kept"), "B", NO_WORKLOAD),
        (("explain", ""), "WORKLOAD | A B", NO_WORKLOAD),
        (("explain", "loop", ":kept"), "WORKLOAD | A B", NO_WORKLOAD),
        (("history", ""), "WORKLOAD", NO_WORKLOAD),
        (("page", "page.html", ""), "[WORKLOADS]...", NO_WORKLOAD),
        (("show", ""), "[WORKLOAD]", NO_WORKLOAD),
        (("page", ""), "OUT", NO_FILE),
        (("page", LONG), "OUT", TOO_LONG),
        (("inspect", ""), "CAPTURE", NO_FILE),
        (("inspect", LONG), "CAPTURE", TOO_LONG),
        (("merge", ""), "FOLDER...", NO_FILE),
        (("merge", LONG), "FOLDER...", TOO_LONG),
        (("demo", "--keep", LONG), "--keep", TOO_LONG),
    ],
)
def test_a_word_that_can_name_nothing_is_wrong_usage(
    here: Project, words: tuple[str, ...], called: str, says: str
) -> None:
    seen = here.perfgate(*words)
    assert seen.err.splitlines()[-1] == f"Error: Invalid value for '{called}': {says}"
    assert (seen.out, seen.status) == ("", 2)


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        (("compare", "loop", LONG), f"{LONG}:{NEITHER}", 18),
        (("explain", "loop", f"{LONG}/x"), f"{LONG}/x:{NEITHER}", 18),
        (("explain", LONG), f"{LONG}: no result of it is kept. Kept are: none.", 20),
        (
            ("compare", "loop", f"{LONG}/result.json"),
            f"{LONG}/result.json: the kept result cannot be read",
            21,
        ),
        (
            ("compare", f"{LONG}.sqlite", f"{LONG}.sqlite"),
            f"{LONG}.sqlite: there is no such file. {NO_CAPTURE}",
            14,
        ),
        (
            ("compare", "pipe.sqlite", "pipe.sqlite"),
            f"pipe.sqlite: this is no plain file. {NO_CAPTURE}",
            14,
        ),
        (("inspect", "/dev/null"), f"/dev/null: this is no plain file. {NO_CAPTURE}", 14),
    ],
)
def test_what_no_file_can_be_called_is_no_file(
    here: Project, words: tuple[str, ...], says: str, status: int
) -> None:
    here.bless(here.baseline())
    os.mkfifo(here.root / "pipe.sqlite")
    seen = here.perfgate(*words)
    assert seen.err.startswith(f"perfgate: {says}")
    assert (seen.out, seen.status) == ("", status)
