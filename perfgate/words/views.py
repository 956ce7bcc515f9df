"""What views says: of histories, of two sides that are compared, of kernels under ncu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_NAME_TWO: Final = (
    'Name two things (perfgate explain A B), or bless one first: perfgate bless --reason "..."'
)
_NO_FIGURES: Final = "{kernel}: ncu has no figures of it: {line:quote}"
_ANOTHER_NCU: Final = (
    "perfgate has read reports of ncu 2024.2",
    "Use another ncu through PERFGATE_NCU, and report this one.",
)

_HISTORIES: Final[Mapping[str, Text]] = {
    "history-shallow": Text(
        "{workload}: this clone, which is shallow, has no baseline of it",
        next_step=(
            "In GitHub Actions set fetch-depth: 0; elsewhere fetch the whole history: git fetch "
            "--unshallow"
        ),
    ),
    "history-unlike": Text("{name} {then}, then {now}"),
}

_SIDES: Final[Mapping[str, Text]] = {
    "step-of-run": Text("{run}, step {step} of {steps}"),
    "side-next-to-it": Text("{commit}, run next to it"),
    "side-other-commit": Text("another commit, run next to it"),
    "side-blessed-since": Text("{path:quote}, blessed {at} UTC, after b was measured"),
    "trace-unwritten": Text(
        "{file}: the trace cannot be written there ({reason})",
        next_step="Give it a file that can be written.",
    ),
    "capture-missing": Text(
        "{path:quote}: there is no such file",
        "It takes a .nsys-rep, .qdrep or .sqlite file",
        "Check the path.",
    ),
    "capture-is-folder": Text(
        "{path:quote}: this is a folder",
        "It takes a .nsys-rep, .qdrep or .sqlite file",
        "Check the path.",
    ),
    "result-without-runs": Text(
        "{workload}: the result in {folder:quote} has no run: {outcome}, {why}",
        "What is compared was measured",
        "Mend that and gate again, or name another of {folders:quote}: perfgate explain A B",
    ),
    "compared-baseline-gone": Text(
        "{workload}: the baseline on {machine} that its result was compared with is gone",
        next_step=_NAME_TWO,
    ),
    "compared-with-nothing": Text(
        "{workload}: it has no baseline on {machine}, so its result was compared with nothing",
        next_step=_NAME_TWO,
    ),
    "rules-no-capture": Text("the capture of b is not at hand"),
    "rules-too-large": Text(
        "the capture of b is larger than {limit_bytes:size}; --rules asks them"
    ),
    "rules-blind": Text("the capture of b lacks {kinds:list}"),
    "rules-alone": Text("a has no capture at hand"),
    "rules-no-nsys": Text("no nsys is here; perfgate doctor says where it is looked for"),
    "rules-graphs-unlike": Text("not compared: CUDA graphs were traced in different ways"),
    "rules-recorded-unlike": Text("not compared: {sides:list}"),
    "capture-lacks": Text("{side} lacks {kinds:list}"),
}

_KERNELS: Final[Mapping[str, Text]] = {
    "kernel-not-seen": Text("it was not launched in the steps that were looked at"),
    "kernel-symbol-unknown": Text("no capture at hand has its symbol"),
    "kernel-not-launched": Text("it is not launched there"),
    "commit-unsaid": Text("the result does not say which commit ran in its A/B run"),
    "commit-no-baseline": Text("there is no baseline"),
    "commit-dirty": Text(
        "the baseline was measured with uncommitted changes, which no commit holds"
    ),
    "commit-unknown": Text("the baseline does not say at which commit it was measured"),
    "probed-other-code": Text(
        "The project's code is not that of b any more: now is what it is today"
    ),
    "probed-other-parameters": Text(
        "The workload's parameters are not those of b any more: now is with those of today"
    ),
    "probed-elsewhere": Text("b was measured on {there}: both sides here are of {here}"),
    "probed-other-shape": Text("{kernel}: its first launch is of another shape than before"),
    "ncu-not-run": Text(
        "{kernel}: ncu could not be run: {reason}", next_step="See to that, then run it again."
    ),
    "ncu-report-unread": Text(
        "{kernel}: reading ncu's report ended with status {status}", next_step="See {log:quote}."
    ),
    "ncu-another-kernel": Text(
        "{kernel}: ncu has looked at another kernel, {found}",
        "It was asked for {asked}",
        "See {log:quote}.",
    ),
    "ncu-trouble": Text(_NO_FIGURES, next_step="See {log:quote}."),
    "ncu-no-permission": Text(
        _NO_FIGURES,
        next_step="Let this user read the GPU's counters, or run it as root: "
        "https://developer.nvidia.com/ERR_NVGPUCTRPERM",
    ),
    "ncu-counters-taken": Text(
        _NO_FIGURES,
        next_step="Something else reads the GPU's counters, DCGM most often. "
        "Pause it: dcgmi profile --pause",
    ),
    "ncu-locked": Text(
        _NO_FIGURES,
        next_step="Another user's ncu has left its lock: remove nsight-compute-lock from TMPDIR or "
        "/tmp, as root.",
    ),
    "ncu-no-driver": Text(
        _NO_FIGURES,
        next_step="No NVIDIA driver answers, or a stub of libcuda.so comes before it on "
        "LD_LIBRARY_PATH. Run: perfgate doctor",
    ),
    "ncu-no-counters": Text(
        _NO_FIGURES,
        next_step=(
            "ncu cannot read counters on this machine; some sandboxes and virtual GPUs do not "
            "let it. Use another one."
        ),
    ),
    "ncu-gpu-unknown": Text(
        _NO_FIGURES, next_step="Use an ncu that knows this GPU, through PERFGATE_NCU."
    ),
    "ncu-sections-missing": Text(
        _NO_FIGURES,
        next_step="Install ncu whole, sections and all, or set PERFGATE_NCU to another one.",
    ),
    "ncu-option-unknown": Text(
        _NO_FIGURES, next_step="Use another ncu through PERFGATE_NCU, and report this one."
    ),
    "ncu-column-missing": Text(
        "{path:quote}: its table lacks the column {column}; it begins with {begins}", *_ANOTHER_NCU
    ),
    "ncu-rows-uneven": Text(
        "{path:quote}: its table has no row of units, or rows of unequal length", *_ANOTHER_NCU
    ),
    "ncu-metric-missing": Text("{path:quote}: it lacks all of {metrics:list}", *_ANOTHER_NCU),
    "ncu-unit-unknown": Text(
        "{path:quote}: {column} is in {value}, and perfgate knows it in {known:list}", *_ANOTHER_NCU
    ),
    "ncu-no-number": Text("{path:quote}: {column} holds {value}, no number", *_ANOTHER_NCU),
}

TEXT: Final[Mapping[str, Text]] = {**_HISTORIES, **_SIDES, **_KERNELS}
"""By code."""
