"""What is said of git: what it cannot tell, and which commits it does not have."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_ASKED: Final = "perfgate asks git which code it measures"

TEXT: Final[Rows] = {
    "git-timed-out": (
        "{root:quote}: git {verb} took longer than {limit_s:s}",
        _ASKED,
        "See what it waits for: git -C {root:sh} {verb}",
    ),
    "git-not-started": (
        "{root:quote}: git could not be started ({why})",
        _ASKED,
        "Install git, and run perfgate inside the project.",
    ),
    "git-failed": (
        "{root:quote}: git {verb} failed: {why:quote}",
        _ASKED,
        "See what git says: git -C {root:sh} {verb}",
    ),
    "repository-of-another-user": (
        "{root:quote}: git refuses it, since it belongs to another user",
        _ASKED,
        "If you trust it: git config --global --add safe.directory {folder:sh}",
    ),
    "no-repository": (
        "{root:quote}: it is not in a git repository",
        _ASKED,
        "Run perfgate in a checkout of the project.",
    ),
    "not-in-checkout": (
        "{root:quote}: it is in no checkout of its repository",
        _ASKED,
        "Run perfgate in a checkout of the project.",
    ),
    "no-commit-yet": (
        "{root:quote}: the repository has no commit yet",
        "A measurement names the commit that it measured",
        "Commit the code, then run again.",
    ),
    "git-checkout-failed": (
        "commit {commit}: it cannot be checked out: {why:quote}",
        "It is checked out to be run next to the project",
        (
            "Make room or correct the permissions; fetch files of Git LFS before (or set "
            "GIT_LFS_SKIP_SMUDGE=1 and pull them in ab_setup); clone without --filter. By hand: "
            "git -C {root:sh} worktree add --detach FOLDER {commit}"
        ),
    ),
    "revision-not-in-clone": (
        "commit {revision}: it is not in this clone",
        "A commit has to be there to be run again",
        (
            "Look for its name (git branch --all, git tag) or fetch it (git fetch --all --tags); "
            "bless anew if the history was rewritten."
        ),
    ),
    "revision-not-in-shallow-clone": (
        "commit {revision}: it is not in this clone, which is shallow",
        "A commit has to be there to be run again",
        (
            "In GitHub Actions set fetch-depth: 0 of checkout; elsewhere fetch the whole history: "
            "git fetch --unshallow"
        ),
    ),
    "revision-not-fetched": (
        "commit {revision}: it is not in this clone, and no remote gave it ({why:quote})",
        "A commit has to be there to be run again",
        "Fetch it (git fetch origin {revision}), or bless anew if the history was rewritten.",
    ),
    "no-sha": (
        "{sha:quote} is no commit's SHA",
        "A record names the commit that was measured by 40 or 64 hex digits",
        "Bless anew.",
    ),
}
"""By code."""
