"""What `perfgate explain` puts together: two sides, the captures behind them, and what nsys's rules
find in these."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from perfgate.explain.advice import advise, classify
from perfgate.explain.nvidia import rule_changes
from perfgate.explain.ranks import rank_notes
from perfgate.explain.sides import (
    as_judged,
    differences,
    made_up_of,
    side_of_capture,
    side_of_result,
)
from perfgate.explain.traces import lacking, traced_unlike
from perfgate.metrics.measure import measure
from perfgate.metrics.placing import place
from perfgate.model.comparison import ComparedSides, Explanation, Side
from perfgate.model.errors import (
    BaselineMissing,
    NsysNotFound,
    PerfgateError,
    ResultMissing,
)
from perfgate.model.note import Note, note, noted, quoted
from perfgate.model.reports import Placing, RuleChanges
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict
from perfgate.model.workload import StepRule
from perfgate.profilers.nsys.reports import run_rules
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import read
from perfgate.store import KeptResult, Store
from perfgate.system.files import temporary_folder
from perfgate.views.captures import (
    Capture,
    FindTool,
    baseline_results,
    blessed_since,
    opened,
    typical_capture,
)

LARGEST_ASKED: Final = 48_000_000
"""Bytes of an export up to which nsys's rules are asked unless somebody wants it.

For a million operations, 119 MB of export, nsys 2024.2 took some 30 s.
"""

LOOKED_AT: Final = ("kernels", "calls")
"""By nsys's rules, which find nothing where a capture lacks them."""

OTHER_COMMIT: Final = note("side-other-commit")
"""What the runs of another commit are called where nobody noted which it is."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One of the two that are compared."""

    side: Side
    capture: Capture | None = None
    """Of a kept result that of its typical run; None where none is at hand."""
    ranks: Sequence[Note] = ()


def of_capture(path: Path, *, step: str | None, find_tool: FindTool, held: ExitStack) -> Subject:
    """Any capture as a subject.

    Raises:
        PerfgateError: it cannot be read, or holds no such steps.
    """
    exported, timeline = opened(path, find_tool, held)
    rule: StepRule = {"step": step, "is_pattern": True}
    samples = measure(timeline, **rule)
    run = Run(started_at=datetime.now(UTC), wall_s=0.0, processes=samples)
    return Subject(
        side=side_of_capture(str(path), run, missing=timeline.missing),
        capture=Capture(export=exported, rule=rule),
        ranks=rank_notes([run]),
    )


def of_result(
    kept: KeptResult, *, runs: Sequence[Run] | None = None, label: Note | str | None = None
) -> Subject:
    """The runs of a kept result, or some of them, as a subject.

    Raises:
        ResultMissing: there are none, as it was not measured.
    """
    result = kept.result
    made = tuple(result.interleaved_runs or result.runs if runs is None else runs)
    if not made:
        raise ResultMissing(
            "result-without-runs",
            workload=result.workload.id,
            folder=os.path.relpath(kept.folder),
            outcome=result.verdict.outcome.value,
            why=result.verdict.why,
            folders=os.path.relpath(kept.folder.parent),
        )
    side = side_of_result(
        label or os.path.relpath(kept.folder), result.model_copy(update={"runs": made})
    )
    return Subject(
        side=side,
        capture=typical_capture(kept, made),
        ranks=rank_notes(made),
    )


def compared_with(kept: KeptResult, store: Store) -> tuple[Subject, Verdict | None]:
    """What a kept result was compared with, the other commit's runs or the baseline, and what the
    gate said of it; None where the baseline is another by now.

    Raises:
        BaselineMissing: nothing.
    """
    result = kept.result
    said = None if result.verdict.stage is None else result.verdict
    if result.reference_runs:
        ab_run = result.verdict.ab_run
        label = note("side-next-to-it", commit=ab_run.commit[:12]) if ab_run else OTHER_COMMIT
        return of_result(kept, runs=result.reference_runs, label=label), said
    slug, name = result.machine.slug, result.workload.id
    baseline = store.baselines.load(slug, name)
    if baseline is None:
        was = result.verdict.baseline_runs > 0
        code = "compared-baseline-gone" if was else "compared-with-nothing"
        raise BaselineMissing(code, workload=name, machine=slug)
    path = os.path.relpath(store.baselines.path(slug, name))
    label = quoted(path)
    if (since := blessed_since(baseline, result)) is not None:
        label = note("side-blessed-since", path=path, at=f"{since:%Y-%m-%d %H:%M}")
    blessed = baseline_results(store, result, baseline)
    captures = (typical_capture(one, one.result.runs) for one in blessed)
    subject = Subject(
        side=Side.of_baseline(label, baseline),
        capture=next((one for one in captures if one is not None), None),
    )
    return subject, said if since is None else None


def compared(a: Subject, b: Subject) -> ComparedSides:
    """How two subjects differ, without judging."""
    unlike = traced_unlike(a.side, b.side)
    return ComparedSides(
        a=a.side,
        b=b.side,
        rows=differences(a.side, b.side),
        warnings=() if unlike is None else (unlike,),
    )


def explained(
    a: Subject, b: Subject, verdict: Verdict | None, rules: RuleChanges | None, *, full: bool
) -> Explanation:
    """How two subjects differ and where; `verdict` is the gate's of them, `rules` what nsys finds;
    with `full`, kernels bear their whole names."""
    found = compared(a, b)
    rows = found.rows if verdict is None else as_judged(found.rows, verdict)
    return Explanation(
        a=a.side,
        b=b.side,
        rows=rows,
        warnings=found.warnings,
        attributions=made_up_of(a.side, b.side, rows, full=full),
        verdict=verdict,
        ranks=tuple(b.ranks),
        classified=classify(b.side.breakdown),
        advice=advise(b.side.breakdown),
        rules=rules,
    )


def rules_on(
    before: Subject, now: Subject, find_tool: FindTool, *, asked: bool | None
) -> RuleChanges | None:
    """Let nsys apply its expert rules to the captures that are at hand; never fails.

    `asked` None leaves out captures that are larger than `LARGEST_ASKED`, False all of them: None
    is returned then.
    """
    if asked is False:
        return None
    if now.capture is None:
        return RuleChanges(why_not=note("rules-no-capture"))
    if asked is None and now.capture.export.stat().st_size > LARGEST_ASKED:
        return RuleChanges(why_not=note("rules-too-large", limit_bytes=LARGEST_ASKED))
    try:
        tool = find_tool()
        placed = _placed(now.capture, tool)
        blind = tuple(kind for kind in lacking(now.side) if kind in LOOKED_AT)
        if blind and not placed:
            return RuleChanges(why_not=note("rules-blind", kinds=blind))
        if before.capture is None:
            return rule_changes(None, placed, why_alone=note("rules-alone"))
        # What a side did not record no rule can find there: that is not new on the other.
        if alone := traced_unlike(before.side, now.side):
            return rule_changes(None, placed, why_alone=alone)
        return rule_changes(_placed(before.capture, tool), placed)
    except NsysNotFound:
        return RuleChanges(why_not=note("rules-no-nsys"))
    except PerfgateError as failed:
        return RuleChanges(why_not=noted(failed))


def _placed(capture: Capture, tool: NsysTool) -> Placing:
    with temporary_folder("rules") as folder:
        findings = run_rules(tool, capture.export, folder)
    return place(findings, read(capture.export), **capture.rule)
