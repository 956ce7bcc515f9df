"""What the gate says: what it expects, why it does not compare, what it makes, what shuts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_BLESS = 'perfgate bless {workload:sh} --reason "..."'

_EXPECTED: Final[Mapping[str, Text]] = {
    "no-baseline": Text(
        "there is no baseline to compare with on this machine ({gpu})",
        next_step=f"If these numbers are right, make them the baseline: {_BLESS}",
    ),
    "other-gpu": Text(
        "its baseline is for {gpus:list}, this machine is {here}",
        "Their times are not comparable",
        f"Run where it was blessed, or bless one for this machine: {_BLESS}",
    ),
    "baseline-misplaced": Text(
        "its baseline for this machine is {files:list}, where none is looked for",
        "The folder is to be named {folder}",
        f"Rename the folder, or bless one anew: {_BLESS}",
    ),
    "other-machine": Text(
        "{differences:list;}",
        "Their times are not comparable",
        f"Run as it was blessed, or bless anew: {_BLESS}",
    ),
    "other-parameters": Text(
        "the baseline is of other parameters: {changes:list}",
        next_step=f"Restore them, or bless the workload as it is now: {_BLESS}",
    ),
    "parameter-changed": Text("{name} was {then} and is {now}"),
    "digest-differs": Text("its digest differs"),
    "older-step-value": Text(
        "the baseline's step_ms is the {value} period, as perfgate measured it before"
    ),
    "step-value-differs": Text(
        "step_ms is the {value} period in the baseline, and the mean of capped periods now",
        next_step="Let the baseline's commit be run again (ab_run not off). If it is meant, bless "
        f"it: {_BLESS}",
    ),
    "unexpected-machine": Text(
        "this machine reads as {machine} ({gpu})",
        "This gate is for {expected} (--perfgate-machine, or the setting machine)",
        "See what the driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or correct what is "
        "expected.",
    ),
    "too-late": Text(
        "the time budget of {budget_s} s was spent before it came to it",
        next_step="Allow more time (--perfgate-time-budget), or gate fewer workloads at once.",
    ),
}
_ALIKE: Final[Mapping[str, Text]] = {
    "other-step-names": Text(
        "steps were ranges named {before:list}, and are ranges named {now:list}"
    ),
    "other-step-count": Text(
        "{before:range|ranges} matched the pattern of the steps, and {now} do now: those that are "
        "used may be other work"
    ),
    "other-processes": Text(
        "steps of {now:process|processes} were found, of {then} in the baseline"
    ),
    "processes-lost": Text("steps of {now:process|processes} were found, of {first} in run 1"),
    "other-form": Text(
        "its CUDA graphs were measured in runs made {then:list}, and now in runs made {now:list}: "
        "they take other times where other processes have started meanwhile"
    ),
    "launches-nothing": Text(
        "most of its steps launch nothing on a GPU, those it is compared with {then:count} "
        "kernels or graphs"
    ),
    "steps-differ": Text(
        "{differs}",
        "Their times are not comparable",
        f"Correct the pattern of the steps ({{file}}), or bless what they are now: {_BLESS}",
    ),
    "sides-of-other-steps": Text(
        "{differs}",
        "Their times are not comparable",
        "Correct the pattern of the steps ({file}), so that both sides have the same.",
    ),
    "runs-differ": Text(
        "{differs}",
        "Their values are not comparable",
        "Gate again: the profiler may have lost records, or a process ended early. If it is "
        f"meant, bless it: {_BLESS}",
    ),
    "candidate-launches-nothing": Text(
        "{differs}",
        "Their values are not comparable",
        "Gate again: the profiler may have lost records.",
    ),
    "run-unfit": Text(
        "run {run} does not count: {why:list;}",
        next_step="Free the GPU or let it cool, and run again.",
    ),
    "run-invalid": Text(
        "run {run} does not count: {why:list;}",
        next_step="Remove the cause, and run again.",
    ),
}
_SIDE: Final[Mapping[str, Text]] = {
    "reference-unfit": Text(
        "a run of the other commit does not count: {why:list;}",
        next_step="Free the GPU or let it cool, and run again.",
    ),
    "reference-invalid": Text("a run of the other commit does not count: {why:list;}"),
    "sides-of-other-processes": Text(
        "steps of {there:process|processes} were found in the other commit, of {here} in the "
        "candidate"
    ),
    "side-differs-from-blessed": Text(
        "the baseline's commit does not do what it did when it was blessed: {differs}"
    ),
    "side-lacks-metrics": Text(
        "the baseline gates {metrics:list}, which a run of its commit did not measure here"
    ),
    "side-count-changed": Text(
        "the baseline's commit does not do what it did when it was blessed: {metric} was "
        "{then:of metric} and is {now:of metric}",
        "Something besides the code has changed",
    ),
    "side-measured-unevenly": Text(
        "of the other commit's runs, some measured {metrics:list} and some did not",
        next_step="Run it again. Why a run lacks one, its capture says: perfgate inspect CAPTURE",
    ),
    "needs-several-cores": Text(
        "a step of the {side} takes {step_ms:ms} ms on one CPU core and at most {alone_ms:ms} ms "
        "alone, where it keeps {cores:count} busy: it does several things at once, and losing "
        "that would not show",
        next_step='Compare runs that are alone: ab_run = "alternate" in [tool.perfgate].',
    ),
    "no-time-for-pairs": Text(
        "the time budget leaves no room for {pairs:pair|pairs}",
        next_step="Allow more: --perfgate-time-budget",
    ),
    "no-runs-for-pairs": Text(
        "{runs:run|runs} {runs:~leaves|leave} no room for an A/B run",
        next_step="Allow {needed}: --perfgate-max-runs={needed}",
    ),
}
_NEXT_TO_VERDICT: Final[Mapping[str, Text]] = {
    "no-ab-run": Text("No A/B run: {why}", next_step="{why:next}"),
    "no-forms": Text(
        "this gate makes none",
        next_step='With ab_run = "auto" in [tool.perfgate] it does, where a baseline has a commit.',
    ),
    "no-blocks": Text("No A/B run in blocks: {why}", next_step="{why:next}"),
    "packages-of-both-sides": Text(
        "{change}: both sides would run with that, and none would show its loss"
    ),
    "blessed-runs-differ": Text(
        "the blessed runs differ too much among themselves for stored times to settle it"
    ),
    "straight-to-ab-run": Text("Skipped the quick check: {why}"),
    "in-blocks": Text(
        "In blocks: both sides took turns of a few steps on one CPU core, where steps take another "
        "time than alone; each block is compared with the other side's before and after it"
    ),
    "time-budget-ended": Text(
        "The time budget ended this after {runs:run|runs}",
        next_step="Allow more time: --perfgate-time-budget",
    ),
    "clock-may-be-the-loss": Text(
        "{clock}, which alone can make a step {longer:%} longer: {metrics:list} may have lost no "
        "more than that",
        next_step="Let the baseline's commit be run again next to it (a clone with its history, "
        "ab_run not off). If this clock is to stay, delete the baseline's file, gate once more and "
        f"bless anew: {_BLESS}",
    ),
    "clock-may-hide-a-loss": Text(
        "nothing is shown to be slower than when it was blessed, but {clock}: a loss of up to "
        "{rise:%} would not show",
        next_step="Let the baseline's commit be run again next to it (a clone with its history, "
        "ab_run not off). If this clock is to stay, delete the baseline's file, gate once more and "
        f"bless anew: {_BLESS}",
    ),
    "another-gpu-of-the-model": Text(
        "Another GPU of the same model than the baseline's: its clocks and memory may differ a "
        "little"
    ),
    "other-version": Text("the baseline was measured with {name} {then}, this with {name} {now}"),
    "cost-of-packages-unseen": Text(
        "{change}: both sides ran with that, and what it costs is not in this"
    ),
    "baseline-commit-slower": Text(
        "the baseline's commit itself takes {loss:%} longer here than when it was blessed: the "
        "machine, its software, or something else that no commit holds has become slower"
    ),
    "drift-not-shown": Text(
        "Small losses have added up to {loss:%} above the best step_ms ever blessed ({best_ms:ms} "
        "ms), which is not yet shown to be more than the budget of {budget:%} ({low:%} to "
        "{high:%})"
    ),
    "metrics-not-measured": Text("not judged, as neither side measured {metrics:list}: {why}"),
    "metrics-not-blessed": Text(
        "not judged, as the baseline does not have {metrics:list}; bless anew to gate them"
    ),
    "parameters-unread": Text(
        "not compared with the baseline is what parameters {parameters:list} hold, but for "
        "type and id "
        "(plain values and dataclasses are)"
    ),
    "too-few-runs-to-bless": Text(
        "A baseline needs {runs:run|runs}: gate with --perfgate-runs={runs}; gates of the same "
        "code are joined"
    ),
    "runs-too-coarse": Text(
        "Runs differ so much that stored runs could hold no budget of step_ms below {loss:%}: "
        "steady the workload or its machine before it is blessed"
    ),
    "both-sides-are-one-commit": Text(
        "both sides are commit {commit}: {revision} is what is checked out, without changes, so "
        "no change of the code can be found"
    ),
    "measured-uncommitted": Text(
        "Measured with uncommitted changes ({paths:list}): a baseline of these runs would have no "
        "A/B run. Commit or ignore them, and gate again, before it is blessed"
    ),
}
_PLAN: Final[Mapping[str, Text]] = {
    "plan-nothing": Text("nothing to measure while its baseline cannot be read"),
    "plan-to-show": Text("{spending}, to be shown: there is nothing to compare with"),
    "plan-counts": Text("{spending}, for its counts"),
    "plan-if-inconclusive": Text("if that is inconclusive: up to {spending} more"),
    "plan-cannot-pass": Text(
        "{runs:run|runs} cannot pass: that takes {needed} (--perfgate-max-runs={needed})"
    ),
    "plan-holds": Text("holds {losses:list}"),
    "held-loss": Text("{metric} to {loss:loss}"),
    "plan-runs": Text("{number:run|runs}"),
    "plan-pairs": Text("{number:A/B pair|A/B pairs}"),
    "plan-blocks": Text("{number:A/B pair|A/B pairs} in blocks"),
    "plan-time": Text("about {seconds:s}{at_most}"),
    "plan-at-most": Text(", at most {seconds:s}"),
}
_WHAT_TO_DO = (
    "gate with the variables and options that it was blessed with, or, if it was renamed or "
    "deleted on purpose, delete its baseline"
)
_CLOSING: Final[Mapping[str, Text]] = {
    "nothing-collected": Text("no workload was collected, so nothing was measured"),
    "expected-not-measured": Text("{workload}: it was expected, and not measured"),
    "workload-shuts": Text("{workload}: {outcome}"),
    "orphan": Text(
        "{workload}: it has a baseline for this machine, and no such workload was collected; "
        f"{_WHAT_TO_DO}"
    ),
    "orphan-of-file": Text(
        "{workload}: it has a baseline for this machine, measured from {file}, which does not "
        f"declare it now; {_WHAT_TO_DO}; if it was moved, bless it where it is"
    ),
    "orphan-perhaps-skipped": Text(
        "{workload}: it has a baseline for this machine, and was not collected; it may be in what "
        "was skipped: {files:list}"
    ),
    "gpus-lost": Text(
        "{workloads:list}: blessed on {gpus:list}, and not measured on this machine, which reads "
        "as {machine}; see what the driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or, if this "
        "machine is meant, pass --perfgate-machine={machine}"
    ),
    "not-kept": Text("{workload}: {failure}"),
}

TEXT: Final[Mapping[str, Text]] = {
    **_EXPECTED,
    **_ALIKE,
    **_SIDE,
    **_NEXT_TO_VERDICT,
    **_PLAN,
    **_CLOSING,
}
"""By code."""
