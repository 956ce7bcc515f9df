"""What is said of files: baselines and kept results that are missing, broken or not written."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_ANEW: Final = 'gate once more and bless anew: perfgate bless {workload:sh} --reason "..."'
_RESTORE: Final = (
    f"Restore it (git checkout HEAD -- {{path:sh}}, or from an older commit), or delete it, {_ANEW}"
)
_MEASURE: Final = "Measure again: pytest --perfgate"
_UPGRADE: Final = "Upgrade perfgate, or delete the file, "
_UNCHANGED: Final = "What was there before is unchanged"

TEXT: Final[Rows] = {
    "baseline-not-there": (
        "{path:raw}: there is no such file",
        "A baseline was expected there",
        "Check the path; perfgate show lists the baselines of this project.",
    ),
    "baseline-vanished": ("{path:raw}: the file was listed and is gone", "", "Run again."),
    "baseline-not-readable": (
        "{path:raw}: it cannot be read ({strerror})",
        "",
        "Make it one that this user may read.",
    ),
    "baseline-link-to-nowhere": (
        "{path:raw}: it is a link to nowhere",
        "Nobody knows whether there is a baseline behind it",
        "Restore what it leads to, or delete the link.",
    ),
    "baseline-is-link": (
        "{path:raw}: it is a link",
        "What it leads to may be others' too, so it is neither written nor replaced",
        "Put a copy of that file in its place, or delete the link; then bless again.",
    ),
    "baseline-of-another-workload": (
        "{path:raw}: the baseline in it is that of {found}",
        "A renamed workload is another workload, with a baseline of its own",
        _RESTORE,
    ),
    "baseline-in-wrong-folder": (
        "{path:raw}: the baseline in it is that of {gpu}",
        "Its place is the folder {slug}; here it compares with nothing",
        "Move it there or delete it, and bless on the machine that this folder is for.",
    ),
    "baseline-changed-meanwhile": (
        "{path:raw}: {what}",
        "The file is no longer what the new baseline was compared with; nothing was changed",
        "Look at what is there now (git log, perfgate show), then bless again.",
    ),
    "baseline-was-deleted": "it was deleted",
    "baseline-was-written": "another baseline was written",
    "baseline-lfs-pointer": (
        "{path:raw}: the file is a Git LFS pointer, not the baseline",
        "A baseline is a few KB and belongs in git itself",
        "Fetch it: git lfs pull",
    ),
    "baseline-conflict": (
        "{path:raw}: the file holds merge-conflict markers",
        "Two baselines cannot be merged: each is one measurement",
        (
            "Keep one of them, by --ours, --theirs or, where the markers are committed, the name "
            "of a commit without them: "
            "git checkout --ours -- {path:sh}"
        ),
    ),
    "baseline-broken": ("{path:raw}: the baseline is broken: {why:raw}", "", _RESTORE),
    "json-empty": "it is empty",
    "json-unreadable": "{problem:raw}",
    "json-nested-too-deeply": "it is nested too deeply",
    "json-no-object": "it is not a JSON object",
    "json-key-twice": "it holds the key {key:raw} twice",
    "baseline-other-format": (
        "{path:raw}: the baseline has format {number}",
        "This perfgate reads formats 1 to {newest}",
        _UPGRADE + _ANEW,
    ),
    "baseline-does-not-fit": ("{path:raw}: the baseline does not fit: {why:raw}", "", _RESTORE),
    "baseline-edited": (
        "{path:raw}: the baseline was changed after it was blessed",
        "Its seal must match its content: a baseline is measured and blessed, never edited",
        _RESTORE,
    ),
    "result-not-there": ("{path:raw}: there is no such file", "", _MEASURE),
    "result-not-readable": ("{path:raw}: it cannot be read ({strerror})", "", _MEASURE),
    "result-broken": ("{path:raw}: the kept result is broken: {why:raw}", "", _MEASURE),
    "result-does-not-fit": (
        "{path:raw}: the kept result does not fit: {why:raw}",
        "",
        "Measure again with this perfgate: pytest --perfgate",
    ),
    "results-not-listed": (
        "{path:raw}: what is kept there cannot be listed ({strerror})",
        "",
        "Let this user read it: whoever gated last owns it.",
    ),
    "document-of-too-many": (
        "the gate's document: there are {workloads:count} workloads",
        "A document holds {most:count}",
        "Gate the workloads in parts.",
    ),
    "document-too-large": (
        "the gate's document: it is too large",
        "A document has {largest:count} bytes at most",
        "Gate the workloads in parts.",
    ),
    "disk-too-large": (
        "{path:raw}: it would have {n_bytes:count} bytes",
        "It is read up to {largest:count} bytes",
        "Measure fewer steps, processes or ranges.",
    ),
    "disk-failed": (
        "{path:raw}: it could not be written ({strerror})",
        _UNCHANGED,
        (
            "Free some space (old captures lie under .perfgate/results), or make it writable for "
            "this user; then run again."
        ),
    ),
}
