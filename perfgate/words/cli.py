"""What the commands say: what they cannot find, and what does not go together."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_BLESS: Final = 'Make one: pytest --perfgate; perfgate bless --reason "..."'
_TAKEN: Final = (
    "It takes a baseline's file, a kept result, a capture (.nsys-rep, .qdrep or .sqlite), WORKLOAD "
    "or WORKLOAD:kept"
)
_LIST: Final = "See them all: pytest --perfgate --collect-only -q"
_MEASURE: Final = "Measure first: pytest --perfgate"

TEXT: Final[Rows] = {
    # Nothing of that name
    "baselines-none": ("{subject:quote}: there is no baseline", "", _BLESS),
    "baseline-unknown": (
        "{subject:quote}: there is no baseline",
        "There are baselines of {known:list}",
        _BLESS,
    ),
    "baseline-not-here": (
        "{subject:quote}: there is no baseline of this machine ({machine})",
        "What is calibrated is a baseline",
        _BLESS,
    ),
    "results-none": ("no result that could be used is kept in this project", "", _MEASURE),
    "result-unknown": (
        "{subject:quote}: no result of it is kept",
        "Some are of {known:list}",
        _MEASURE,
    ),
    "workload-unknown": (
        "{subject:quote}: there is no such workload",
        "There are {known:list}",
        _LIST,
    ),
    "subject-missing": (
        "{subject:quote}: this is no file that can be compared, and no workload with a baseline",
        _TAKEN,
        "See what there is: perfgate show",
    ),
    "subject-several": (
        "{subject:quote}: it has {count} baselines",
        "One of them can be compared",
        "Name its file: {files:list}",
    ),
    "capture-without-step": (
        "{subject:quote}: without --step, a capture is measured as one window",
        "The other side is per step",
        "Name the range of its steps: --step REGEX (of perfgate's own captures: --step step)",
    ),
    "gpu-missing": (
        "{subject:quote}: no NVIDIA GPU is here",
        "ncu looks at kernels while they run",
        "Run it where the gate runs, with .perfgate/ at hand.",
    ),
    # Refused
    "stdout-refused": (
        "stdout: it does not take what is printed ({reason})",
        "",
        "Give it a place with room, or print to the terminal.",
    ),
    "gate-unfinished": (
        "calibrate: the gate that was to measure the repeats ended with exit status {exit_status}",
        "The baselines are as they were",
        "See what pytest says above.",
    ),
    "baseline-commit": "Commit the baselines in a commit of their own",
    "selftest-without-gpu": (
        (
            "This machine has no GPU that a workload would see, so nothing can be shown of a gate "
            "on it"
        ),
        "",
        (
            "Run on a machine with one (perfgate doctor says what is missing), or try only the "
            "path: perfgate selftest --cpu"
        ),
    ),
    # Words of a command that do not go together
    "hold-invalid": "'{value}' is no budget: expected auto, or a fraction such as 0.08 or 8%",
    "out-odd": (
        "{out:quote}: nothing is written there",
        "OUT, the file that is made, comes first, ends in {ending}, and is no baseline",
        "Name it: {command:raw} OUT{ending}",
    ),
    "options-contradict": ("{option} and {other} do not go together", "", "Leave one out."),
    "option-idle": (
        "{option} has no effect without {needed}",
        "",
        "Give {needed} as well, or leave it out.",
    ),
    "trace-subjects": "It takes workloads, or one capture, and this is {words:list}",
    "explain-subjects": "It takes a workload, or two things to compare, and this is {words:list}",
}
