"""What is said of the other side of an A/B run: which commit it is, whether it runs, whether it is
what was blessed."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

TEXT: Final[Rows] = {
    "baseline-without-commit": (
        "the baseline does not say at which commit it was measured",
        "",
        "Measure in a git repository and bless anew, so that it can be run again.",
    ),
    "baseline-of-uncommitted-changes": (
        (
            "the baseline was measured at commit {commit} with uncommitted changes, which no "
            "commit holds"
        ),
        "",
        "Bless from a commit without changes, so that it can be run again.",
    ),
    "side-does-not-run": (
        "{workload} at {commit}: it does not run there: {failure}",
        "",
        (
            "A checkout has neither submodules nor files that git ignores: ab_setup can "
            "make them there, or link them.\n{failure:next}"
        ),
    ),
    "failed-in-blocks": (
        "{failure}",
        "In blocks it takes {turns} turns, not {turns_alone}",
        (
            'Let data that end before that begin again, or set ab_run = "alternate" in '
            "[tool.perfgate].\n{failure:next}"
        ),
    ),
    "files-not-as-blessed": (
        "{workload} at {commit}: the commit's files are not those that were blessed",
        (
            "They load others now, or git writes them here with other bytes (line ends, filters, "
            "submodules)"
        ),
        "Bless from a fresh checkout, so that the commit can be run again.",
    ),
}
"""By code."""
