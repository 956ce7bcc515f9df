"""What the judge says: of each metric, of a verdict as a whole, and what to do."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_BLESS: Final = 'perfgate bless {workload:sh} --reason "..."'

_COUNTS: Final[Rows] = {
    "count-rose": "rose from {limit:count} to {now:count} per step",
    "count-rose-in-only": (
        "rose from {limit:count} to {now:count} per step, in the only run allowed"
    ),
    "count-rose-in-first": (
        "rose from {limit:count} to {now:count} per step, to be confirmed by a second run"
    ),
    "count-rose-once": "rose above {limit:count} per step in 1 of {runs:run|runs}, not confirmed",
    "count-rose-by-chance": (
        "rose above {limit:count} per step, as it varies by itself in {chance:short%} of gates"
    ),
    "count-fell": "fell from {least:count} to {now:count} per step",
    "count-fell-in-some": "fell from {least:count} per step in some of {runs:run|runs}",
    "count-same": "unchanged (exact)",
    "count-within": "within its maximum of {limit:count} per step (not exact)",
    "count-of-process": (
        "{count}, in a process that had less of it than the most of the {processes}"
    ),
}

_TIMES: Final[Rows] = {
    "time-changed": "{change:change of unit}, budget {budget:limit of unit}",
    "share-changed": "{change:change of unit} of a step, budget {budget:limit of unit}",
    "idle-costs-nothing": (
        "{change:change of unit} of a step, budget {budget:limit of unit}; but the step is not "
        "longer by so much"
    ),
    "time-zero": (
        "0 in {before} of {of:baseline run|baseline runs} and in {now} of {runs:run|runs}, "
        "which leaves no relative change to judge"
    ),
    "times-too-far-apart": "its values lie too far apart to be compared",
    "without-step": "the baseline has no step time to measure it against{why}",
}

_ROWS: Final[Rows] = {
    "only-shown": "shown, not gated",
    "not-comparable": "not comparable",
    "graphs-for-launches": "not judged: CUDA graphs have replaced launches; the step decides",
    "only-estimated": "not judged: a loss settled the gate after {runs:run|runs}",
    "new-to-gate": "in {having} of {runs:baseline run|baseline runs}, not gated: bless to gate it",
    "new-to-show": "in {having} of {runs:baseline run|baseline runs}; shown, not gated",
    "missing-in-runs": "not measured in {without} of {runs:run|runs}{why}",
    "metric-is": "{metric} {what}",
}

_PASSED: Final[Rows] = {
    "within-budget": (
        "Within budget: {times:time metric|time metrics} and {counts:count|counts}, {made}{against}"
    ),
    "against-blessed": " against {runs} blessed",
    "number-of-runs": "{number:run|runs}",
    "number-of-pairs": "{number:A/B pair|A/B pairs}",
    "number-of-blocks": "{number:A/B pair|A/B pairs} in blocks",
}

_OPEN: Final[Rows] = {
    "unsettled": ("Not settled by {made}", "", "Measure more and judge again"),
    "too-few": "{made} cannot pass, which takes {fewest}",
    "open": (
        "{what}",
        "",
        (
            "More runs do not help while this lasts. Steady what makes it vary (seeds, shapes, "
            "batch lengths); the runs' captures and logs may show it"
        ),
    ),
    "open-two-modes": (
        (
            "{what}; yet runs of one side lie far apart, as where a workload has two modes, or its "
            "machine two speeds, and one of them was met more often by chance"
        ),
        "",
        (
            "Gate again. If it stays so, steady the workload or its machine: what do its slow runs "
            "share?"
        ),
    ),
    "open-slow-runs": (
        (
            "{what}; yet {slow} of {runs:process|processes} took longer{farthest}, {other_slow} of "
            "{other_runs} of the other side's"
        ),
        "",
        (
            "Find what the slow processes share: another core, a neighbour, an allocator, a cache. "
            "If the other side has them as often, gate again"
        ),
    ),
    "slow-up-to": " (up to {longer:short%})",
    "open-at-budget": (
        "{what}: neither shown to be within it nor beyond it",
        "The smallest loss that {made} can show here is {smallest:loss}",
        (
            "Its runs differ by {sd:short%} (SD): {settle}steady the workload, or set a wider "
            "budget for {metric}"
        ),
    ),
    "let-pairs-settle": (
        'let an A/B run settle it (ab_run = "auto" in [tool.perfgate], and a baseline of a '
        "commit), "
    ),
    "shut-by-few-runs": "So few runs keep the gate shut, whatever the setting `inconclusive` is",
    "shut-by-size": (
        "{metric} may have risen by two budgets or more: the gate stays shut, whatever the setting "
        "`inconclusive` is"
    ),
}

_NEXT: Final[Rows] = {
    "allow": "Allow {made}: pytest --perfgate --perfgate-max-runs={most}",
}

_NOT_MEASURED: Final[Rows] = {
    "gates-nothing": "it holds no metric that is gated",
    "not-all-judged": (
        "Not all that the baseline gates could be judged: {rows:list;}",
        "",
        (
            "See the runs' captures and logs for the cause. If this is meant, delete the "
            "baseline's "
            f"file, gate once more and bless anew: {_BLESS}"
        ),
    ),
}

_MOVED: Final[Rows] = {
    "metrics-moved": "{rows:list;}",
    "regressed": (
        "{what}",
        "{also}",
        f"If this is meant, {{bless_it}}: {_BLESS} --accept-regression",
    ),
    "improved": ("{what}", "{also}", f"To hold the gain, {{bless_it}}: {_BLESS}"),
    "bless-it": "bless it",
    "gate-and-bless": "gate with --perfgate-runs={fewest} (what a baseline needs) and bless it",
    "also-regressed": "Also regressed: {metrics:list}",
    "also-improved": "Also improved: {metrics:list}",
    "headline": "{lead}{estimate}{cause}{part}{step}",
    "moved": "{change:change of unit} {metric} ({before:of metric} to {now:of metric} ms)",
    "moved-to": "{metric} {before:of metric} to {now:of metric}",
    "moved-to-ms": "{metric} {before:of metric} to {now:of metric} ms",
    "unmoved": "{metric} unchanged ({now:of metric} ms)",
    "estimate-of-runs": ", an estimate from {runs:run|runs}",
    "estimate-of-pairs": ", an estimate from {runs:pair|pairs}",
    "because": ": {what}",
    "and-step": "; {what}",
    "under-range": " under `{range}`",
    "more-under-range": ": {metric} +{ms:ms} ms under `{range}`",
    "less-under-range": ": {metric} -{ms:ms} ms under `{range}`",
    "shown-by-holm": "Shown now that the other workloads' losses are (Holm)",
}

_ANCHOR: Final[Rows] = {
    "anchor-lost": (
        (
            "step_ms {change:change of unit} against the best ever blessed, budget "
            "{budget:short%}: small losses, each of which was let through, have added up"
        ),
        "{path:list;}; {now:ms} ms now",
        f"Win it back, or accept where it has come to: {{bless_it}}: {_BLESS} --accept-regression",
    ),
    "blessed-at": "{step_ms:ms} ms ({day})",
    "blessed-at-commit": "{step_ms:ms} ms ({day}, {commit})",
}

_NOTES: Final[Rows] = {
    "budget-without-effect": "the budget of {metrics:list} has no effect: shown, and not gated",
    "clock-moved": "the SM clock was {then_mhz} MHz in the baseline and {now_mhz} MHz now",
    "kernels-follow": "{clock}: kernel time follows it",
}

TEXT: Final[Rows] = {
    code: text
    for texts in (
        _COUNTS,
        _TIMES,
        _ROWS,
        _PASSED,
        _OPEN,
        _NEXT,
        _NOT_MEASURED,
        _MOVED,
        _ANCHOR,
        _NOTES,
    )
    for code, text in texts.items()
}
