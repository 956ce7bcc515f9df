"""What is said of blessing: why a result may not become a baseline, and what to know of one."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_SOUND: Final = "Only a sound measurement can be a baseline"
_REPEATS: Final = (
    "Unchanged repeats are of the blessed code, parameters, machine and counts; the baseline is "
    "as it was"
)
_GO_BACK: Final = (
    "Go back to what is blessed, or calibrate by what is kept of it: perfgate calibrate --kept "
    "{workload:sh}"
)
_AGAIN: Final = "Measure again: pytest --perfgate {selector}"

TEXT: Final[Rows] = {
    "bless-without-reason": (
        "no reason was given",
        "A baseline says why it is one",
        'Say why: perfgate bless --reason "..."',
    ),
    "bless-in-ci": (
        "this is CI",
        "A baseline is blessed by someone who looked at what it changes",
        "Bless at a desk and commit the file, or say that CI may: --allow-ci",
    ),
    "bless-unsound": ("{workload}: {why}", _SOUND, _AGAIN),
    "bless-run-unsound": "run {run}: {why}",
    "bless-inconclusive": (
        "{workload}: the kept result is INCONCLUSIVE: {reason:raw}",
        _SOUND,
        "Measure again: pytest --perfgate --perfgate-runs=10 {selector}",
    ),
    "bless-of-outcome": "the kept result is {outcome}: {reason:raw}",
    "bless-metric-in-some-runs": "{metric} was measured in {having} of {runs:run|runs}",
    "bless-stale": (
        "{workload}: {why}",
        "A baseline must be of the code next to it",
        "Measure what is there now: pytest --perfgate {selector}",
    ),
    "bless-code-unknown": "the kept result does not say which files it ran",
    "bless-code-changed": (
        "the kept result is of other code: {files:list} changed since it was measured"
    ),
    "bless-nothing-measured": "the last gate measured nothing: it was {outcome}",
    "bless-too-few-runs": (
        "{workload}: {runs:run|runs} over {occasions:occasion|occasions} can be blessed",
        "A baseline needs at least {fewest}; runs of the same code, machine and speed are joined",
        (
            "Measure more: pytest --perfgate --perfgate-runs={fewest} {selector}\n"
            "Then bless again: perfgate bless {workload:sh} {options}--reason {reason:sh}\n"
            "In GitHub Actions, start the workflow perfgate with runs: {fewest}, then ask again."
        ),
    ),
    "bless-loss": (
        "{workload}: {why}",
        "A loss that is not shown to be within its budget is not blessed in passing",
        (
            "Fix it, or say that it is meant: perfgate bless {workload:sh} --accept-regression "
            '--reason "..."'
        ),
    ),
    "bless-regressed": "it REGRESSED: {reason:raw}",
    "bless-count-rose": "{metric} {reason:raw}",
    "bless-time-rose": (
        "{metric} rises by {change:%} over what is blessed now, its budget is {budget:%}"
    ),
    "bless-share-rose": (
        "{metric} rises by {change:%} of a step over what is blessed now, its budget is {budget:%}"
    ),
    "bless-coarse": (
        (
            "{workload}: its runs took {lowest:ms} to {highest:ms} ms a step: stored runs could "
            "hold no budget of step_ms below {smallest:loss}. {why}"
        ),
        "A baseline must hold {coarsest:short%}, or be of a commit that can be run again",
        (
            "Steady the workload or its machine, or measure at a commit without changes (ab_run "
            "not off); to bless it as it "
            'is: perfgate bless {workload:sh} --reason "..." --hold auto'
        ),
    ),
    "occasion-of-no-baseline": (
        "{workload}: it has no baseline on {gpu} that an occasion could be added to",
        "An occasion repeats what is blessed",
        'Make one: perfgate bless {workload:sh} --reason "..."',
    ),
    "occasion-no-room": (
        "{workload}: of {blessed} blessed runs and {more} more, {left} would be left",
        "A baseline holds {most} runs, and the oldest occasions make room",
        "Measure fewer at once: pytest --perfgate --perfgate-runs={fewest} {selector}",
    ),
    "occasion-no-repeat": (
        "{workload}: the kept result is {why}",
        "Only an unchanged repeat of what is blessed is an occasion of it",
        'Repeat it as it was blessed, or bless anew: perfgate bless {workload:sh} --reason "..."',
    ),
    "occasion-regressed": (
        "{workload}: it REGRESSED: {reason:raw}",
        "The code is the blessed one, so what moved is the machine: look at it first",
        "Look at what moved: perfgate explain {workload:sh}",
    ),
    "occasion-other-speed": (
        "{workload}: its runs are of another speed than the blessed ones",
        (
            "The code is the blessed one, so what moved is the machine, its packages or its data: "
            "look at it first"
        ),
        "Look at what moved: perfgate compare {workload:sh} {workload:sh}:kept",
    ),
    "occasion-not-judged": (
        "{workload}: the kept result is {outcome}: {reason:raw}",
        "An occasion is added once a gate has held it against what is blessed",
        "Measure it again: pytest --perfgate {selector}",
    ),
    "occasion-not-another": (
        "{workload}: what was measured at {at} is of an occasion that is in the baseline",
        (
            "Within {minutes} minutes a GPU is in one state: more runs of it say nothing of other "
            "hours"
        ),
        "Measure it at another time of day: pytest --perfgate {selector}",
    ),
    # Why a kept result is no repeat of what is blessed
    "repeat-other-parameters": "of other parameters",
    "repeat-unsound": "{outcome}",
    "repeat-other-machine": "of another machine ({names:list,})",
    "repeat-other-step-value": "of another value of step_ms",
    "repeat-other-code": "of other code",
    "repeat-code-unknown": "not shown to be of the blessed code",
    "repeat-other-counts": "of other counts",
    "repeat-lacks-metric": "without {metric} in some run",
    # What to know of a baseline
    "never-an-ab-run": "{why}: there will be no A/B run with it",
    "no-ab-run-no-commit": "It was not measured at a commit, so no gate can run it again",
    "no-ab-run-uncommitted": "It was measured with uncommitted changes, which no commit holds",
    "no-ab-run-by-settings": "The settings leave no A/B run",
    "commit-not-on-branch": (
        "Its commit is not on {branch}: after a squash or a rebase no branch will hold it",
        (
            "Gates then run a commit with the same files, or fetch it from the remote as long as "
            "that keeps it"
        ),
    ),
    "counts-exact": "counts exact",
    "has-budget": "{metric} {loss:short%}",
    "held-to": "{metric} to {loss:short%}",
    "holds": "{held:list,}",
    "cannot-be-held": (
        (
            "A gate can hold {wider:list} here, and is INCONCLUSIVE below that now and then, which "
            "shuts it; {guards:list} guard it at their own budgets"
        ),
        "",
        (
            "Add occasions (--occasion), let A/B runs settle it (a baseline of a commit, A/B run "
            "not "
            'off), or write the wider budgets: perfgate bless {workload:sh} --reason "..." --hold '
            "auto"
        ),
    ),
    "costs-nothing": (
        "{runs:run|runs} over {occasions:occasion|occasions}, without step times that something "
        "can be compared with: only counts can be judged"
    ),
    "costs": (
        "{runs:run|runs} over {occasions:occasion|occasions}: without A/B runs a gate holds "
        "{held:list}"
    ),
    "costs-fewer": (
        "{runs:run|runs} over {occasions:occasion|occasions}: without A/B runs a gate holds "
        "{held:list}; with {wanted_runs} over {wanted_occasions} it would be {then:list}"
    ),
    "repeat-unreadable": "that cannot be read",
    "of-results": "{n} {why}",
    # What to know of a calibration
    "few-occasions": (
        "{occasions} of the {wanted} occasions wanted: run this again at other times of day, and "
        "the default weighs less in the SD between occasions"
    ),
    "repeats-regressed": (
        "{n:kept result|kept results} {n:~was|were} REGRESSED",
        (
            "The code is the blessed one, so it counts: what moved was the machine, and is in the "
            "SD between occasions"
        ),
    ),
    "repeats-dropped": (
        "{n:run|runs} dropped as {n:~an outlier|outliers} of {metric}",
        "Its SDs are of {runs} of the {of} runs",
    ),
    "not-calibrated": "{metric} is not calibrated: it is 0 in some run, or out of all bounds",
    "results-left-out": "Kept results left out: {reasons:list,}",
    "calibrate-nothing-gated": (
        "{workload}: the baseline holds no time with a budget of which an SD could be shown",
        "Counts are exact and need no calibration",
        "See what it holds: perfgate show {workload:sh}",
    ),
    "calibrate-code-changed": (
        "{workload}: {files:list} changed since it was blessed",
        _REPEATS,
        _GO_BACK,
    ),
    "calibrate-no-result": (
        "{workload}: the gate left no result of it",
        "Its runs were to be the repeats",
        "See what pytest says above.",
    ),
    "calibrate-no-repeat": (
        "{workload}: what was measured just now is {why}, and no repeat of what is blessed",
        _REPEATS,
        f"See its verdict above. {_GO_BACK}",
    ),
    # Merged gates
    "merge-no-gate": "{folder}: there is no {file} in it, nor below it",
    "merge-no-folder": "{folder}: no folder that can be listed ({why})",
    "merge-folder-is-link": "{folder}: a link to a folder of a gate, which is not followed",
    "merge-document-unreadable": (
        "{path:quote}: {why}",
        "It should be what --perfgate-{option} writes",
        "Let the gate write it anew, with the perfgate that merges.",
    ),
    "merge-no-plain-file": "it is no plain file, or a link, which is not followed",
    "merge-not-readable": "it cannot be read ({why})",
    "merge-too-large": "it is larger than {largest}",
    "merge-other-format": "it is not of the format that this perfgate reads ({problem:quote})",
    "merge-of-merged": (
        "{path:quote}: it is of gates that were merged before",
        "Merged are the documents of gates themselves",
        "Name the folders of the gates, and write what is merged elsewhere.",
    ),
    "merge-page-of-another-gate": (
        "{path:quote}: it is of another gate than the {document} next to it",
        "",
        "Take both from one gate.",
    ),
    "merge-page-left-out": "the page of the gate in {folder:quote} is left out: {why}",
    "merge-not-as-expected": (
        "{expected:gate|gates} {expected:~was|were} expected, and {found:gate|gates} found: "
        "{gates:list}"
    ),
    "merge-nothing-judged": "no workload was judged, so nothing is known",
    "merge-gate-twice": "{gate}: one gate is in {folders:list}, and a gate counts once",
    "merge-several-commits": (
        "the gates are of several commits, and a verdict is of one: {gates:list}"
    ),
    "merge-commit-unknown": "{gate}: it does not say at which commit it was measured",
    "merge-shards-missing": (
        "{n:~shard|shards} {shards:list} on {gpu} {n:~is|are} missing",
        "Shards that divided the same workloads make up a gate",
        (
            "Give all shards the same options, environment and parameters, and skip by a mark what "
            "a file skips by itself."
        ),
    ),
    "merge-contradicts-itself": (
        "{gate}: {file:quote} contradicts itself in whether the gate is open",
        "",
        "Gate this anew.",
    ),
    "merge-outcome-unlike": (
        "{gate}: {file:quote} does not hold what its outcome of {workloads:list} is of",
        "An outcome that opens a gate is of a machine, of runs and of metrics that open it",
        "Gate this anew.",
    ),
    "merge-shard-of-what": (
        "{gate}: {file:quote} does not say which workloads the shards divided",
        "One that fell to none of them would not be missed",
        "Gate all shards anew, with the perfgate that merges.",
    ),
    "merge-shard-lacks": (
        (
            "{gate}: {file:quote} says that it is open, and holds no verdict of {workloads:list}, "
            "which "
            "fell to it"
        ),
        "",
        "Gate this shard anew.",
    ),
    "merge-judged-twice": "{workload} on {gpu}: several gates judged it ({gates:list})",
    "merge-with-changes": "Measured with uncommitted changes: {gates:list}",
    "merge-part-chosen": "{gate}: {choice:quote}",
    "merge-without-page": (
        "Without blessed runs, timelines and history on the page, for want of a {file}: "
        "{gates:list}"
    ),
    "demo-run-damaged": (
        "{archive}: the recorded run cannot be unpacked ({why:raw})",
        "",
        "Reinstall perfgate.",
    ),
}
