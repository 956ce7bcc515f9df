"""What views says: of histories, of two sides that are compared, of kernels under ncu."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_NAME_TWO: Final = (
    'Name two things (perfgate explain A B), or bless one first: perfgate bless --reason "..."'
)
_NO_FIGURES: Final = "{kernel}: ncu has no figures of it: {line:quote}"
_ANOTHER_NCU: Final = (
    "perfgate has read reports of ncu 2024.2",
    "Use another ncu through PERFGATE_NCU, and report this one.",
)

_HISTORIES: Final[Rows] = {
    "history-shallow": (
        "{workload}: this clone, which is shallow, has no baseline of it",
        "",
        (
            "In GitHub Actions set fetch-depth: 0; elsewhere fetch the whole history: git fetch "
            "--unshallow"
        ),
    ),
    "history-unlike": "{name} {then}, then {now}",
}

_SIDES: Final[Rows] = {
    "step-of-run": "{run}, step {step} of {steps}",
    "side-next-to-it": "{commit}, run next to it",
    "side-other-commit": "another commit, run next to it",
    "side-blessed-since": "{path:quote}, blessed {at} UTC, after b was measured",
    "result-without-runs": (
        "{workload}: the result in {folder:quote} has no run: {outcome}, {why}",
        "What is compared was measured",
        "Mend that and gate again, or name another of {folders:quote}: perfgate explain A B",
    ),
    "compared-baseline-gone": (
        "{workload}: the baseline on {machine} that its result was compared with is gone",
        "",
        _NAME_TWO,
    ),
    "compared-with-nothing": (
        "{workload}: it has no baseline on {machine}, so its result was compared with nothing",
        "",
        _NAME_TWO,
    ),
    "rules-no-capture": "the capture of b is not at hand",
    "rules-too-large": "the capture of b is larger than {limit_bytes:size}; --rules asks them",
    "rules-blind": "the capture of b lacks {kinds:list}",
    "rules-alone": "a has no capture at hand",
    "rules-no-nsys": "no nsys is here; perfgate doctor says where it is looked for",
}

_KERNELS: Final[Rows] = {
    "kernel-not-seen": "it was not launched in the steps that were looked at",
    "kernel-symbol-unknown": "no capture at hand has its symbol",
    "kernel-not-launched": "it is not launched there",
    "commit-unsaid": "the result does not say which commit ran in its A/B run",
    "commit-no-baseline": "there is no baseline",
    "commit-dirty": "the baseline was measured with uncommitted changes, which no commit holds",
    "commit-unknown": "the baseline does not say at which commit it was measured",
    "probed-other-code": "The project's code is not that of b any more: now is what it is today",
    "probed-other-parameters": (
        "The workload's parameters are not those of b any more: now is with those of today"
    ),
    "probed-elsewhere": "b was measured on {there}: both sides here are of {here}",
    "probed-other-shape": "{kernel}: its first launch is of another shape than before",
    "ncu-not-run": (
        "{kernel}: ncu could not be run: {reason}",
        "",
        "See to that, then run it again.",
    ),
    "ncu-report-unread": (
        "{kernel}: reading ncu's report ended with status {status}",
        "",
        "See {log:quote}.",
    ),
    "ncu-trouble": (_NO_FIGURES, "", "See {log:quote}."),
    "ncu-no-permission": (
        _NO_FIGURES,
        "",
        (
            "Let this user read the GPU's counters, or run it as root: "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        ),
    ),
    "ncu-counters-taken": (
        _NO_FIGURES,
        "",
        "Something else reads the GPU's counters, DCGM most often. Pause it: dcgmi profile --pause",
    ),
    "ncu-locked": (
        _NO_FIGURES,
        "",
        (
            "Another user's ncu has left its lock: remove nsight-compute-lock from TMPDIR or "
            "/tmp, as root."
        ),
    ),
    "ncu-no-driver": (
        _NO_FIGURES,
        "",
        (
            "No NVIDIA driver answers, or a stub of libcuda.so comes before it on "
            "LD_LIBRARY_PATH. Run: perfgate doctor"
        ),
    ),
    "ncu-no-counters": (
        _NO_FIGURES,
        "",
        (
            "ncu cannot read counters on this machine; some sandboxes and virtual GPUs do not "
            "let it. Use another one."
        ),
    ),
    "ncu-gpu-unknown": (_NO_FIGURES, "", "Use an ncu that knows this GPU, through PERFGATE_NCU."),
    "ncu-sections-missing": (
        _NO_FIGURES,
        "",
        "Install ncu whole, sections and all, or set PERFGATE_NCU to another one.",
    ),
    "ncu-option-unknown": (
        _NO_FIGURES,
        "",
        "Use another ncu through PERFGATE_NCU, and report this one.",
    ),
    "ncu-column-missing": (
        "{path:quote}: its table lacks the column {column}; it begins with {begins}",
        *_ANOTHER_NCU,
    ),
    "ncu-rows-uneven": (
        "{path:quote}: its table has no row of units, or rows of unequal length",
        *_ANOTHER_NCU,
    ),
    "ncu-metric-missing": ("{path:quote}: it lacks all of {metrics:list}", *_ANOTHER_NCU),
    "ncu-unit-unknown": (
        "{path:quote}: {column} is in {value}, and perfgate knows it in {known:list}",
        *_ANOTHER_NCU,
    ),
    "ncu-no-number": ("{path:quote}: {column} holds {value}, no number", *_ANOTHER_NCU),
}

TEXT: Final[Rows] = {**_HISTORIES, **_SIDES, **_KERNELS}
"""By code."""
