"""What the gate says: what it expects, why it does not compare, what it makes, what shuts it."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_BLESS = 'perfgate bless {workload:sh} --reason "..."'
_RESTORE = "Restore it (packages, data, options), or bless anew what is measured now."

_EXPECTED: Final[Rows] = {
    "no-baseline": (
        "there is no baseline to compare with on this machine ({gpu})",
        "",
        f"If these numbers are right, make them the baseline: {_BLESS}",
    ),
    "other-gpu": (
        "its baseline is for {machines:list}, this machine is {here}",
        "Their times are not comparable",
        f"Run where it was blessed, or bless one for this machine: {_BLESS}",
    ),
    "other-machine": (
        "{differences:list;}",
        "Their times are not comparable",
        f"Run as it was blessed, or bless anew: {_BLESS}",
    ),
    "other-parameters": (
        "the baseline is of other parameters: {changes:list}",
        "",
        f"Restore them, or bless the workload as it is now: {_BLESS}",
    ),
    "parameter-changed": "{name} was {then} and is {now}",
    "digest-differs": "its digest differs",
    "older-step-value": (
        "the baseline's step_ms is the {value} period, as perfgate measured it before"
    ),
    "step-value-differs": (
        "step_ms is the {value} period in the baseline, and the mean of capped periods now",
        "",
        (
            "Let the baseline's commit be run again (ab_run not off). If it is meant, bless "
            f"it: {_BLESS}"
        ),
    ),
    "unexpected-machine": (
        "this machine reads as {machine} ({gpu})",
        "This gate is for {expected} (--perfgate-machine, or the setting machine)",
        (
            "See what the driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or correct what is "
            "expected."
        ),
    ),
    "too-late": (
        "the time budget of {budget_s} s was spent before it came to it",
        "",
        "Allow more time (--perfgate-time-budget), or gate fewer workloads at once.",
    ),
}
_ALIKE: Final[Rows] = {
    "other-step-names": "steps were ranges named {before:list}, and are ranges named {now:list}",
    "other-step-count": (
        "{before:range|ranges} matched the pattern of the steps, and {now} do now: those that are "
        "used may be other work"
    ),
    "other-processes": (
        "steps of {now:process|processes} were found, of {then} in what it is compared with"
    ),
    "processes-lost": "steps of {now:process|processes} were found, of {first} in run 1",
    "other-form": (
        "its CUDA graphs were measured in runs made {then:list}, and now in runs made {now:list}: "
        "they take other times where other processes have started meanwhile"
    ),
    "launches-nothing": (
        "most of its steps launch nothing on a GPU, those it is compared with {then:count} "
        "kernels or graphs"
    ),
    "runs-differ": (
        "{differs}",
        "Their values are not comparable",
        (
            "Gate again: the profiler may have lost records, or a process ended early. If it stays "
            "so, correct the pattern of the steps ({file}), or, if it is meant, bless it: "
            f"{_BLESS}"
        ),
    ),
    "sides-differ": (
        "{differs}",
        "Their values are not comparable",
        (
            "Gate again: the profiler may have lost records, or a process ended early. If it stays "
            "so, correct the pattern of the steps ({file}), so that both sides have the same."
        ),
    ),
    "run-unfit": (
        "run {run} does not count: {why:list;}",
        "",
        "Free the GPU or let it cool, and run again.",
    ),
    "run-invalid": (
        "run {run} does not count: {why:list;}",
        "",
        "Remove the cause, and run again.",
    ),
}
_SIDE: Final[Rows] = {
    "reference-unfit": (
        "a run of the other commit does not count: {why:list;}",
        "",
        "Free the GPU or let it cool, and run again.",
    ),
    "reference-invalid": (
        "a run of the other commit does not count: {why:list;}",
        "",
        "Remove the cause, and gate again.",
    ),
    "side-differs-from-blessed": (
        "the baseline's commit does not do what it did when it was blessed: {differs}",
        "Something besides the code has changed",
        _RESTORE,
    ),
    "side-lacks-metrics": (
        "a run of the other commit did not measure {metrics:list}, which are gated",
        "",
        "Gate again. Why a run lacks one, its capture says: perfgate inspect CAPTURE",
    ),
    "side-count-changed": (
        (
            "the baseline's commit does not do what it did when it was blessed: {metric} was "
            "{then:of metric} and is {now:of metric}"
        ),
        "Something besides the code has changed",
        _RESTORE,
    ),
    "needs-several-cores": (
        (
            "a step of the {side} takes {step_ms:ms} ms on one CPU core and at most {alone_ms:ms} "
            "ms alone, where it keeps {cores:count} busy: it does several things at once, and "
            "losing that would not show"
        ),
        "",
        'Compare runs that are alone: ab_run = "alternate" in [tool.perfgate].',
    ),
    "no-time-for-pairs": (
        "the time budget leaves no room for {pairs:pair|pairs}",
        "",
        "Allow more: --perfgate-time-budget",
    ),
    "no-runs-for-pairs": (
        "{runs:run|runs} {runs:~leaves|leave} no room for an A/B run",
        "",
        "Allow {needed}: --perfgate-max-runs={needed}",
    ),
}
_NEXT_TO_VERDICT: Final[Rows] = {
    "no-ab-run": ("No A/B run: {why}", "", "{why:next}"),
    "no-forms": (
        "this gate makes none",
        "",
        'With ab_run = "auto" in [tool.perfgate] it does, where a baseline has a commit.',
    ),
    "no-blocks": ("No A/B run in blocks: {why}", "", "{why:next}"),
    "packages-of-both-sides": (
        "{change}: both sides would run with that, and none would show its loss",
        "",
        (
            "Let ab_setup give the baseline's commit an environment of its own, and name its "
            "interpreter in ab_python. If the new version is to stay, delete the baseline's file, "
            "gate once more and bless anew."
        ),
    ),
    "blessed-runs-differ": (
        "blessed runs on this machine differ too much for stored times to settle it"
    ),
    "straight-to-ab-run": "The quick check does not count: {why}",
    "in-blocks": (
        "In blocks: both sides took turns of a few steps on one CPU core, where steps take another "
        "time than alone; each block is compared with the other side's before and after it"
    ),
    "time-budget-ended": (
        "The time budget ended this after {runs:run|runs}",
        "",
        "Allow more time: --perfgate-time-budget",
    ),
    "clock-may-be-the-loss": (
        (
            "{clock}, which alone can make a step {longer:%} longer: {metrics:list} may have lost "
            "no more than that"
        ),
        "",
        (
            "Let the baseline's commit be run again next to it (a clone with its history, "
            "ab_run not off). If this clock is to stay, delete the baseline's file, gate once more "
            "and "
            f"bless anew: {_BLESS}"
        ),
    ),
    "clock-may-hide-a-loss": (
        (
            "nothing is shown to be slower than when it was blessed, but {clock}: a loss of up to "
            "{rise:%} would not show"
        ),
        "",
        (
            "Let the baseline's commit be run again next to it (a clone with its history, "
            "ab_run not off). If this clock is to stay, delete the baseline's file, gate once more "
            "and "
            f"bless anew: {_BLESS}"
        ),
    ),
    "another-gpu-of-the-model": (
        "Another GPU of the same model than the baseline's: its clocks and memory may differ a "
        "little"
    ),
    "other-version": "the baseline was measured with {name} {then}, this with {name} {now}",
    "cost-of-packages-unseen": (
        "{change}: both sides ran with that, and what it costs is not in this"
    ),
    "baseline-commit-slower": (
        "both sides take {loss:%} longer here than the blessed runs took: the machine, its "
        "software, or something else that no commit holds has become slower"
    ),
    "drift-not-shown": (
        "Small losses have added up to {loss:%} above the best step_ms ever blessed ({best_ms:ms} "
        "ms), which is not yet shown to be more than the budget of {budget:%} ({low:%} to "
        "{high:%})"
    ),
    "metrics-not-measured": "not judged, as neither side measured {metrics:list}: {why}",
    "metrics-not-blessed": (
        "not judged, as the baseline does not have {metrics:list}; bless anew to gate them"
    ),
    "parameters-unread": (
        "not compared with the baseline is what parameters {parameters:list} hold, but for "
        "type and id (plain values are)"
    ),
    "too-few-runs-to-bless": (
        "A baseline needs {runs:run|runs}: gate with --perfgate-runs={runs}; gates of the same "
        "code are joined"
    ),
    "both-sides-are-one-commit": (
        "both sides are commit {commit}: {revision} is what is checked out, without changes, so "
        "no change of the code can be found"
    ),
    "measured-uncommitted": (
        "Measured with uncommitted changes ({paths:list}): a baseline of these runs would have no "
        "A/B run. Commit or ignore them, and gate again, before it is blessed"
    ),
}
_PLAN: Final[Rows] = {
    "plan-nothing": "nothing can be measured",
    "plan-to-show": "nothing to compare with yet: measuring {spending}",
    "plan-counts": "{spending}, for its counts",
    "plan-if-inconclusive": "if that is inconclusive: up to {spending} more",
    "plan-holds": "holds {losses:list}",
    "held-loss": "{metric} to {loss:loss}",
    "plan-time": "about {seconds:s}{at_most}",
    "plan-at-most": ", at most {seconds:s}",
}
_CLOSING: Final[Rows] = {
    "nothing-collected": "no workload was collected, so nothing was measured",
    "expected-not-measured": "{workload}: it was expected, and not measured",
    "workload-shuts": "{workload}: {outcome}",
    "orphan": (
        "{workload}: it has a baseline for this machine{of_file}, and no such workload was "
        "collected{perhaps}; gate with the variables and options that it was blessed with, or, if "
        "it was renamed or deleted on purpose, delete its baseline"
    ),
    "of-file": ", measured from {file}",
    "perhaps-skipped": " (it may be in what was skipped: {files:list})",
    "gpus-lost": (
        "{workloads:list}: blessed on {machines:list}, and not measured on this machine, which "
        "reads as {machine}; see what the driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or, if "
        "this machine is meant, pass --perfgate-machine={machine}"
    ),
    "not-kept": "{workload}: {failure}",
}

TEXT: Final[Rows] = {
    **_EXPECTED,
    **_ALIKE,
    **_SIDE,
    **_NEXT_TO_VERDICT,
    **_PLAN,
    **_CLOSING,
}
"""By code."""
